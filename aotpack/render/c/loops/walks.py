"""Reduction kernels in C: the reductions, row buffers and stores of each walk.

Accumulators are merged after a walk. An expensive value that a later walk needs again is kept in a
row buffer.
"""

from aotpack.ir.kernels.kernel import Member
from aotpack.ir.operations import Reduction, Scan
from aotpack.ir.ops.monoids import MONOIDS
from aotpack.ir.program import targets
from aotpack.ir.values import Load, Value
from aotpack.render.c.loops.loops import (
    GRAIN,
    HostCode,
    HostFunction,
    cost,
    end_streams,
    loop_stores,
    parallel,
    stores,
)
from aotpack.render.c.loops.nest import LoopNest
from aotpack.render.c.loops.reductions import Accumulator, fill, two_pass
from aotpack.render.c.loops.walk_loops import WalkLoops
from aotpack.render.c.loops.walk_plan import RowLoop, WalkPlan, plan_walks
from aotpack.render.c.regions import Loop, c_lines
from aotpack.render.c.types import C_TYPES
from aotpack.render.c.window import Window, window
from aotpack.render.emit.kernel_builder import KernelBuilder
from aotpack.render.emit.regions import Computed


class Walker:
    """Renders one reduction kernel. ``is_columns``: along "x"."""

    def __init__(self, nest: LoopNest, builder: KernelBuilder, *, is_columns: bool) -> None:
        self.nest, self.builder, self.is_columns = nest, builder, is_columns
        self.middles: dict[str, str] = {}
        self.rows: dict[Value, str] = {}
        self.streaming: Loop | None = None  # the loop of the last walk
        self.loops = WalkLoops(nest, builder, is_columns=is_columns)
        self.item = self.loops.item
        inner, innermost = frozenset(nest.r), self.loops.innermost
        self.plan: WalkPlan = plan_walks(nest.kernel, builder, inner, innermost)

    def code(self) -> HostCode:
        """The function over items, and the entry."""
        for walk in self.plan.walks:
            self._walk(walk)
        if self.plan.outer:
            self._store_outer()
        if self.streaming is not None:
            end_streams(self.streaming, self.builder)
        setup, scratch = self.loops.scratch()
        lines = (*setup, *c_lines(self.builder.root))
        items = self.loops.items()
        row_grain = max(1, GRAIN // cost(self.nest, self.builder) // self.loops.rows)
        grain = f"aot_max(1, {row_grain} / ({self.loops.length} + 1))"
        entry = parallel(self.builder, "run", items, grain, scratch)
        return HostCode((HostFunction("run", lines),), (entry,))

    # --- one walk

    def _walk(self, walk: RowLoop) -> None:
        for member in walk.scans:
            self._scan(member)
        firsts = [(m, self._first(m)) for m in walk.reductions]
        seconds = [(m, self._second(m)) for m in walk.seconds]
        if not (firsts or seconds or walk.stored):
            return
        made = [accumulator for _, accumulator in (*firsts, *seconds)]
        lanes = self.loops.lanes(made)
        for accumulator in made:
            for line in accumulator.declare(lanes):
                self.item.append(line)
        guarded = self._guarded(walk, firsts)
        with self.loops.open(lanes if made else 0, found=guarded) as loop:
            self._use_rows(walk, loop)
            for member, accumulator in firsts:
                element = (
                    self.builder.emitter.value(guarded.value) if guarded else self._element(member)
                )
                loop.items += accumulator.add("lane", element, self._position_of(member))
            for member, accumulator in seconds:
                loop.items += self._add_second(member, accumulator)
            self._keep_rows(walk, loop)
            self._store(walk, loop, made)
        for member, accumulator in firsts:
            self._finish_first(member, accumulator, lanes)
        for member, accumulator in seconds:
            self._finish_second(member, accumulator, lanes)

    def _guarded(self, walk: RowLoop, firsts: list[tuple[Member, Accumulator]]) -> Window | None:
        """Columns of a walk that alone count: elsewhere its only element changes nothing."""
        if not self.is_columns or len(firsts) != 1:
            return None
        if walk.seconds or walk.stored or walk.kept or walk.used:
            return None
        ((member, accumulator),) = firsts
        assert isinstance(member.operation, Reduction)
        value: Value | str | None = self.builder.bound(member, member.operation.args[0])
        while isinstance(value, Load):
            value = self.builder.resolve(value)
        identities = MONOIDS[accumulator.kind].identities(accumulator.dtype)
        if value is None or isinstance(value, str) or len(identities) != 1:
            return None
        return window(value, self.nest.x[-1], identities[0], self.builder.resolve)

    def _store(self, walk: RowLoop, loop: Loop, made: list[Accumulator]) -> None:
        if made or self.is_columns:
            loop.stores += stores(walk.stored, self.nest, self.builder)
        else:
            loop_stores(loop, walk.stored, self.nest, self.builder)
            self.streaming = loop

    # --- reductions

    def _first(self, member: Member) -> Accumulator:
        operation = member.operation
        assert isinstance(operation, Reduction)
        passes = two_pass(operation.kind)
        return self._accumulator(passes.first if passes else operation.kind, operation)

    def _second(self, member: Member) -> Accumulator:
        operation = member.operation
        assert isinstance(operation, Reduction)
        return self._accumulator("sum", operation)

    def _accumulator(self, kind: str, operation: Reduction) -> Accumulator:
        count = len(Accumulator(kind, operation.args[0].dtype, ()).types)
        names = tuple(self.builder.fresh("acc") for _ in range(count))
        return Accumulator(kind, operation.args[0].dtype, names)

    def _element(self, member: Member) -> str:
        operation = member.operation
        assert isinstance(operation, (Reduction, Scan))
        return self.builder.emitter.value(self.builder.bound(member, operation.args[0]))

    def _position_of(self, member: Member) -> str:
        """The position of an element in its row, or the position that its reduction is given."""
        assert isinstance(member.operation, Reduction)
        for given in member.operation.args[1:]:
            return self.builder.emitter.value(self.builder.bound(member, given))
        return self.loops.position()

    def _add_second(self, member: Member, accumulator: Accumulator) -> list[str]:
        operation = member.operation
        assert isinstance(operation, Reduction)
        passes = two_pass(operation.kind)
        assert passes is not None
        element, middle = (
            self._element(member),
            self.loops.row_value(self.middles[targets(operation)[0]]),
        )
        text = fill(passes.second, accumulator.dtype, element, middle)
        return accumulator.add("lane", f"({text})", self.loops.position())

    def _finish_first(self, member: Member, accumulator: Accumulator, lanes: int) -> None:
        operation = member.operation
        passes = two_pass(accumulator_kind(member))
        states = self.loops.row_states(accumulator, lanes)
        if passes is None:
            self._define(member, accumulator, states)
            return
        text = fill(passes.middle, accumulator.dtype, *states, count=f"({self.loops.length})")
        (name,) = self.loops.named([text], [accumulator.dtype])
        self.middles[targets(operation)[0]] = name

    def _finish_second(self, member: Member, accumulator: Accumulator, lanes: int) -> None:
        passes = two_pass(accumulator_kind(member))
        assert passes is not None
        middle = self.loops.row_value(self.middles[targets(member.operation)[0]])
        (total,) = self.loops.row_states(accumulator, lanes)
        states = [
            f"({fill(text, accumulator.dtype, '', middle, total, count=f'({self.loops.length})')})"
            for text in passes.states
        ]
        self._define(member, Accumulator(accumulator_kind(member), accumulator.dtype, ()), states)

    def _define(self, member: Member, accumulator: Accumulator, states: list[str]) -> None:
        """Record the names of a reduction's results."""
        operation = member.operation
        texts = accumulator.finalise(states)
        kinds = [self.builder.schedule.program.buffers[name].dtype for name in targets(operation)]
        names = self.loops.named(texts, [kind.compute for kind in kinds])
        self.builder.define(member, [self.loops.row_value(name) for name in names])

    # --- scans

    def _scan(self, member: Member) -> None:
        """A loop over a row in order; the results of every state go into row buffers."""
        operation = member.operation
        assert isinstance(operation, Scan)
        accumulator = Accumulator(operation.kind, operation.args[0].dtype, ())
        names = tuple(self.builder.fresh("acc") for _ in accumulator.types)
        accumulator = Accumulator(operation.kind, operation.args[0].dtype, names)
        for line in accumulator.declare(1):
            self.item.append(line)
        places = []
        with self.loops.open(0, is_vector=False) as loop:
            loop.items += accumulator.add("0", self._element(member), self.loops.position())
            results = accumulator.finalise([f"{name}[0]" for name in names])
            for name, text in zip(targets(operation), results, strict=True):
                dtype = self.builder.schedule.program.buffers[name].dtype.compute
                place = f"{self.loops.row_buffer(dtype)}[{self.loops.position()}]"
                loop.append(f"{place} = {text};")
                places.append(place)
        self.builder.define(member, places)

    # --- row buffers

    def _keep_rows(self, walk: RowLoop, loop: Loop) -> None:
        for value in walk.kept:
            name = self.rows[value] = self.loops.row_buffer(value.dtype)
            loop.append(f"{self.loops.place(name)} = {self.builder.emitter.value(value)};")

    def _use_rows(self, walk: RowLoop, loop: Loop) -> None:
        for value in walk.used:
            name = self.builder.fresh("t")
            loop.append(
                f"const {C_TYPES[value.dtype]} {name} = {self.loops.place(self.rows[value])};"
            )
            loop.names[Computed(value)] = name

    # --- stores once for each row

    def _store_outer(self) -> None:
        builder = self.builder
        if not self.is_columns:
            with builder.emitter.at(self.item):
                for store in stores(self.plan.outer, self.nest, builder):
                    self.item.append(f"{store.address} = {store.value};")
            return
        loop = self.loops.open_lanes(self.item)
        with builder.emitter.at(loop):
            loop.stores += stores(self.plan.outer, self.nest, builder)
        self.item.close()


def accumulator_kind(member: Member) -> str:
    """The kind of a reduction."""
    operation = member.operation
    assert isinstance(operation, Reduction)
    return operation.kind


def walked_code(nest: LoopNest, builder: KernelBuilder, *, is_columns: bool) -> HostCode:
    """A reduction kernel."""
    return Walker(nest, builder, is_columns=is_columns).code()
