"""The state of rendering a kernel: its emitter, its regions, the names of its results."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import Self

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.access import dot, points, written_index
from aotpack.ir.kernels.kernel import Kernel, Member, Schedule
from aotpack.ir.kernels.rows import Row, row_of, storage_elements
from aotpack.ir.operations import Pointwise, Reduction, Scan
from aotpack.ir.ops.monoids import MONOIDS
from aotpack.ir.ops.optable import OPS
from aotpack.ir.program import Operation, targets, values
from aotpack.ir.rewrite import Rewriter
from aotpack.ir.symbolic.facts import bounds
from aotpack.ir.symbolic.integers import LARGEST_SIZE, Extremum, Int, Quotient, Remainder
from aotpack.ir.values import Apply, IndexValue, Load, Value, children, walk
from aotpack.render.emit.arguments import Arguments
from aotpack.render.emit.dialect import Dialect
from aotpack.render.emit.emitter import PLAIN, EmitOptions, Emitter, Shortcut
from aotpack.render.emit.frame import Frame
from aotpack.render.emit.regions import Region
from aotpack.stages import TensorMap

MAX_COMMENTS = 6


class KernelBuilder:
    """The state of rendering a kernel; ``results`` names those of reductions, scans, templates."""

    def __init__(
        self,
        schedule: Schedule,
        kernel: Kernel,
        frame: Frame,
        root: Region,
        dialect: Dialect,
        options: EmitOptions = PLAIN,
    ) -> None:
        self.schedule = schedule
        self.dialect = dialect
        self.root = root
        self._frame = frame
        self._options = options
        self._numbers = count(1)
        self.wide = needs_64_bits(schedule, kernel)
        self.functions: dict[str, str] = {}
        self.maps: list[TensorMap] = []
        self.gluon_maps: list[TensorMap] = []
        self.arguments = Arguments(
            schedule.program,
            kernel.stored,
            wide=self.wide,
            exchange=(*kernel.exchange, *kernel.counters),
        )
        self._take(kernel)

    def _take(self, kernel: Kernel) -> None:
        """Build the members of a kernel, none of whose results is known yet."""
        self.kernel = kernel
        self.results: dict[str, str] = {}
        self._written = {
            name: written_index(member)
            for member in kernel.members
            for name in targets(member.operation)
        }
        self._values: dict[str, Value] = {}
        for member in kernel.members:
            if isinstance(member.operation, Pointwise):
                self._values[member.operation.target] = self.bound(member, member.operation.value)
        self._exact = self._exact_operands()
        self.emitter = self.emitter_in(self._frame, self.root)

    def beside(self, kernel: Kernel) -> Self:
        """A builder of the same text for the same members at other points."""
        twin = copy.copy(self)
        twin._take(kernel)
        return twin

    def emitter_in(
        self,
        frame: Frame,
        region: Region,
        *,
        spread: bool = False,
        shortcut: Shortcut | None = None,
    ) -> Emitter:
        """An emitter for another tile of the same kernel."""
        options = replace(self._options, spread=spread)
        ports = (self.arguments, self.offset, self.row, self.resolve, self.fresh, self.dialect)
        return Emitter(
            frame,
            region,
            *ports,
            ends_in=self._ends_in(),
            exact=self._exact,
            options=replace(options, shortcut=shortcut) if shortcut else options,
        )

    def _ends_in(self) -> DType | None:
        """The most precise 16-bit type that results are rounded to; None if some keep more bits."""
        stored = {self.schedule.program.buffers[name].dtype for name in self.kernel.stored}
        if not stored <= {DType.FLOAT16, DType.BFLOAT16}:
            return None
        return DType.FLOAT16 if DType.FLOAT16 in stored else DType.BFLOAT16

    def _exact_operands(self) -> frozenset[Value]:
        """The operands of discontinuous operations: one ulp there may change a result by a step."""
        found: set[Value] = set()
        stack: list[Value] = []
        for member in self.kernel.members:
            roots = [self.bound(member, value) for value in values(member.operation)]
            if _gives_positions(member.operation):
                stack += roots
            for value in walk(roots):
                if isinstance(value, Apply) and _is_discontinuous(value):
                    stack += value.args
        while stack:
            value = stack.pop()
            if value in found:
                continue
            found.add(value)
            made = self._values.get(value.buffer) if isinstance(value, Load) else None
            stack += children(value) if made is None else [made]
        return frozenset(found)

    def computed(self) -> Iterator[Value]:
        """The values that members compute, in kernel axes."""
        for member in self.kernel.members:
            yield from (self.bound(member, value) for value in values(member.operation))

    def fresh(self, prefix: str) -> str:
        """A name that no line of this kernel has."""
        return f"{prefix}{next(self._numbers)}"

    @property
    def index_type(self) -> str:
        """The cast of program numbers and ranges."""
        return self.dialect.wide_index() if self.wide else ""

    @property
    def comments(self) -> tuple[str, ...]:
        """The user's source lines behind the kernel; a final backslash would join lines of C."""
        lines = dict.fromkeys(
            source for member in self.kernel.members for source in member.operation.origin.sources
        )
        return tuple(line.rstrip("\\ ") for line in lines)[:MAX_COMMENTS]

    def bound(self, member: Member, value: Value) -> Value:
        """A member's value in kernel axes; results of members are read at the index of their store.

        Both are the same point, but an axis of extent 1 may be named by one and be 0 in the other.
        """

        def made(load: Load) -> Value | None:
            index = self._written.get(load.buffer)
            return None if index is None else Load(load.buffer, index, load.dtype)

        return Rewriter(dict(member.binding), made)(value)

    def define(self, member: Member, names: Sequence[str]) -> None:
        """Record the names of a member's results."""
        self.results.update(zip(targets(member.operation), names, strict=True))

    def result(self, member: Member, name: str, emitter: Emitter) -> str:
        """The text of one of a member's targets: a value for points, else what it was named."""
        if isinstance(member.operation, Pointwise):
            return emitter.value(self.bound(member, member.operation.value))
        return self.results[name]

    def resolve(self, load: Load) -> Value | str | None:
        """The value or name of a load of this kernel's own results."""
        if load.buffer in self.results:
            return self.results[load.buffer]
        return self._values.get(load.buffer)

    def offset(self, load: Load) -> Int:
        """The element offset of a load."""
        return self.offset_of(load.buffer, load.index)

    def row(self, buffer: str) -> Row | None:
        """The rows of a buffer, if they are padded."""
        strides = self.schedule.strides.get(buffer)  # None: an exchange buffer
        return row_of(self.schedule.program.buffers[buffer].shape, strides) if strides else None

    def offset_of(self, buffer: str, index: tuple[Int, ...]) -> Int:
        """The element offset of an index of a buffer."""
        return dot(index, self.schedule.strides[buffer])


def _is_discontinuous(value: Apply) -> bool:
    """True when a small change of an operand can change the result by a step."""
    is_whole = value.op == "cast" and not value.dtype.is_float
    return (OPS[value.op].is_discontinuous or is_whole) and value.args[0].dtype.is_float


def _gives_positions(operation: Operation) -> bool:
    return isinstance(operation, (Reduction, Scan)) and MONOIDS[operation.kind].gives_positions


def needs_64_bits(schedule: Schedule, kernel: Kernel) -> bool:
    """True unless all offsets, loop counts and integers in between are known to fit 31 bits.

    Sums may wrap on the way to an offset that fits; operands of divisions and comparisons, and
    data, may not.
    """
    buffers = schedule.program.buffers
    names = (*kernel.reads, *kernel.stored)
    integers = [storage_elements(buffers[n].shape, schedule.strides[n]) for n in names]
    integers.append(points(kernel.axes[:2]))
    integers += _whole_integers(kernel)
    limit = LARGEST_SIZE - 2**20
    return any(low < -limit or high > limit for low, high in map(bounds, integers))


def _whole_integers(kernel: Kernel) -> Iterator[Int]:
    """The integers of a kernel that must not wrap, in kernel axes."""
    yield from _inside(axis.extent for axis in kernel.axes)
    for member in kernel.members:
        moved = map(Rewriter(dict(member.binding)), values(member.operation))
        yield from _inside(written_index(member))
        for value in walk(moved):
            if isinstance(value, IndexValue):
                yield value.index
                yield from _inside((value.index,))
            elif isinstance(value, Load):
                yield from _inside(value.index)


def _inside(integers: Iterable[Int]) -> Iterator[Int]:
    """The numerators, divisors and compared operands within integers."""
    for atom in (atom for integer in integers for atom in integer.atoms()):
        if isinstance(atom, (Quotient, Remainder)):
            parts: tuple[Int, ...] = (atom.num, atom.den)
        elif isinstance(atom, Extremum):
            parts = (atom.a, atom.b)
        else:
            continue
        yield from parts
        yield from _inside(parts)
