"""Sorts become counting and merging: loop operations that fuse and render like any other.

    for i: v[i], p[i] = sort(x[i])

    ->  for i: k[i] = key(x[i])
        for i: rank = number of elements of i's run before k[i]
               k0[run + rank] = k[i];  p0[run + rank] = i
        until one run is left, for each pair of runs:
        for i: rank = number of elements of the other run before k0[i]
               k1[pair + i + rank] = k0[i];  p1[pair + i + rank] = p0[i]
        the last merge stores elements: v[pair + i + rank] = x[p0[i]]

The sort is stable. A row of at most ``LONGEST_COUNTED`` is one run: one kernel, which compares each
element with all. A longer row takes a kernel that stores its keys, one that counts in runs of
``RUN``, and one with a binary search for each doubling up to the largest size the model admits. If
only the first few elements are read (topk), they are selected first (``select_first.py``).
"""

import functools
from collections.abc import Callable
from dataclasses import replace

from aotpack.devices import Gpu
from aotpack.ir.dtypes import DType
from aotpack.ir.operations import Sort
from aotpack.ir.ops.fold import fold, integer_value
from aotpack.ir.ordering import bool_op, clamped_index, count_first, integer_type
from aotpack.ir.program import Buffer, Operation, Program, loads, read_whole
from aotpack.ir.rewrite import Rewriter, as_index
from aotpack.ir.symbolic.facts import bounds
from aotpack.ir.symbolic.integers import Axis, Int, ceil_div, maximum, minimum
from aotpack.ir.values import Apply, IndexValue, Load, Value
from aotpack.schedule.program.realize import is_view
from aotpack.schedule.sorts.select_first import first_of_runs
from aotpack.schedule.sorts.sort_parts import COUNT, Parts, Row, inside

LONGEST_COUNTED = 512  # elements of a row
LONGEST_COUNTED_LEFT = 1024  # likewise of what a selection leaves: few elements in all
MOST_SELECTED = 1024
SHORTEST_SELECTED = 64  # a shorter row is counted more quickly than selected from
# Elements of the first runs of a longer row. Each comparison costs more on GPUs, each merge more on
# processors: 32 and 128 were quickest of 16 to 256 (docs/decisions/021-sorts-as-loops.md).
RUN = 64


def expand_sorts(program: Program, gpu: Gpu) -> Program:
    """Replace each sort by counting and merging; the same object if there is none."""
    if not any(isinstance(operation, Sort) for operation in program.operations):
        return program
    buffers = dict(program.buffers)
    operations: list[Operation] = []
    for operation in program.operations:
        if isinstance(operation, Sort):
            operations += _Sorting(operation, _kept(operation, program), buffers, gpu).expand()
        else:
            operations.append(operation)
    return replace(program, operations=tuple(operations), buffers=buffers)


def _kept(sort: Sort, program: Program) -> Int:
    """The number of elements of a sorted row that are read; an upper bound if that is unknown."""
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

    def __init__(self, sort: Sort, kept: Int, buffers: dict[str, Buffer], gpu: Gpu) -> None:
        self.parts = Parts(sort, buffers)
        self.sort, self.few, self.size = sort, kept.constant, sort.along.extent
        self.element, self.gpu = self._source(), gpu
        # Whether a key comes before another, and whether it does or is equal.
        self.before, self.equal_too = ("gt", "ge") if sort.descending else ("lt", "le")

    def expand(self) -> list[Operation]:
        """The operations, in order."""
        row, longest = Row(self.size, self.element, integer_value), LONGEST_COUNTED
        if self.few is not None and self._selects(row, self.few):
            row, longest = self._selected(row, self.few), LONGEST_COUNTED_LEFT
        if bounds(row.size)[1] <= longest:
            what = row.element, row.position
            self._count(row.size, self._keys(row), self._targets(row.size), what, row.size)
        else:
            self._merge_all(row.size, self._sorted_runs(row))
        return self.parts.operations

    def _selects(self, row: Row, few: int) -> bool:
        """True when selecting ``few`` elements of a row is quicker than sorting it."""
        longest = bounds(row.size)[1]
        return few <= MOST_SELECTED and longest > max(SHORTEST_SELECTED, 2 * few)

    def _selected(self, row: Row, few: int) -> Row:
        """The first few of each run, selected again while that halves the row."""
        left = max(LONGEST_COUNTED_LEFT, 2 * few)
        row = first_of_runs(self.parts, row, few, left, self.gpu)
        while bounds(row.size)[1] > left:
            row = first_of_runs(self.parts, row, few, left, self.gpu)
        return row

    def _sorted_runs(self, row: Row) -> tuple[str, str]:
        """The buffers of the keys and positions of a row in sorted runs."""
        count = ceil_div(row.size, RUN)
        keys = self._stored_keys(row)
        names = self._declared(count * RUN, (keys(Int.of(0)).dtype, self._places))
        what = keys, lambda at: self._place(row.position(at))
        self._count(row.size, keys, names, what, Int.of(RUN), self.parts.axis("run", count))
        return names

    def _keys(self, row: Row) -> Callable[[Int], Value]:
        """The keys of a row, recomputed for each comparison."""
        return lambda at: self.parts.key(row.element(at)).value

    def _stored_keys(self, row: Row) -> Callable[[Int], Value]:
        """The keys of a row, computed once for all comparisons."""
        along = self.parts.axis("at", row.size)
        key = self._keys(row)(Int.of(along))
        stem = f"{self.sort.targets[0]}_keys"
        name = self.parts.declare(stem, key.dtype, row.size)
        self.parts.append(name, self.parts.axes(along), key, self.parts.index(Int.of(along)))
        return functools.partial(self.parts.load, name)

    def _declared(self, length: Int, dtypes: tuple[DType, DType]) -> tuple[str, str]:
        """New buffers for keys and positions, rows of some length."""
        stems = (f"{self.sort.targets[0]}_sorted", f"{self.sort.targets[1]}_run")
        keys, places = (
            self.parts.declare(stem, dtype, length)
            for stem, dtype in zip(stems, dtypes, strict=True)
        )
        return keys, places

    def _source(self) -> Callable[[Int], Value]:
        """The elements: read where they are, or stored first if they must be computed."""
        value, along = self.sort.value, self.sort.along
        if not is_view(value):
            target = self.sort.targets[0]
            dtype = self.parts.buffers[target].dtype
            name = self.parts.declare(f"{target}_run", dtype, along.extent)
            self.parts.append(name, self.sort.axes, value, self.parts.index(Int.of(along)))
            value = self.parts.load(name, Int.of(along))
        return lambda at: Rewriter({along: at})(value)

    def _count(
        self,
        size: Int,
        keys: Callable[[Int], Value],
        names: tuple[str, str],
        what: tuple[Callable[[Int], Value], Callable[[Int], Value]],
        width: Int,
        *runs: Axis,
    ) -> None:
        """Store each element at its rank among the elements of its run; past a row's end, zeros."""
        i, j = self.parts.axis("i", width), self.parts.axis("j", width)
        start = Int.of(runs[0]) * width if runs else Int.of(0)
        here, there = start + Int.of(i), start + Int.of(j)
        axes = self.parts.axes(*runs, i)
        mine, theirs = (inside(at, size, keys(at)) for at in (here, there))
        stands_before = bool_op("lt", *(IndexValue(Int.of(axis), COUNT) for axis in (j, i)))
        equal = bool_op("logical_and", bool_op("eq", theirs, mine), stands_before)
        wins = bool_op("logical_or", bool_op(self.before, theirs, mine), equal)
        is_inside = bool_op("lt", integer_value(there), integer_value(size))
        wins = bool_op("logical_and", is_inside, wins)
        found = self.parts.count("rank", axes, j, wins)
        beyond = bool_op("ge", integer_value(here), integer_value(size))
        own = IndexValue(Int.of(i), COUNT)
        to = start + as_index(fold(Apply("where", (beyond, own, found), COUNT)), width)
        for name, value in zip(names, what, strict=True):
            self.parts.append(name, axes, inside(here, size, value(here)), self.parts.index(to))

    def _merge_all(self, size: Int, runs: tuple[str, str]) -> None:
        """Merge runs in pairs until there is one."""
        span, longest = RUN, bounds(size)[1]
        while 2 * span < longest:
            dtypes = self.parts.buffers[runs[0]].dtype, self.parts.buffers[runs[1]].dtype
            merged = self._declared(size, dtypes)
            self._merge(size, span, runs, merged, lambda key, place: (key, place))
            span, runs = 2 * span, merged
        self._merge(size, span, runs, self._targets(size), self._element_at)

    def _element_at(self, key: Value, place: Value) -> tuple[Value, Value]:
        """The results of a sort for a key and its place: the element, and the place as int64."""
        position = fold(Apply("cast", (place,), DType.INT64))
        return self.element(as_index(place, self.size)), position

    def _merge(
        self,
        size: Int,
        span: int,
        runs: tuple[str, str],
        merged: tuple[str, str],
        what: Callable[[Value, Value], tuple[Value, Value]],
    ) -> None:
        """Put each element of two runs behind the elements of the other run that come before it."""
        at = self.parts.axis("at", size)
        axes, here = self.parts.axes(at), Int.of(at)
        key, place = (self.parts.load(name, here) for name in runs)
        value, everywhere = self._rank(runs[0], key, here, size, span), tuple(map(Int.of, axes))
        rank = self.parts.temporary("rank", axes, value.dtype)
        self.parts.append(rank, axes, value, everywhere)
        behind = as_index(Load(rank, everywhere, value.dtype), Int.of(span + 1))
        to = self.parts.index(here // (2 * span) * (2 * span) + here % span + behind)
        for target, stored in zip(merged, what(key, place), strict=True):
            self.parts.append(target, axes, stored, to)

    def _rank(self, keys: str, mine: Value, at: Int, size: Int, span: int) -> Value:
        """The elements of the paired run that come before a key; equal ones of the left run do."""
        run = at // span
        start = (run + 1 - run % 2 * 2) * span
        dtype, is_right = self._places, bool_op("eq", integer_value(run % 2), integer_value(1))

        def comes_before(place: Value) -> Value:
            there = fold(Apply("add", (place, integer_value(start, dtype)), dtype))
            other = self.parts.load(keys, clamped_index(there, size))
            not_after = bool_op(self.equal_too, other, mine)
            before = bool_op(self.before, other, mine)
            return fold(Apply("where", (is_right, not_after, before), DType.BOOL))

        length = integer_value(maximum(minimum(size - start, span), 0), dtype)
        return count_first(length, span, comes_before)

    def _place(self, position: Value) -> Value:
        return fold(Apply("cast", (position,), self._places))

    @property
    def _places(self) -> DType:
        """The type of places in the sort's row."""
        return integer_type(self.size)

    def _targets(self, width: Int) -> tuple[str, str]:
        """The sort's own targets, cut to the elements that are read."""
        values, positions = self.sort.targets
        for name in (values, positions):
            self.parts.buffers[name] = replace(
                self.parts.buffers[name], shape=self.parts.shape(width)
            )
        return values, positions
