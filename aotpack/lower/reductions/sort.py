"""Sorted rows and reads from them: sort, argsort, topk, kthvalue, medians, mode."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from aotpack.ir.dtypes import DType
from aotpack.ir.rewrite import as_index
from aotpack.ir.symbolic.facts import known_le
from aotpack.ir.symbolic.integers import Int, product
from aotpack.ir.values import Value
from aotpack.lower.context import Context, Index, Scalar, is_empty
from aotpack.lower.reductions.reduction import Reduced, max_dim, over, reduce_to
from aotpack.lower.registry import CannotLower, lowering
from aotpack.lower.reshape import unflatten_index
from aotpack.lower.values import apply, cast, constant, guarded, position, where
from aotpack.stages import Ref


@lowering("aten.sort.default", "aten.sort.dim")
def sort(c: Context, self: Ref, dim: int = -1, descending: bool = False) -> None:
    """Always stable; torch's default may be unstable."""
    c.sort((c.result(0), c.result(1)), self, dim, descending=descending)


@lowering("aten.sort.stable")
def sort_stable(
    c: Context, self: Ref, *, stable: bool | None, dim: int = -1, descending: bool = False
) -> None:
    sort(c, self, dim, descending)


@lowering("aten.msort.default")
def msort(c: Context, self: Ref) -> None:
    c.sort((c.result(), _like(c, self, "order", DType.INT64)), self, 0, descending=False)


@lowering("aten.argsort.default", "aten.argsort.dim")
def argsort(c: Context, self: Ref, dim: int = -1, descending: bool = False) -> None:
    c.sort((_like(c, self, "sorted", c.dtype(self)), c.result()), self, dim, descending=descending)


@lowering("aten.argsort.stable")
def argsort_stable(
    c: Context, self: Ref, *, stable: bool, dim: int = -1, descending: bool = False
) -> None:
    argsort(c, self, dim, descending)


@lowering("aten.topk.default")
def topk(
    c: Context, self: Ref, k: Scalar, dim: int = -1, largest: bool = True, sorted: bool = True
) -> None:
    """The first elements of a sorted row; also sorted where torch may leave them unsorted.

    NaN counts as the largest element.
    """
    if k == 1 and largest:
        max_dim(c, self, dim, keepdim=True)
        return
    rows = sorted_rows(c, self, dim, descending=largest)
    c.pointwise(c.result(0), partial(c.load, rows.values))
    c.pointwise(c.result(1), partial(c.load, rows.order))


# --- one element of a sorted row ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SortedRows:
    """A tensor sorted along one dimension, and the source positions of its elements."""

    c: Context
    reduced: Reduced  # over the sorted dimension
    values: Ref
    order: Ref

    @property
    def length(self) -> Int:
        return self.reduced.count

    def value(self, outer: Index, place: Int) -> Value:
        """The element at a position of the row for an index of the result."""
        return self.c.load(self.values, self.reduced.source(outer, (place,)))

    def position(self, outer: Index, place: Int) -> Value:
        """The source position of that element."""
        return self.c.load(self.order, self.reduced.source(outer, (place,)))

    def pick(self, place: Callable[[Index], Int]) -> None:
        """Write an element of each row and its position as the results of the node."""
        self.c.pointwise(self.c.result(0), lambda outer: self.value(outer, place(outer)))
        self.c.pointwise(self.c.result(1), lambda outer: self.position(outer, place(outer)))

    def numbers(self, self_: Ref) -> Ref:
        """A new tensor: the number of elements of each row that are not NaN."""
        c = self.c
        count = c.temporary("numbers", DType.INT64, c.shape(c.result()))

        def is_number(x: Value) -> Value:
            return cast(apply("eq", x, x), DType.INT64)

        reduce_to(c, count, "sum", self_, self.reduced, is_number)
        return count


def sorted_rows(
    c: Context, self: Ref, dim: int, keepdim: bool = False, *, descending: bool = False
) -> SortedRows:
    """Sort a tensor along a dimension into new tensors."""
    reduced = over(c, self, dim, keepdim)
    both = (_like(c, self, "sorted", c.dtype(self)), _like(c, self, "order", DType.INT64))
    c.sort(both, self, dim, descending=descending)
    return SortedRows(c, reduced, *both)


def flat_rows(c: Context, self: Ref) -> tuple[Ref, SortedRows]:
    """All elements of a tensor as one row, and that row sorted."""
    shape = c.shape(self)
    flat = c.temporary("flat", c.dtype(self), (product(shape),))
    c.pointwise(flat, lambda index: c.load(self, unflatten_index(index[0], shape)))
    return flat, sorted_rows(c, flat, 0)


def _like(c: Context, self: Ref, role: str, dtype: DType) -> Ref:
    return c.temporary(role, dtype, c.shape(self))


@lowering("aten.kthvalue.default")
def kthvalue(c: Context, self: Ref, k: Scalar, dim: int = -1, keepdim: bool = False) -> None:
    rows = sorted_rows(c, self, dim, keepdim)
    place = Int.of(0) if isinstance(k, float) else Int.of(k) - 1
    if not (known_le(0, place) and known_le(place, rows.length - 1)) and rows.reduced.rank:
        raise CannotLower(f"element {k} of {rows.length} is not known to exist for all sizes")
    rows.pick(lambda outer: place)


@lowering("aten.median.dim")
def median_dim(c: Context, self: Ref, dim: int, keepdim: bool = False) -> None:
    """The lower of two middle elements; the first NaN if there is one."""
    rows = sorted_rows(c, self, dim, keepdim)
    rows.pick(_median_place(c, self, rows))


@lowering("aten.nanmedian.dim")
def nanmedian_dim(c: Context, self: Ref, dim: int, keepdim: bool = False) -> None:
    rows = sorted_rows(c, self, dim, keepdim)
    rows.pick(_nanmedian_place(c, self, rows))


@lowering("aten.median.default")
def median(c: Context, self: Ref) -> None:
    if not _without_elements(c, self):
        flat, rows = flat_rows(c, self)
        _write_middle(c, rows, _median_place(c, flat, rows))


@lowering("aten.nanmedian.default")
def nanmedian(c: Context, self: Ref) -> None:
    if not _without_elements(c, self):
        flat, rows = flat_rows(c, self)
        _write_middle(c, rows, _nanmedian_place(c, flat, rows))


def _write_middle(c: Context, rows: SortedRows, place: Callable[[Index], Int]) -> None:
    """Write the middle of all elements; NaN where there is none, which calls refuse of integers."""
    is_sure = known_le(1, rows.length) or not c.dtype(c.result()).is_float
    has_some = [] if is_sure else [apply("gt", position(rows.length), 0)]
    nothing = constant(0 if is_sure else float("nan"), c.dtype(rows.values).compute)
    c.pointwise(
        c.result(), lambda outer: guarded(has_some, rows.value(outer, place(outer)), nothing)
    )


def _without_elements(c: Context, self: Ref) -> bool:
    """True for a tensor without elements; writes its median, NaN."""
    if not is_empty(c.shape(self)):
        return False
    if not c.dtype(self).is_float:
        raise CannotLower("integers without elements have no median")
    c.pointwise(c.result(), lambda index: constant(float("nan"), c.dtype(self)))
    return True


def _median_place(c: Context, self: Ref, rows: SortedRows) -> Callable[[Index], Int]:
    middle = (rows.length - 1) // 2
    if not c.dtype(self).is_float or not rows.reduced.rank:
        return lambda outer: middle
    count = rows.numbers(self)

    def place(outer: Index) -> Int:
        found = c.load(count, outer)
        is_whole = apply("ge", found, position(rows.length))
        return as_index(where(is_whole, position(middle), found), rows.length)

    return place


def _nanmedian_place(c: Context, self: Ref, rows: SortedRows) -> Callable[[Index], Int]:
    if not c.dtype(self).is_float or not rows.reduced.rank:
        return _median_place(c, self, rows)
    count = rows.numbers(self)

    def place(outer: Index) -> Int:
        found = apply("maximum", apply("sub", c.load(count, outer), 1), 0)
        return as_index(apply("shift_right", found, 1), rows.length)

    return place


@lowering("aten.mode.default")
def mode(c: Context, self: Ref, dim: int = -1, keepdim: bool = False) -> None:
    """The most frequent element, the least of equally frequent ones; NaN never equals NaN.

    In sorted order, an element's position in its run of equals is its frequency so far; the first
    maximum ends the longest run. The index is the element's last.
    """
    if is_empty(c.shape(self)) or not c.rank(self):
        c.sort((c.result(0), c.result(1)), self, dim, descending=False)
        return
    rows = sorted_rows(c, self, dim, keepdim)
    along = c.dim(self, dim)
    starts = _like(c, self, "starts", DType.INT64)
    best = c.temporary("best", DType.INT64, c.shape(c.result()))

    def start(index: Index) -> Value:
        here = index[along]
        before = (*index[:along], _previous(here, rows.length), *index[along + 1 :])
        differs = apply("ne", c.load(rows.values, index), c.load(rows.values, before))
        return where(differs, position(here), position(0))

    c.scan((starts, _like(c, self, "latest", DType.INT64)), "cummax", along, start)

    def frequency(outer: Index, inner: Index) -> tuple[Value, ...]:
        begin = c.load(starts, rows.reduced.source(outer, inner))
        return (apply("sub", position(inner[0]), begin),)

    c.reduction((best,), "argmax", rows.reduced.inner, frequency)
    rows.pick(lambda outer: as_index(c.load(best, outer), rows.length))


def _previous(place: Int, size: Int) -> Int:
    """The position before; 0 for the first."""
    return as_index(apply("maximum", position(place - 1), 0), size)
