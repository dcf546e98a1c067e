"""Views and writes by strides in memory: as_strided, diagonals.

Tracing accepts as_strided only on tensors that cover their storage in row-major order.
"""

from aotpack.ir.kernels.access import flatten_index
from aotpack.ir.ops.conditions import range_checks
from aotpack.ir.symbolic.facts import known_lt
from aotpack.ir.symbolic.integers import Int, product
from aotpack.ir.values import Value
from aotpack.lower.context import Context, Index, Scalar
from aotpack.lower.registry import CannotLower, lowering
from aotpack.lower.reshape import unflatten_index
from aotpack.lower.values import apply, guarded, position
from aotpack.lower.views.view import emit_view, whole
from aotpack.stages import Ref


@lowering("aten.as_strided.default", "aten.as_strided_copy.default")
def as_strided(
    c: Context,
    self: Ref,
    size: tuple[Scalar, ...],
    stride: tuple[Scalar, ...],
    storage_offset: Int | int | None = None,
) -> None:
    def mapped(index: Index) -> Index:
        place = Int.of(storage_offset or 0)
        for entry, step in zip(index, stride, strict=True):
            place = place + entry * whole(step)
        return unflatten_index(place, c.shape(self))

    emit_view(c, self, mapped)


@lowering("aten.as_strided_scatter.default")
def as_strided_scatter(
    c: Context,
    self: Ref,
    src: Ref,
    size: tuple[Scalar, ...],
    stride: tuple[Scalar, ...],
    storage_offset: Int | int | None = None,
) -> None:
    """Decompose each memory position into digits of ``stride``, if it has them."""
    sides = _by_stride(c, src, stride)

    def value(index: Index) -> Value:
        left = flatten_index(index, c.shape(self)) - Int.of(storage_offset or 0)
        conditions = range_checks(left, 0, product(c.shape(self)))
        entries: dict[int, Int] = {}
        for dim, step, extent in sides:
            entries[dim], left = left // step, left % step
            conditions += range_checks(entries[dim], 0, extent)
        conditions += range_checks(left, 0, 1)
        place = tuple(entries.get(dim, Int.of(0)) for dim in range(c.rank(src)))
        return guarded(conditions, c.load(src, place), c.load(self, index))

    c.pointwise(c.result(), value)


def _by_stride(c: Context, src: Ref, stride: tuple[Scalar, ...]) -> list[tuple[int, int, Int]]:
    """(dimension, stride, size) of the dimensions of size above 1, largest stride first."""
    sides: list[tuple[int, int, Int]] = []
    for dim, (step, extent) in enumerate(zip(stride, c.shape(src), strict=True)):
        if extent.constant == 1:
            continue
        if not isinstance(step, int) or step < 1:
            raise CannotLower(f"the stride {step} is no positive constant")
        sides.append((dim, step, extent))
    sides.sort(key=lambda side: side[1])
    reach = Int.of(0)
    for _, step, extent in sides:
        if not known_lt(reach, step):
            raise CannotLower(f"the strides {', '.join(map(str, stride))} let elements overlap")
        reach = reach + (extent - 1) * step
    return sides[::-1]


@lowering("aten.diagonal_scatter.default")
def diagonal_scatter(
    c: Context, self: Ref, src: Ref, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> None:
    first, second = c.dim(self, dim1), c.dim(self, dim2)

    def value(index: Index) -> Value:
        rest = tuple(entry for k, entry in enumerate(index) if k not in (first, second))
        along = index[first] - max(-offset, 0)
        on_diagonal = apply("eq", position(index[second] - index[first]), offset)
        part = c.load(src, (*rest, along))
        return guarded([on_diagonal], part, c.load(self, index))

    c.pointwise(c.result(), value)
