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
size the model admits. Where only the first few elements are read (topk), they are selected first
(``select_first.py``), and no run that is merged is longer.
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
    IndexValue,
    Load,
    Operation,
    Pointwise,
    Program,
    Sort,
    Value,
    loads,
    read_whole,
)
from aotpack.ir.ordering import comes_first, int64, place_in, search, truth
from aotpack.ir.rewrite import Rewriter, as_index
from aotpack.schedule.realize import is_view
from aotpack.schedule.select_first import first_of_runs
from aotpack.schedule.sort_parts import Parts, Row, inside

LONGEST_COUNTED = 512  # elements of a row
SHORTEST_SELECTED = 64  # of a shorter row as many comparisons take less than selecting does
RUN = 128  # elements of the first runs of a longer row
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


def _is_selected(few: int, longest: int) -> bool:
    """True when it takes less to select so many elements of a row than to sort it."""
    return few <= LONGEST_COUNTED and longest > max(SHORTEST_SELECTED, 2 * few)


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
        self.parts = Parts(sort, buffers)
        self.sort, self.kept, self.size = sort, kept, sort.along.extent

    def expand(self) -> list[Operation]:
        """The operations, in order."""
        longest = int(min(bounds(self.size)[1], 2**31))
        row = Row(self.size, self._source(), whole)
        few = self.kept.constant
        if few is not None and _is_selected(few, longest):
            self._select(row, few)
            return self.parts.operations
        if longest <= LONGEST_COUNTED:
            self._count(row, self.sort.targets, Int.of(0), self.size)
            return self.parts.operations
        runs = _Runs(self._sorted_runs(row, RUN), RUN, Int.of(RUN))
        while runs.span < longest:
            runs = self._merge(runs, is_last=2 * runs.span >= longest)
        return self.parts.operations

    def _select(self, row: Row, few: int) -> None:
        """Go on with the first few of each run, until they are few enough to be counted."""
        row = first_of_runs(self.parts, row, few)
        while bounds(row.size)[1] > LONGEST_COUNTED:
            row = first_of_runs(self.parts, row, few)
        self._count(row, self._targets(row.size), Int.of(0), row.size)

    def _sorted_runs(self, row: Row, length: int) -> tuple[str, str]:
        """The buffers of the elements and positions of a row in sorted runs of so many."""
        count = ceil_div(row.size, length)
        names, run = self.parts.declared(count * length), self.parts.axis("run", count)
        self._count(row, names, Int.of(run) * length, Int.of(length), run)
        return names

    def _source(self) -> Callable[[Int], Value]:
        """The elements: read where they are, or stored first if computing them takes more."""
        value, along = self.sort.value, self.sort.along
        if not is_view(value):
            name = self.parts.declare(self.sort.targets[0], self.size)
            self.parts.append(name, self.sort.axes, value, self.parts.index(Int.of(along)))
            value = self.parts.load(name, Int.of(along))
        return lambda at: Rewriter({along: at})(value)

    def _count(
        self,
        row: Row,
        names: tuple[str, ...],
        start: Int,
        width: Int,
        *runs: Axis,
    ) -> None:
        """Put each element of a run behind all that come before it; past the row's end, nothing."""
        i, j = self.parts.axis("i", width), self.parts.axis("j", width)
        here, there = start + Int.of(i), start + Int.of(j)
        axes = self.parts.axes(*runs, i)
        wins = self._before(
            row.element(there),
            row.element(here),
            truth("lt", *(IndexValue(Int.of(axis), _RANK) for axis in (j, i))),
        )
        wins = inside(there, row.size, inside(here, row.size, wins))
        found = self.parts.count("rank", axes, j, wins)
        beyond = truth("ge", whole(here), whole(row.size))
        own = IndexValue(Int.of(i), _RANK)
        to = start + as_index(fold(Apply("where", (beyond, own, found), _RANK)), width)
        for name, value in zip(names, (row.element(here), row.position(here)), strict=True):
            self.parts.append(name, axes, inside(here, row.size, value), self.parts.index(to))

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
        k, pair = self.parts.axis("k", width), self.parts.axis("pair", ceil_div(self.size, span))
        axes = self.parts.axes(k) if is_last else self.parts.axes(pair, k)
        number = Int.of(0) if is_last else Int.of(pair)
        place = self._place(runs, number * 2, Int.of(k))
        name = self.parts.temporary("place", axes, DType.INT64)
        self.parts.operations.append(
            Pointwise(name, axes, place, tuple(map(Int.of, axes)), self.sort.origin)
        )
        at = as_index(Load(name, tuple(map(Int.of, axes)), DType.INT64), self._length(runs))
        names = self.parts.declared(pair.extent * width) if not is_last else self._targets(width)
        for target, source in zip(names, runs.names, strict=True):
            self.parts.append(
                target,
                axes,
                self.parts.load(source, at),
                self.parts.index(number * width + Int.of(k)),
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
            there = int64("maximum", int64("add", place, whole(starts[run])), whole(0))
            return self.parts.load(runs.names[0], place_in(there, self._length(runs)))

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

    def _length(self, runs: _Runs) -> Int:
        """Elements of all runs of a row."""
        return ceil_div(self.size, runs.span) * runs.width

    def _targets(self, width: Int) -> tuple[str, str]:
        """The sort's own targets, without what nobody reads."""
        values, positions = self.sort.targets
        for name in (values, positions):
            self.parts.buffers[name] = replace(
                self.parts.buffers[name], shape=self.parts.shape(width)
            )
        return values, positions
