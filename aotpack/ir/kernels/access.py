"""The memory accesses of a kernel: each load and store as an element offset over its axes.

Layout, tiling and in-place decisions read accesses only in this form.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.kernel import Kernel, Member
from aotpack.ir.program import loads, store_index, targets
from aotpack.ir.rewrite import Rewriter
from aotpack.ir.symbolic.integers import (
    REMEMBERED,
    Atom,
    Axis,
    Int,
    Number,
    Quotient,
    Remainder,
    product,
    total,
)
from aotpack.ir.values import IndexValue, Load, Value, walk

MOST_SHARED = 4  # codes in an element
VECTOR_BYTES = 16  # of the widest access
Strides = Mapping[str, tuple[Int, ...]]


@dataclass(frozen=True, slots=True)
class Access:
    """A load or store (``is_store``) of a buffer by a member, at an index over kernel axes."""

    buffer: str
    index: tuple[Int, ...]
    member: Member
    is_store: bool

    def offset(self, strides: Strides) -> Int:
        """The element offset within the buffer."""
        return dot(self.index, strides[self.buffer])


def dot(index: tuple[Number, ...], strides: tuple[Int, ...]) -> Int:
    """The offset of an index."""
    return total(Int.of(i) * s for i, s in zip(index, strides, strict=True))


def flatten_index(index: tuple[Int, ...], shape: tuple[Int, ...]) -> Int:
    """The row-major position of an index in a shape."""
    position = Int.of(0)
    for entry, size in zip(index, shape, strict=True):
        position = position * size + entry
    return position


def points(axes: Iterable[Axis]) -> Int:
    """The number of points of axes."""
    return product(axis.extent for axis in axes)


def linearize(axes: tuple[Axis, ...], values: Mapping[Axis, Int]) -> Int:
    """The row-major position of a point of ``axes``."""
    return flatten_index(tuple(values[a] for a in axes), tuple(a.extent for a in axes))


def delinearize(axes: tuple[Axis, ...], position: Int) -> dict[Axis, Int]:
    """Inverse of ``linearize`` for a position within the extents; zeros if an extent is 0."""
    if any(axis.extent.constant == 0 for axis in axes):
        return dict.fromkeys(axes, Int.of(0))
    found: dict[Axis, Int] = {}
    below = Int.of(1)
    for number, axis in reversed(list(enumerate(axes))):
        above = position // below
        found[axis] = above if number == 0 else above % axis.extent
        below = below * axis.extent
    return {axis: found[axis] for axis in axes}


def contiguous(shape: tuple[Int, ...]) -> tuple[Int, ...]:
    """Row-major strides, in elements."""
    strides: list[Int] = []
    stride = Int.of(1)
    for size in reversed(shape):
        strides.append(stride)
        stride = stride * size
    return tuple(reversed(strides))


def in_order(shape: tuple[Int, ...], order: tuple[int, ...] = ()) -> tuple[Int, ...]:
    """Strides for a memory order of dimensions, outermost first; without one, row-major."""
    dims = order or tuple(range(len(shape)))
    by_dim = dict(zip(dims, contiguous(tuple(shape[dim] for dim in dims)), strict=True))
    return tuple(by_dim[dim] for dim in range(len(shape)))


def fill_order(shape: tuple[Int, ...], strides: tuple[Int, ...]) -> tuple[int, ...] | None:
    """The dimensions in memory order, innermost first; None if the strides leave gaps."""
    if len(strides) != len(shape):
        return None
    left = list(range(len(shape)))
    order: list[int] = []
    step = Int.of(1)
    while left:
        fitting = [dim for dim in left if strides[dim] is step]
        if not fitting:
            return None
        dim = min(fitting, key=lambda dim: shape[dim].constant != 1)
        left.remove(dim)
        order.append(dim)
        step = step * shape[dim]
    return tuple(order)


def memory_order(shape: tuple[Int, ...], strides: tuple[Int, ...]) -> tuple[int, ...]:
    """The dimensions, outermost first, of dense strides; empty for row-major and others.

    Strides of dimensions of size 1 say nothing: where the others are row-major, all are.
    """
    longer = tuple(dim for dim, size in enumerate(shape) if size.constant != 1)
    sizes, steps = (tuple(part[dim] for dim in longer) for part in (shape, strides))
    inner = fill_order(sizes, steps)
    if inner is None or steps == contiguous(sizes):
        return ()
    whole = fill_order(shape, strides)
    if whole is not None:
        return whole[::-1]
    ones = tuple(dim for dim in range(len(shape)) if dim not in longer)
    return (*ones, *(longer[place] for place in reversed(inner)))


def is_dense(shape: tuple[Int, ...], strides: tuple[Int, ...]) -> bool:
    """True when some order of the dimensions makes the strides row-major."""
    return fill_order(shape, strides) is not None


def accesses(kernel: Kernel) -> Iterator[Access]:
    """Each load and store of a kernel; values in registers are not accessed."""
    if kernel.is_opaque:
        return  # its accesses are unknown
    inside = {name for member in kernel.members for name in targets(member.operation)}
    for member in kernel.members:
        for access in member_accesses(member):
            if access.buffer in kernel.stored if access.is_store else access.buffer not in inside:
                yield access


def member_accesses(member: Member) -> Iterator[Access]:
    """Each load of a member, then the store of each result, in memory or in registers."""
    rewrite = Rewriter(dict(member.binding))
    for load in loads(member.operation):
        index = tuple(rewrite.index(part) for part in load.index)
        yield Access(load.buffer, index, member, is_store=False)
    for name in targets(member.operation):
        yield Access(name, written_index(member), member, is_store=True)


def places(kernel: Kernel, strides: Strides) -> list[tuple[Access, Int]]:
    """The accesses of a kernel with their offsets, each once."""
    found = {}
    for access in accesses(kernel):
        offset = access.offset(strides)
        found[access.buffer, offset, access.is_store] = access, offset
    return list(found.values())


def written_index(member: Member) -> tuple[Int, ...]:
    """The index at which a member writes, over kernel axes."""
    rewrite = Rewriter(dict(member.binding))
    return tuple(rewrite.index(part) for part in store_index(member.operation))


@lru_cache(maxsize=REMEMBERED)
def axes_in(index: tuple[Int, ...]) -> frozenset[Axis]:
    """The axes that an index depends on, also through loaded indices."""
    return axes_of(IndexValue(part, DType.INT64) for part in index)


def axes_of(computed: Iterable[Value]) -> frozenset[Axis]:
    """The axes that values depend on."""
    values = tuple(walk(computed))
    parts = [value.index for value in values if isinstance(value, IndexValue)]
    parts += [part for value in values if isinstance(value, Load) for part in value.index]
    return frozenset(leaf for part in parts for leaf in part.leaves() if isinstance(leaf, Axis))


def gains_of(factor: Value, weights: Container[str]) -> list[Load]:
    """The elements of weights in a factor that is arithmetic, as a norm's gains."""
    if isinstance(factor, Load):
        return []
    loads = (one for one in walk((factor,)) if isinstance(one, Load))
    return [one for one in loads if one.buffer in weights and axes_in(one.index)]


def slope(offset: Int, axis: Axis) -> int | None:
    """The constant coefficient of ``axis`` in ``offset``; 0 if unused, None if not constant."""
    step: int | None = 0
    for monomial, coefficient in offset.terms:
        if monomial == (axis,):
            step = coefficient
        elif axis in axes_in(tuple(map(Int.of, monomial))):
            return None
    return step


def shared_length(loads: Iterable[Load], axis: Axis) -> int:
    """The length of the parts of an axis that read the same elements, or of the whole.

    Where a byte holds two codes, one of each half of a row, it is half of the axis.
    """
    depth = int(axis.extent)
    for load in loads:
        for part in load.index:
            atom = part.atom
            if isinstance(atom, Remainder) and atom.num.atom is axis:
                length = atom.den.constant
                if length is not None and length * MOST_SHARED >= depth and depth % length == 0:
                    return length
    return depth


def local_slope(offset: Int, axis: Axis) -> int | None:
    """The step of ``offset`` for most steps of ``axis``: its last digit changes, no higher one.

    None if the step is not constant. 0 also if the axis changes only loaded indices.
    """
    step, gathers = 0, False
    for monomial, coefficient in offset.terms:
        touching = [atom for atom in monomial if axis in Int.of(atom).leaves()]
        if not touching:
            gathers |= axis in axes_in(tuple(map(Int.of, monomial)))
            continue
        atom = touching[0]
        if len(monomial) > 1:
            if not all(_is_higher_digit(a, axis) for a in touching):
                return None
        elif atom is axis or (isinstance(atom, Remainder) and atom.num.atom is axis):
            step += coefficient
        elif not _is_higher_digit(atom, axis):
            return None
    return None if gathers and step else step


def _is_higher_digit(atom: Atom | None, axis: Axis) -> bool:
    """True for a digit of an axis above the last: ``axis // 4``, or ``axis // 4 % 3``."""
    if isinstance(atom, Remainder):
        atom = atom.num.atom
    return isinstance(atom, Quotient) and (
        atom.num.atom is axis or _is_higher_digit(atom.num.atom, axis)
    )


def has_digits(index: tuple[Int, ...], axis: Axis) -> bool:
    """True when an index takes digits of an axis."""
    atoms = (atom for part in index for atom in part.atoms())
    return any(
        axis in atom.num.leaves() for atom in atoms if isinstance(atom, (Quotient, Remainder))
    )


def digit_count(offset: Int) -> int:
    """The number of divisions in an offset."""
    count = 0
    for atom in offset.atoms():
        if isinstance(atom, (Quotient, Remainder)):
            count += 1 + digit_count(atom.num)
    return count
