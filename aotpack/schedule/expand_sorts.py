"""Sorts become counting and merging: loop operations that fuse and render like any other (S:B21).

    for i: v[i], p[i] = sort(x[i])

    ->  for i: rank = how many of i's run come before x[i]
               v0[run + rank] = x[i];  p0[run + rank] = i
        and until one run is left, for each pair of runs:
        for k: place = where the k-th of both lies
               v1[pair + k] = v0[place];  p1[pair + k] = p0[place]

Equal elements keep their order: they are counted and merged as they stand. A row of at most
``LONGEST_COUNTED`` is one run: a kernel, and as many comparisons for each element. A longer one
costs ``RUN`` comparisons, and a kernel with a binary search for each doubling up to the largest
size the model admits. Where only the first few elements are read (topk), no run is longer; where
they are very few, runs are short, and the first of each are the next row, a quarter as long.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from aotpack.ir.dtypes import DType
from aotpack.ir.facts import bounds
from aotpack.ir.fold import fold, whole
from aotpack.ir.integers import Axis, Int, ceil_div, maximum, minimum
from aotpack.ir.nodes import (
    Apply,
    Buffer,
    Const,
    Guarded,
    IndexValue,
    Load,
    Operation,
    Pointwise,
    Program,
    Reduction,
    Sort,
    Value,
    loads,
    read_whole,
)
from aotpack.ir.ordering import comes_first, int64, place_in, search, truth
from aotpack.ir.rewrite import Rewriter, as_index
from aotpack.schedule.realize import is_view

LONGEST_COUNTED = 512  # elements of a row
RUN = 128  # elements of the first runs of a longer row
LONGER = 4  # times the elements that are kept of it, at least, is a run of which few are kept
SHORTEST_RUN = 16
_RANK = DType.INT32  # of places within a run


def expand_sorts(program: Program) -> Program:
    """Replace every sort; the same object if there is none."""
    if not any(isinstance(operation, Sort) for operation in program.operations):
        return program
    buffers = dict(program.buffers)
    operations: list[Operation] = []
    for operation in program.operations:
        if isinstance(operation, Sort):
            operations += _Sorting(operation, _kept(operation, program), buffers).expand()
        else:
            operations.append(operation)
    return replace(program, operations=tuple(operations), buffers=buffers)


def _kept(sort: Sort, program: Program) -> Int:
    """How many elements of a sorted row are read; more where that is not known."""
    size, dim = sort.along.extent, sort.axes.index(sort.along)
    entire = {name for operation in program.operations for name in read_whole(operation)}
    if set(sort.targets) & {*program.results, *entire}:
        return size
    read = [
        load.index[dim]
        for operation in program.operations
        for load in loads(operation)
        if load.buffer in sort.targets
    ]
    most = max((bounds(index)[1] + 1 for index in read), default=1)
    return Int.of(int(most)) if most < bounds(size)[0] else size


@dataclass(frozen=True, slots=True)
class _Row:
    """What is put in order: so many elements, their values, their places in the sort's own row."""

    size: Int
    element: Callable[[Int], Value]
    position: Callable[[Int], Value]


@dataclass(frozen=True, slots=True)
class _Runs:
    """A row in sorted runs: so many elements of the row in each, the first ``width`` of them kept.

    ``names`` are the buffers of elements and positions.
    """

    names: tuple[str, str]
    span: int
    width: Int


class _Sorting:
    """One sort being expanded into ``operations``; new buffers are declared in ``buffers``."""

    def __init__(self, sort: Sort, kept: Int, buffers: dict[str, Buffer]) -> None:
        self.sort, self.kept, self.buffers = sort, kept, buffers
        self.operations: list[Operation] = []
        self.size = sort.along.extent

    def expand(self) -> list[Operation]:
        """The operations, in order."""
        longest = int(min(bounds(self.size)[1], 2**31))
        row = _Row(self.size, self._source(), whole)
        if longest <= LONGEST_COUNTED:
            self._count(row, self.sort.targets, Int.of(0), self.size)
            return self.operations
        few = self.kept.constant
        if few is not None and LONGER * few <= RUN:
            self._select(row, few)
            return self.operations
        runs = _Runs(self._sorted_runs(row, RUN), RUN, Int.of(RUN))
        while runs.span < longest:
            runs = self._merge(runs, is_last=2 * runs.span >= longest)
        return self.operations

    def _select(self, row: _Row, few: int) -> None:
        """Sort runs and go on with the first few of each, until all are one run.

        All runs but the last have so many, so what is left is a row without gaps.
        """
        length = max(SHORTEST_RUN, 1 << (LONGER * few - 1).bit_length())
        while bounds(row.size)[1] > LONGEST_COUNTED:
            names = self._sorted_runs(row, length)
            others = ceil_div(row.size, length) - 1
            size = others * few + minimum(row.size - others * length, few)
            row = _Row(size, *(self._first_of_each(name, length, few) for name in names))
        self._count(row, self._targets(row.size), Int.of(0), row.size)

    def _first_of_each(self, name: str, length: int, few: int) -> Callable[[Int], Value]:
        """What lies at a place of the row of the first few of each run."""
        return lambda at: self._load(name, at // few * length + at % few)

    def _sorted_runs(self, row: _Row, length: int) -> tuple[str, str]:
        """The buffers of the elements and positions of a row in sorted runs of so many."""
        count = ceil_div(row.size, length)
        names, run = self._declared(count * length), self._axis("run", count)
        self._count(row, names, Int.of(run) * length, Int.of(length), run)
        return names

    def _source(self) -> Callable[[Int], Value]:
        """The elements: read where they are, or stored first if computing them takes more."""
        value, along = self.sort.value, self.sort.along
        if not is_view(value):
            name = self._declare(self.sort.targets[0], self.size)
            self._append(name, self.sort.axes, value, self._index(Int.of(along)))
            value = self._load(name, Int.of(along))
        return lambda at: Rewriter({along: at})(value)

    def _count(
        self,
        row: _Row,
        names: tuple[str, ...],
        start: Int,
        width: Int,
        *runs: Axis,
    ) -> None:
        """Put each element of a run behind all that come before it; past the row's end, nothing."""
        i, j = self._axis("i", width), self._axis("j", width)
        here, there = start + Int.of(i), start + Int.of(j)
        axes = self._axes(*runs, i)
        wins = self._before(
            row.element(there),
            row.element(here),
            truth("lt", *(IndexValue(Int.of(axis), _RANK) for axis in (j, i))),
        )
        wins = _inside(there, row.size, _inside(here, row.size, wins))
        rank = self._temporary("rank", axes, _RANK)
        counted = fold(Apply("cast", (wins,), _RANK))
        self.operations.append(Reduction((rank,), axes, (j,), "sum", (counted,), self.sort.origin))
        found = Load(rank, tuple(map(Int.of, axes)), _RANK)
        beyond = truth("ge", whole(here), whole(row.size))
        own = IndexValue(Int.of(i), _RANK)
        to = start + as_index(fold(Apply("where", (beyond, own, found), _RANK)), width)
        for name, value in zip(names, (row.element(here), row.position(here)), strict=True):
            self._append(name, axes, _inside(here, row.size, value), self._index(to))

    def _before(self, theirs: Value, mine: Value, stands_before: Value) -> Value:
        """True where another element comes before mine; equal ones as they stand."""
        descending = self.sort.descending
        first = comes_first(theirs, mine, descending=descending)
        not_after = truth("logical_not", comes_first(mine, theirs, descending=descending))
        return truth("logical_or", first, truth("logical_and", stands_before, not_after))

    def _merge(self, runs: _Runs, *, is_last: bool) -> _Runs:
        """Merge runs two by two."""
        span = 2 * runs.span
        width = self.kept if is_last else minimum(self.kept, span)
        k, pair = self._axis("k", width), self._axis("pair", ceil_div(self.size, span))
        axes = self._axes(k) if is_last else self._axes(pair, k)
        number = Int.of(0) if is_last else Int.of(pair)
        place = self._place(runs, number * 2, Int.of(k))
        name = self._temporary("place", axes, DType.INT64)
        self.operations.append(
            Pointwise(name, axes, place, tuple(map(Int.of, axes)), self.sort.origin)
        )
        at = as_index(Load(name, tuple(map(Int.of, axes)), DType.INT64), self._length(runs))
        names = self._declared(pair.extent * width) if not is_last else self._targets(width)
        for target, source in zip(names, runs.names, strict=True):
            self._append(
                target, axes, self._load(source, at), self._index(number * width + Int.of(k))
            )
        return _Runs(names, span, width)

    def _place(self, runs: _Runs, number: Int, k: Int) -> Value:
        """Where the k-th smallest of runs ``number`` and ``number + 1`` lies (a merge path).

        Of the k before it, as many are in the first run as a search finds: an element there is
        counted if it does not come after the one of the second run that would be the k-th with it.
        """
        first, second = (
            maximum(minimum(self.size - (number + n) * runs.span, runs.width), 0) for n in (0, 1)
        )
        starts = [(number + n) * runs.width for n in (0, 1)]

        def read(run: int, place: Value) -> Value:
            inside = int64("maximum", int64("add", place, whole(starts[run])), whole(0))
            return self._load(runs.names[0], place_in(inside, self._length(runs)))

        def is_counted(place: Value) -> Value:
            other = int64("sub", whole(k - 1), place)
            return truth("logical_not", self._first(read(1, other), read(0, place)))

        low, high = maximum(k - second, 0), minimum(k, first)
        longest = int(bounds(runs.width)[1])
        a = search(whole(low), whole(high), longest, is_counted)
        b = int64("sub", whole(k), a)
        takes = truth("logical_not", self._first(read(1, b), read(0, a)))
        takes = truth("logical_or", truth("ge", b, whole(second)), takes)
        takes = truth("logical_and", truth("lt", a, whole(first)), takes)
        place = int64(
            "where", takes, int64("add", a, whole(starts[0])), int64("add", b, whole(starts[1]))
        )
        return int64("minimum", place, whole(self._length(runs) - 1))

    def _first(self, a: Value, b: Value) -> Value:
        return comes_first(a, b, descending=self.sort.descending)

    # --- buffers and axes

    def _length(self, runs: _Runs) -> Int:
        """Elements of all runs of a row."""
        return ceil_div(self.size, runs.span) * runs.width

    def _targets(self, width: Int) -> tuple[str, str]:
        """The sort's own targets, without what nobody reads."""
        values, positions = self.sort.targets
        for name in (values, positions):
            self.buffers[name] = replace(self.buffers[name], shape=self._shape(width))
        return values, positions

    def _declared(self, length: Int) -> tuple[str, str]:
        """New buffers for elements and positions, rows of some length."""
        values, positions = (self._declare(target, length) for target in self.sort.targets)
        return values, positions

    def _declare(self, target: str, length: Int) -> str:
        """A new buffer like a target's, with rows of some length."""
        name = self._free(f"{target}_run")
        self.buffers[name] = Buffer(name, self.buffers[target].dtype, self._shape(length))
        return name

    def _temporary(self, role: str, axes: tuple[Axis, ...], dtype: DType) -> str:
        """A new buffer of integers over some axes."""
        name = self._free(f"{self.sort.targets[0]}_{role}")
        self.buffers[name] = Buffer(name, dtype, tuple(axis.extent for axis in axes))
        return name

    def _free(self, stem: str) -> str:
        name, number = stem, 0
        while name in self.buffers:
            number += 1
            name = f"{stem}_{number}"
        return name

    def _shape(self, length: Int) -> tuple[Int, ...]:
        """The sort's shape with rows of another length."""
        sort = self.sort
        return tuple(length if axis is sort.along else axis.extent for axis in sort.axes)

    def _axis(self, name: str, extent: Int) -> Axis:
        """A new axis, named like none of the sort's and no size."""
        axes = self.sort.axes
        taken = {axis.name for axis in axes}
        taken |= {str(leaf) for axis in axes for leaf in axis.extent.leaves()}
        while name in taken:
            name += "_"
        return Axis(name, extent)

    def _axes(self, *along: Axis) -> tuple[Axis, ...]:
        """The sort's axes, with others for the sorted one."""
        sort = self.sort
        parts = ((along if axis is sort.along else (axis,)) for axis in sort.axes)
        return tuple(axis for part in parts for axis in part)

    def _index(self, at: Int) -> tuple[Int, ...]:
        return tuple(at if axis is self.sort.along else Int.of(axis) for axis in self.sort.axes)

    def _load(self, name: str, at: Int) -> Value:
        return Load(name, self._index(at), self.buffers[name].dtype.compute)

    def _append(
        self, name: str, axes: tuple[Axis, ...], value: Value, index: tuple[Int, ...]
    ) -> None:
        self.operations.append(Pointwise(name, axes, value, index, self.sort.origin))


def _inside(place: Int, size: Int, value: Value) -> Value:
    """The value where the place is in a row of that size, else zero."""
    zero = Const(False, DType.BOOL) if value.dtype is DType.BOOL else Const(0, value.dtype)
    zero = Const(0.0, value.dtype) if value.dtype.is_float else zero
    return fold(Guarded(truth("lt", whole(place), whole(size)), value, zero, value.dtype))
