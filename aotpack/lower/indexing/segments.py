"""segment_reduce: reductions of parts of a dimension.

The parts are consecutive; their ends are data. Each element finds its part by binary search in the
ends, and is scattered there.
"""

from dataclasses import dataclass

from aotpack.ir.dtypes import DType
from aotpack.ir.ordering import clamped_index, search
from aotpack.ir.symbolic.facts import bounds
from aotpack.ir.symbolic.integers import Int, maximum
from aotpack.ir.values import Value
from aotpack.lower.context import Context, Index, Scalar
from aotpack.lower.indexing.scatter import Points, take_in
from aotpack.lower.registry import CannotLower, lowering
from aotpack.lower.values import apply, cast, constant, position, target_from, where
from aotpack.lower.views.view import replaced
from aotpack.stages import Ref

_KINDS = {"sum": "sum", "mean": "sum", "prod": "prod", "max": "max", "min": "min"}
_STARTS = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": float("-inf"), "min": float("inf")}


@dataclass(frozen=True, slots=True)
class _Parts:
    """Part p ranges from entry p to entry p + 1 of the last dimension of ``edges``."""

    c: Context
    edges: Ref

    @property
    def count(self) -> Int:
        return self.c.shape(self.edges)[-1] - 1

    def edge(self, lead: Index, number: Int) -> Value:
        return cast(self.c.load(self.edges, (*lead, number)), DType.INT64)

    def length(self, lead: Index, part: Int) -> Value:
        return apply("sub", self.edge(lead, part + 1), self.edge(lead, part))

    def number_of(self, lead: Index, place: Int) -> Value:
        """The part of a position; ``count`` or -1 for none."""
        size = self.count + 1

        def is_before(entry: Value) -> Value:
            edge = self.edge(lead, clamped_index(entry, size))
            return apply("le", edge, position(place))

        longest = int(min(bounds(size)[1], 2**31))
        return apply("sub", search(position(0), position(size), longest, is_before), 1)


@lowering("aten.segment_reduce.default")
def segment_reduce(
    c: Context,
    data: Ref,
    reduce: str,
    *,
    lengths: Ref | None = None,
    indices: Ref | None = None,
    offsets: Ref | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: Scalar | None = None,
) -> None:
    """Elements in no part (lengths may not add up) are ignored; empty parts are ``initial``."""
    if indices is not None:
        raise CannotLower("indices are not accepted; lengths or offsets are")
    along = c.dim(data, axis)
    parts = _Parts(c, _edges(c, lengths) if offsets is None else offsets)
    total = _totals(c, data, reduce, initial, along, parts)

    def value(index: Index) -> Value:
        found = c.load(total, index)
        if reduce != "mean":
            return found
        length = cast(parts.length(index[:along], index[along]), found.dtype)
        empty = found if initial is not None else constant(float("nan"), found.dtype)
        return where(apply("gt", length, 0), apply("div", found, length), empty)

    c.pointwise(c.result(), value)


def _edges(c: Context, lengths: Ref | None) -> Ref:
    """0, then the running sums of the lengths."""
    if lengths is None:
        raise CannotLower("neither lengths nor offsets are given")
    shape = c.shape(lengths)
    last = len(shape) - 1
    ends = c.temporary("ends", DType.INT64, shape)
    c.scan((ends,), "sum", last, lambda index: cast(c.load(lengths, index), DType.INT64))
    found = c.temporary("edges", DType.INT64, replaced(shape, last, shape[last] + 1))

    def value(index: Index) -> Value:
        before = c.load(ends, replaced(index, last, maximum(index[last] - 1, 0)))
        return where(apply("eq", position(index[last]), 0), constant(0, DType.INT64), before)

    c.pointwise(found, value)
    return found


def _totals(
    c: Context, data: Ref, reduce: str, initial: Scalar | None, along: int, parts: _Parts
) -> Ref:
    """The reduction of each part, from the start value, in the compute type."""
    wide, shape = c.dtype(data).compute, c.shape(c.result())
    number = c.temporary("part", DType.INT64, c.shape(data)[: along + 1])
    c.pointwise(number, lambda index: parts.number_of(index[:along], index[along]))
    start = c.temporary("start", wide, shape)
    first = _STARTS[reduce] if initial is None else initial
    c.pointwise(start, lambda index: constant(first, wide))

    def place(point: Index) -> Index:
        part = c.load(number, point[: along + 1])
        outside = apply("lt", part, 0)
        into = target_from(where(outside, position(parts.count), part), parts.count)
        return replaced(point, along, into)

    total = c.temporary("total", wide, shape)
    points = Points(c.shape(data), place)
    take_in(c, total, start, _KINDS[reduce], points, lambda point: c.load(data, point))
    return total
