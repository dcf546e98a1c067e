"""Sorts become counting and merging: loop operations that fuse and render like any other (S:B21).

    for i: v[i], p[i] = sort(x[i])

    ->  for i: rank = how many of i's run come before x[i]
               v0[run + rank] = x[i];  p0[run + rank] = i
        and until one run is left, for each pair of runs:
        for i: rank = how many of the other run come before v0[i]
               v1[pair + i + rank] = v0[i];  p1[pair + i + rank] = p0[i]

Equal elements keep their order: they are counted and merged as they stand. A row of at most
``LONGEST_COUNTED`` is one run: a kernel, and as many comparisons for each element. A longer one
costs ``RUN`` comparisons, and a kernel with a binary search for each doubling up to the largest
size the model admits. Where only the first few elements are read (topk), they are selected first
(``select_first.py``), and no run that is merged is longer.
"""

from collections.abc import Callable
from dataclasses import replace

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
    Program,
    Sort,
    Value,
    loads,
    read_whole,
)
from aotpack.ir.ordering import (
    comes_first,
    count_first,
    integer_type,
    number_of,
    place_in,
    truth,
)
from aotpack.ir.rewrite import Rewriter, as_index
from aotpack.schedule.realize import is_view
from aotpack.schedule.select_first import first_of_runs
from aotpack.schedule.sort_parts import Parts, Row, inside

LONGEST_COUNTED = 512  # elements of a row
LONGEST_COUNTED_LEFT = 1024  # of a row of which these are left: few elements in all
MOST_SELECTED = 1024
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


class _Sorting:
    """One sort being expanded into ``operations``; new buffers are declared in ``buffers``."""

    def __init__(self, sort: Sort, kept: Int, buffers: dict[str, Buffer]) -> None:
        self.parts = Parts(sort, buffers)
        self.sort, self.few = sort, kept.constant

    def expand(self) -> list[Operation]:
        """The operations, in order."""
        row, longest = Row(self.sort.along.extent, self._source(), whole), LONGEST_COUNTED
        if self.few is not None and self._selects(row, self.few):
            row, longest = self._selected(row, self.few), LONGEST_COUNTED_LEFT
        if bounds(row.size)[1] <= longest:
            self._count(row, self._targets(row.size), Int.of(0), row.size)
        else:
            self._merge_all(row.size, self._sorted_runs(row))
        return self.parts.operations

    def _selects(self, row: Row, few: int) -> bool:
        """Whether it takes less to select so many elements of a row than to sort it."""
        longest = bounds(row.size)[1]
        return few <= MOST_SELECTED and longest > max(SHORTEST_SELECTED, 2 * few)

    def _selected(self, row: Row, few: int) -> Row:
        """The first few of each run, and the first few of those, while that halves them."""
        left = max(LONGEST_COUNTED_LEFT, 2 * few)
        row = first_of_runs(self.parts, row, few, left)
        while bounds(row.size)[1] > left:
            row = first_of_runs(self.parts, row, few, left)
        return row

    def _sorted_runs(self, row: Row) -> tuple[str, str]:
        """The buffers of the elements and positions of a row in sorted runs."""
        count = ceil_div(row.size, RUN)
        names, run = self.parts.declared(count * RUN), self.parts.axis("run", count)
        self._count(row, names, Int.of(run) * RUN, Int.of(RUN), run)
        return names

    def _source(self) -> Callable[[Int], Value]:
        """The elements: read where they are, or stored first if computing them takes more."""
        value, along = self.sort.value, self.sort.along
        if not is_view(value):
            name = self.parts.declare(self.sort.targets[0], along.extent)
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

    def _merge_all(self, size: Int, runs: tuple[str, str]) -> None:
        """Merge runs two by two until there is one."""
        span, longest = RUN, bounds(size)[1]
        while span < longest:
            is_last = 2 * span >= longest
            merged = self._targets(size) if is_last else self.parts.declared(size)
            self._merge(size, span, runs, merged)
            span, runs = 2 * span, merged

    def _merge(self, size: Int, span: int, runs: tuple[str, str], merged: tuple[str, str]) -> None:
        """Put each element of two runs behind those of the other that come before it."""
        at = self.parts.axis("at", size)
        axes, here = self.parts.axes(at), Int.of(at)
        value, everywhere = self._rank(runs[0], here, size, span), tuple(map(Int.of, axes))
        rank = self.parts.temporary("rank", axes, value.dtype)
        self.parts.append(rank, axes, value, everywhere)
        behind = as_index(Load(rank, everywhere, value.dtype), Int.of(span + 1))
        to = self.parts.index(here // (2 * span) * (2 * span) + here % span + behind)
        for target, source in zip(merged, runs, strict=True):
            self.parts.append(target, axes, self.parts.load(source, here), to)

    def _rank(self, elements: str, at: Int, size: Int, span: int) -> Value:
        """How many of the run beside its own come before an element; equal ones of the left do."""
        run = at // span
        start = (run + 1 - run % 2 * 2) * span
        mine, is_right = self.parts.load(elements, at), truth("eq", whole(run % 2), whole(1))
        dtype = integer_type(int(min(bounds(size)[1], 2**31)))

        def comes_before(place: Value) -> Value:
            there = fold(Apply("add", (place, number_of(start, dtype)), dtype))
            other = self.parts.load(elements, place_in(there, size))
            before, not_after = self._first(other, mine), self._first(mine, other)
            not_after = truth("logical_not", not_after)
            return fold(Apply("where", (is_right, not_after, before), DType.BOOL))

        length = number_of(maximum(minimum(size - start, span), 0), dtype)
        return count_first(length, span, comes_before)

    def _first(self, a: Value, b: Value) -> Value:
        return comes_first(a, b, descending=self.sort.descending)

    def _targets(self, width: Int) -> tuple[str, str]:
        """The sort's own targets, without what nobody reads."""
        values, positions = self.sort.targets
        for name in (values, positions):
            self.parts.buffers[name] = replace(
                self.parts.buffers[name], shape=self.parts.shape(width)
            )
        return values, positions
