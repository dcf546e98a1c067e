"""Loop interchange: kernels visit points in the order in which most of their bytes lie in memory.

Windows of convolutions want channels innermost. A group norm between two of them reduces over
(channel, row, column): in row-major order it would store single elements far apart.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from aotpack.ir.kernels.access import (
    Strides,
    accesses,
    axes_in,
    delinearize,
    places,
)
from aotpack.ir.kernels.kernel import Kernel, Member
from aotpack.ir.operations import Reduction, Scan
from aotpack.ir.ops.monoids import MONOIDS
from aotpack.ir.program import Program
from aotpack.ir.symbolic.division import exact_quotient
from aotpack.ir.symbolic.facts import typical
from aotpack.ir.symbolic.integers import Axis, Indirect, Int, Quotient, Remainder, total
from aotpack.schedule.layout import (
    choose_strides,
    contiguous_by_contract,
    is_free_to_permute,
    is_window,
    slid_dims,
    typical_bytes,
)

SECTOR_BYTES = 32  # the least that a GPU moves between L2 and memory


@dataclass(frozen=True, slots=True)
class Digit:
    """A loop inside a flattened axis: ``axis // below % size``."""

    axis: Axis
    below: Int
    size: Int


@dataclass(frozen=True, slots=True)
class Walk:
    """An access of a kernel: the step in memory of each digit, and the bytes that it moves."""

    steps: Mapping[Digit, int]
    itemsize: int
    moved: int


def interchange_loops(
    program: Program,
    kernels: tuple[Kernel, ...],
    strides: Strides,
    given: Strides,
    expected: Strides,
) -> tuple[tuple[Kernel, ...], Strides]:
    """Order the loops of each kernel as the tensors lie that it reads and writes.

    First as those lie whose order is settled, by contract or by windows. The others follow, and
    then all count.

    ```text
    y: channels innermost                           y: channels innermost; t too, which is free
    for x, r: y[r // HW, r % HW] = t[...] - m  ->   for x, r: y[r % C, r // C] = t[...] - m
    ```
    """
    settled = contiguous_by_contract(program) | _read_by_windows(kernels)
    settled |= {name for name, one in program.buffers.items() if not is_free_to_permute(one)}
    for counted in (settled, set(program.buffers)):
        moved = tuple(_interchanged(kernel, program, strides, counted) for kernel in kernels)
        if all(new is old for new, old in zip(moved, kernels, strict=True)):
            continue
        kernels = moved
        strides = choose_strides(program, kernels, given, expected=expected)
    return kernels, strides


def _read_by_windows(kernels: tuple[Kernel, ...]) -> set[str]:
    """The buffers that products read with several digits of a sum, and those of other windows."""
    return set(slid_dims(kernels, is_host=False)) | {
        access.buffer
        for kernel in kernels
        for access in accesses(kernel)
        if not access.is_store and is_window(access)
    }


def _interchanged(kernel: Kernel, program: Program, strides: Strides, counted: set[str]) -> Kernel:
    """The kernel with the digits of each axis in the order that wastes the fewest bytes."""
    if not _is_free(kernel):
        return kernel
    split: dict[Axis, Int] = {}
    number: dict[Axis, Int] = {}
    for axis in kernel.axes:
        digits = digits_of(kernel, axis)
        if len(digits) < 2:
            continue
        walks = list(_walks(kernel, digits, program, strides, counted))
        best = min(_orders(digits, walks), key=lambda order: _waste(order, walks))
        if best != digits:
            loops = {d: Axis(f"{axis}.{place}", d.size) for place, d in enumerate(digits)}
            split[axis] = total(Int.of(loop) * digit.below for digit, loop in loops.items())
            number |= delinearize(tuple(loops[digit] for digit in best), Int.of(axis))
    if not split:
        return kernel
    members = tuple(_moved(member, split, number) for member in kernel.members)
    return replace(kernel, members=members)


def _is_free(kernel: Kernel) -> bool:
    """True for loops that may run in any order: no scan, and no extreme that keeps positions."""
    if kernel.is_opaque or kernel.template_op is not None or kernel.scatter is not None:
        return False
    operations = [member.operation for member in kernel.members]
    return not any(
        isinstance(one, Scan) or (isinstance(one, Reduction) and MONOIDS[one.kind].needs_order)
        for one in operations
    )


def digits_of(kernel: Kernel, axis: Axis) -> tuple[Digit, ...]:
    """The loops of an axis that its members tell apart, outermost first; one if they disagree."""
    found = {Int.of(1)}
    for member in kernel.members:
        for _, value in member.binding:
            found.update(_cuts(value, axis))
    cuts = sorted(found, key=lambda cut: (typical(cut), cut.text))
    digits: list[Digit] = []
    for below, above in zip(cuts, [*cuts[1:], axis.extent], strict=True):
        size = exact_quotient(above, below)
        if size is None:
            return ()
        if size.constant != 1:
            digits.append(Digit(axis, below, size))
    return tuple(reversed(digits))


def _cuts(value: Int, axis: Axis) -> Iterator[Int]:
    """What an index divides an axis by: 4 and 12 in ``axis // 4 % 3``."""
    for atom in value.atoms():
        if isinstance(atom, Quotient) and atom.num.atom is axis:
            yield atom.den
        elif isinstance(atom, Remainder):
            inner = atom.num.atom
            if inner is axis:
                yield atom.den
            elif isinstance(inner, Quotient) and inner.num.atom is axis:
                yield inner.den
                yield inner.den * atom.den


def _walks(
    kernel: Kernel,
    digits: tuple[Digit, ...],
    program: Program,
    strides: Strides,
    counted: set[str],
) -> Iterator[Walk]:
    """The accesses to counted buffers that move with the digits, each once."""
    for access, offset in places(kernel, strides):
        is_gather = any(isinstance(leaf, Indirect) for leaf in offset.leaves())
        if access.buffer not in counted or is_gather:
            continue
        buffer = program.buffers[access.buffer]
        steps = {digit: step_along(offset, digit) for digit in digits}
        if any(steps.values()):
            yield Walk(steps, buffer.dtype.itemsize, typical_bytes(buffer))


def step_along(offset: Int, digit: Digit) -> int:
    """The elements between two steps of a digit at the origin, at typical sizes."""
    origin: dict[Axis, Int] = dict.fromkeys(axes_in((offset,)), Int.of(0))
    there = offset.substitute({**origin, digit.axis: digit.below})
    return typical(there - offset.substitute(origin))


def _orders(digits: tuple[Digit, ...], walks: Iterable[Walk]) -> Iterator[tuple[Digit, ...]]:
    """The order as it is, then that of each tensor; digits that it lacks stay outside."""
    yield digits
    for walk in walks:
        present = [digit for digit in digits if walk.steps[digit]]
        absent = [digit for digit in digits if not walk.steps[digit]]
        yield (*absent, *sorted(present, key=lambda digit: -abs(walk.steps[digit])))


def _waste(order: tuple[Digit, ...], walks: Iterable[Walk]) -> int:
    """The bytes moved by whole sectors, where runs of neighbours in memory are shorter."""
    total = 0
    for walk in walks:
        run = _run(order, walk.steps) * walk.itemsize
        total += walk.moved * SECTOR_BYTES // min(run, SECTOR_BYTES)
    return total


def _run(order: tuple[Digit, ...], steps: Mapping[Digit, int]) -> int:
    """The number of neighbouring points whose elements are neighbours in memory, or the same."""
    run = 1
    for digit in reversed(order):
        if steps[digit] not in (0, run):
            break
        run *= typical(digit.size) if steps[digit] else 1
    return max(1, run)


def _moved(member: Member, split: Mapping[Axis, Int], number: Mapping[Axis, Int]) -> Member:
    """The member whose indices are of digits first, then of the point's number in the new order."""
    binding = tuple(
        (axis, value.substitute(split).substitute(number)) for axis, value in member.binding
    )
    return replace(member, binding=binding)
