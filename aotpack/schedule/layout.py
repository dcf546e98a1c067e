"""Choose the memory order of dimensions of each intermediate, by the accesses to it.

Inputs, weights and outputs are contiguous by contract; so are buffers that scatters overwrite and
that foreign calls and control flow touch. Derived weights are laid out as their readers want them,
and ``given`` tells the weight program how. A buffer that its readers see transposed (attention
output read as [b, s, h*d]) is written that way, so no transpose is ever run.
"""

from collections.abc import Mapping
from dataclasses import replace
from itertools import permutations
from types import MappingProxyType

from aotpack.ir.foreign import Foreign
from aotpack.ir.kernels.access import (
    Access,
    accesses,
    contiguous,
    digit_count,
    local_slope,
    slope,
)
from aotpack.ir.kernels.kernel import Kernel
from aotpack.ir.kernels.rows import buffer_bytes
from aotpack.ir.operations import Matmul, Scatter
from aotpack.ir.program import Branch, Buffer, Loop, Program, concats_by_part, read_whole, targets
from aotpack.ir.symbolic.facts import typical
from aotpack.ir.symbolic.integers import Axis, Int, Quotient, Remainder

MAX_RANK = 5  # beyond, only the order of the operation itself is considered


def choose_strides(
    program: Program,
    kernels: tuple[Kernel, ...],
    given: Mapping[str, tuple[Int, ...]] = MappingProxyType({}),
) -> dict[str, tuple[Int, ...]]:
    """Choose the memory order of each buffer's dimensions by the accesses to it."""
    fixed = contiguous_by_contract(program)
    uses: dict[str, list[Access]] = {}
    whole = concats_by_part(program)
    for kernel in kernels:
        for access in accesses(kernel):
            name = whole.get(access.buffer, access.buffer)
            uses.setdefault(name, []).append(replace(access, buffer=name))
    strides: dict[str, tuple[Int, ...]] = {}
    for name, buffer in program.buffers.items():
        strides[name] = contiguous(buffer.shape)
        if name in uses and name not in fixed and 2 < len(buffer.shape) <= MAX_RANK:
            strides[name] = _cheapest(buffer, uses[name])
    strides |= given
    return strides | {part: strides[name] for part, name in whole.items()}


def contiguous_by_contract(program: Program) -> set[str]:
    """The buffers that code other than our loops accesses: row-major without gaps."""
    fixed = {*program.inputs, *program.weights, *program.results} - {*program.derived}
    for operation in program.operations:
        fixed.update(read_whole(operation))
        if isinstance(operation, (Scatter, Foreign, Branch, Loop)):
            fixed.update(targets(operation))
    return fixed


def _cheapest(buffer: Buffer, uses: list[Access]) -> tuple[Int, ...]:
    best = contiguous(buffer.shape)
    best_cost = _cost(buffer.name, best, uses)
    if best_cost[:3] == (0, 0, 0):
        return best
    last = len(buffer.shape) - 1
    orders = sorted(permutations(range(last + 1)), key=lambda dims: dims[-1] != last)
    for dims in orders:  # of equal costs, an order that keeps the rows wins
        strides = _permuted(buffer.shape, dims)
        cost = _cost(buffer.name, strides, uses)
        if cost < best_cost:
            best, best_cost = strides, cost
    return best


def _permuted(shape: tuple[Int, ...], dims: tuple[int, ...]) -> tuple[Int, ...]:
    """Strides for a memory order of dimensions, outermost first."""
    by_dim = dict(zip(dims, contiguous(tuple(shape[dim] for dim in dims)), strict=True))
    return tuple(by_dim[dim] for dim in range(len(shape)))


def _cost(name: str, strides: tuple[Int, ...], uses: list[Access]) -> tuple[int, int, int, int]:
    """(scattered windows, accesses without a unit-stride axis, divisions, terms): few are good."""
    offsets = [access.offset({name: strides}) for access in uses]
    windows = sum(map(_is_scattered_window, uses, offsets))
    scattered = sum(not _has_unit_step(offset) for offset in offsets)
    return windows, scattered, sum(map(digit_count, offsets)), sum(len(o.terms) for o in offsets)


def _is_scattered_window(access: Access, offset: Int) -> bool:
    """True for a factor whose sum has several digits, the last of them not along memory.

    A convolution reads its input many times, so this counts first.
    """
    operation = access.member.operation
    if not isinstance(operation, Matmul) or not _has_digits(access.index, operation.k):
        return False
    return local_slope(offset, operation.k) != 1


def _has_unit_step(offset: Int) -> bool:
    axes = [leaf for leaf in offset.leaves() if isinstance(leaf, Axis)]
    return not axes or any(slope(offset, axis) == 1 for axis in axes)


def _has_digits(index: tuple[Int, ...], axis: Axis) -> bool:
    """True when an index takes digits of an axis."""
    atoms = (atom for part in index for atom in part.atoms())
    return any(
        axis in atom.num.leaves() for atom in atoms if isinstance(atom, (Quotient, Remainder))
    )


def typical_bytes(buffer: Buffer) -> int:
    """The memory a buffer takes at typical sizes."""
    return typical(buffer_bytes(buffer))
