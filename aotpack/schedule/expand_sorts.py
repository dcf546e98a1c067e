"""Sorts become counting and merging: loop operations that fuse and render like any other (S:B21).

    for i: v[i], p[i] = sort(x[i])    ->    for i: rank = count of j in i's run with x[j] before x[i]
                                                   v[run + rank] = x[i];  p[run + rank] = i
                                            and, until one run is left, for runs two by two:
                                            for i: rank = count in the other run of what is before i
                                                   v'[pair + own + rank] = v[i];  p' likewise

An element's rank decides its place, so equal ones, ordered by position, keep their order. A row up
to ``LONGEST_COUNTED`` costs its length in comparisons for each element, in one kernel; a longer one
``RUN``, and a launch and a binary search for each doubling up to its largest admitted size.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from aotpack.ir.dtypes import DType
from aotpack.ir.facts import bounds, known_le
from aotpack.ir.fold import fold
from aotpack.ir.integers import Axis, Int, maximum, minimum
from aotpack.ir.nodes import (
    Apply,
    Buffer,
    Const,
    Guarded,
    Load,
    Operation,
    Pointwise,
    Program,
    Reduction,
    Sort,
    Value,
)
from aotpack.ir.ordering import bounded, comes_first, count_first, whole
from aotpack.ir.rewrite import Rewriter, as_index
from aotpack.schedule.realize import is_view

LONGEST_COUNTED = 512  # elements of a row
RUN = 256  # elements of the first runs of a longer row: a power of two


def expand_sorts(program: Program) -> Program:
    """Replace every sort; the same object if there is none."""
    if not any(isinstance(operation, Sort) for operation in program.operations):
        return program
    buffers = dict(program.buffers)
    operations: list[Operation] = []
    for operation in program.operations:
        expanded = _Sorting(operation, buffers).expand() if isinstance(operation, Sort) else None
        operations += [operation] if expanded is None else expanded
    return replace(program, operations=tuple(operations), buffers=buffers)


@dataclass(frozen=True, slots=True)
class _Rows:
    """What is sorted, or sorted in runs: the element and its position at an index."""

    value: Callable[[Int], Value]
    position: Callable[[Int], Value]


class _Sorting:
    """One sort being expanded into ``operations``; new buffers are declared in ``buffers``."""

    def __init__(self, sort: Sort, buffers: dict[str, Buffer]) -> None:
        self.sort, self.buffers = sort, buffers
        self.operations: list[Operation] = []
        self.i = Int.of(sort.along)
        self.size = sort.along.extent

    def expand(self) -> list[Operation]:
        """The operations, in order."""
        longest = int(min(bounds(self.size)[1], 2**31))
        rows = _Rows(self._source(), whole)
        run = 0 if longest <= LONGEST_COUNTED else RUN
        rows = self._move(rows, self._counted(rows, run), last=not run)
        while run and run < longest:
            rows = self._move(rows, self._merged(rows, run), last=2 * run >= longest)
            run *= 2
        return self.operations

    def _source(self) -> Callable[[Int], Value]:
        """The elements: read where they are, or stored first if computing them takes more."""
        value, along = self.sort.value, self.sort.along
        if not is_view(value):
            name = self._declare("key", self.buffers[self.sort.targets[0]].dtype)
            index = tuple(map(Int.of, self.sort.axes))
            self._append(name, value, index)
            value = self._load(name, index)
        return lambda at: Rewriter({along: at})(value)

    def _counted(self, rows: _Rows, run: int) -> Int:
        """Where each element goes: into its own run (0: the row), after all that come first."""
        length = minimum(self.size, run) if run else self.size
        j = Axis(self._free("j"), length)
        start = self.i // run * run if run else Int.of(0)
        other = start + Int.of(j)
        mine, theirs = rows.value(self.i), rows.value(other)
        before = _apply("lt", whole(other), whole(self.i))
        wins = self._before(theirs, mine, before)
        if run and not known_le(other, self.size - 1):
            inside = _apply("lt", whole(other), whole(self.size))
            wins = fold(Guarded(inside, wins, Const(False, DType.BOOL), DType.BOOL))
        name = self._declare("rank", DType.INT64)
        count = fold(Apply("cast", (wins,), DType.INT64))
        self.operations.append(
            Reduction((name,), self.sort.axes, (j,), "sum", (count,), self.sort.origin)
        )
        return start + as_index(self._load(name, tuple(map(Int.of, self.sort.axes))), length)

    def _merged(self, rows: _Rows, run: int) -> Int:
        """Where each element goes: into a run of twice the length, after all that come first."""
        size, i = self.size, self.i
        pair = i // (2 * run) * (2 * run)
        is_second = _apply("ge", whole(i % (2 * run)), whole(run))
        first = minimum(size - pair, run)
        second = maximum(minimum(size - pair - run, run), 0)
        other = _choose(is_second, whole(pair), whole(pair + run))
        length = _choose(is_second, whole(first), whole(second))
        mine = rows.value(i)

        def element(place: Value) -> Value:
            moved = fold(Apply("add", (other, place), DType.INT64))
            return rows.value(bounded(moved, Int.of(0), size))

        rank = count_first(element, length, run, lambda e: self._before(e, mine, is_second))
        own = _choose(is_second, whole(i - run), whole(i))
        place = fold(Apply("add", (own, rank), DType.INT64))
        name = self._declare("place", DType.INT64)
        index = tuple(map(Int.of, self.sort.axes))
        self._append(name, place, index)
        return as_index(self._load(name, index), size)

    def _before(self, theirs: Value, mine: Value, stands_before: Value) -> Value:
        """True where another element comes before mine; equal ones as they stand."""
        descending = self.sort.descending
        first = comes_first(theirs, mine, descending=descending)
        not_after = _apply("logical_not", comes_first(mine, theirs, descending=descending))
        return fold(Apply("where", (stands_before, not_after, first), DType.BOOL))

    def _move(self, rows: _Rows, to: Int, *, last: bool) -> _Rows:
        """Store elements and positions at their new places."""
        names = []
        for target, value in zip(
            self.sort.targets, (rows.value(self.i), rows.position(self.i)), strict=True
        ):
            name = target if last else self._declare("run", self.buffers[target].dtype)
            self._append(name, value, self._index(to))
            names.append(name)
        loads = [self._loader(name) for name in names]
        return _Rows(*loads)

    def _loader(self, name: str) -> Callable[[Int], Value]:
        return lambda at: self._load(name, self._index(at))

    def _index(self, at: Int) -> tuple[Int, ...]:
        return tuple(at if axis is self.sort.along else Int.of(axis) for axis in self.sort.axes)

    def _load(self, name: str, index: tuple[Int, ...]) -> Value:
        return Load(name, index, self.buffers[name].dtype.compute)

    def _append(self, name: str, value: Value, index: tuple[Int, ...]) -> None:
        operation = Pointwise(name, self.sort.axes, value, index, self.sort.origin)
        self.operations.append(operation)

    def _declare(self, role: str, dtype: DType) -> str:
        """A new buffer as large as the sorted one."""
        stem, number = f"{self.sort.targets[0]}_{role}", 0
        name = stem
        while name in self.buffers:
            number += 1
            name = f"{stem}_{number}"
        shape = tuple(axis.extent for axis in self.sort.axes)
        self.buffers[name] = Buffer(name, dtype, shape)
        return name

    def _free(self, name: str) -> str:
        """A name for an axis that no axis or size has."""
        taken = {axis.name for axis in self.sort.axes}
        taken |= {str(leaf) for axis in self.sort.axes for leaf in axis.extent.leaves()}
        while name in taken:
            name += "_"
        return name


def _apply(op: str, *args: Value) -> Value:
    return fold(Apply(op, args, DType.BOOL))


def _choose(condition: Value, a: Value, b: Value) -> Value:
    return fold(Apply("where", (condition, a, b), a.dtype))
