"""Results with as many elements as data say: nonzero, masked selection, numbers that are sizes."""

from collections.abc import Callable
from dataclasses import dataclass

from aotpack.ir.dtypes import DType
from aotpack.ir.rewrite import as_index
from aotpack.ir.symbolic.facts import known_le
from aotpack.ir.symbolic.integers import Int, product
from aotpack.ir.values import Value
from aotpack.lower.context import Context, Index, Shape, is_empty
from aotpack.lower.indexing.nonzero import coordinate
from aotpack.lower.registry import lowering
from aotpack.lower.reshape import unflatten_index
from aotpack.lower.values import apply, cast, constant, guarded, position, target_from, where
from aotpack.lower.views.view import emit_view
from aotpack.stages import Ref

MASKS = (DType.BOOL, DType.UINT8)


@lowering("size.read")
def read_size(c: Context, a: Ref) -> None:
    """A tensor's only element becomes a size."""
    count = a
    if c.rank(a) or c.dtype(a) is not DType.INT64:
        first = (Int.of(0),) * c.rank(a)
        count = c.temporary("count", DType.INT64, ())
        c.pointwise(count, lambda index: cast(c.load(a, first), DType.INT64))
    c.count(count, Int.of(c.node.counts[0].high))


@dataclass(frozen=True, slots=True)
class Chosen:
    """Elements of a row: a running count of them, and the places of all ``size`` of them."""

    c: Context
    row: Ref
    places: Ref
    numel: Int
    size: Int

    def place(self, number: Int) -> Int:
        """The place of a chosen element."""
        return as_index(self.c.load(self.places, (number,)), self.numel)

    def number(self, place: Int) -> Value:
        """The number of the last chosen element up to a place; -1 for none."""
        return apply("sub", self.c.load(self.row, (place,)), 1)


def choose(c: Context, numel: Int, flag: Callable[[Int], Value], size: Int) -> Chosen:
    """The places in [0, numel) with a flag, in order.

    A running count of the flags is the number of each; behind the read of the last one, each place
    is written to its number. torch counts equal masks once: another call reads the ``size`` then.
    """
    row = c.temporary("row", DType.INT64, (numel,))
    c.scan((row,), "sum", 0, lambda index: cast(flag(index[0]), DType.INT64))
    if c.node.counts:
        size = c.count(_last(c, row, numel), numel)
    start = c.temporary("start", DType.INT64, (size,))
    c.pointwise(start, lambda index: constant(0, DType.INT64))
    places = c.temporary("places", DType.INT64, (size,))
    found = Chosen(c, row, places, numel, size)

    def place(point: Index) -> Index:
        number = where(flag(point[0]), found.number(point[0]), position(size))
        return (target_from(number, size),)

    c.scatter(places, start, "set", (numel,), place, lambda point: position(point[0]))
    return found


def chosen_positions(
    c: Context, shape: Shape, is_chosen: Callable[[Index], Value], size: Int
) -> Callable[[Int], Index]:
    """The index of each chosen element of a shape, in row-major order; ``size`` is their count."""

    def flag(flat: Int) -> Value:
        return cast(is_chosen(unflatten_index(flat, shape)), DType.BOOL)

    found = choose(c, product(shape), flag, size)
    return lambda number: unflatten_index(found.place(number), shape)


def _last(c: Context, row: Ref, numel: Int) -> Ref:
    """The last element of a running count; 0 if there is none."""
    count = c.temporary("count", DType.INT64, ())
    none = constant(0, DType.INT64)

    def value(index: Index) -> Value:
        if is_empty((numel,)):
            return none
        is_there = [] if known_le(1, numel) else [apply("gt", position(numel), 0)]
        return guarded(is_there, c.load(row, (numel - 1,)), none)

    c.pointwise(count, value)
    return count


def _rows(c: Context) -> Int:
    return c.shape(c.result())[0]


@lowering("aten.nonzero.default")
def nonzero(c: Context, self: Ref) -> None:
    """A row of coordinates for each nonzero element."""
    at = chosen_positions(c, c.shape(self), lambda index: c.load(self, index), _rows(c))
    c.pointwise(c.result(), lambda index: coordinate(at(index[0]), index[1]))


@lowering("aten.masked_select.default")
def masked_select(c: Context, self: Ref, mask: Ref) -> None:
    """The elements where the mask holds; both operands broadcast."""
    shape = broadcast_shape([c.shape(self), c.shape(mask)])
    at = chosen_positions(c, shape, lambda index: c.broadcast(mask, index), _rows(c))

    def mapped(place: Index) -> Index:
        index = at(place[0])
        return index[len(index) - c.rank(self) :]

    emit_view(c, self, mapped)


def broadcast_shape(shapes: list[Shape]) -> Shape:
    """The common broadcast shape."""
    rank = max(map(len, shapes))
    padded = [(Int.of(1),) * (rank - len(shape)) + shape for shape in shapes]
    columns = zip(*padded, strict=True)
    return tuple(next((s for s in sizes if s.constant != 1), sizes[0]) for sizes in columns)
