"""Reduction kernels in C: rows by themselves, or neighbouring rows side by side in lanes.

Along "r" the lanes of an accumulator take turns over a row and are joined after it. Along "x" each
lane is a row of its own. What a later walk needs again and is dear to compute lies in a row buffer.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.kernel import Member
from aotpack.ir.operations import Reduction, Scan
from aotpack.ir.ops.monoids import MONOIDS
from aotpack.ir.program import targets
from aotpack.ir.symbolic.integers import Axis
from aotpack.ir.values import Load, Value
from aotpack.render.c.loops.loops import (
    SHARE,
    HostCode,
    HostFunction,
    cost,
    decode,
    end_streams,
    loop_stores,
    parallel,
    stores,
)
from aotpack.render.c.loops.nest import LoopNest
from aotpack.render.c.loops.reductions import Accumulator, fill, lane_count, two_pass
from aotpack.render.c.loops.walk_plan import Walk, WalkPlan, plan_walks
from aotpack.render.c.regions import Loop, c_lines, open_loop
from aotpack.render.c.types import C_TYPES
from aotpack.render.c.window import Window, limit_texts, window
from aotpack.render.emit.kernel_builder import KernelBuilder
from aotpack.render.emit.regions import Computed, Region

COLUMNS = 64  # rows side by side


class Walker:
    """Renders one reduction kernel. ``is_columns``: along "x"."""

    def __init__(self, nest: LoopNest, builder: KernelBuilder, *, is_columns: bool) -> None:
        self.nest, self.builder, self.is_columns = nest, builder, is_columns
        self.middles: dict[str, str] = {}
        self.buffers: list[tuple[str, DType]] = []
        self.rows: dict[Value, str] = {}
        self.streaming: Loop | None = None  # the loop of the last walk
        self.length = builder.emitter.index(builder.kernel.axes[1].extent)
        self.outside = builder.root  # of the next loop: what its ends need is computed there
        self.item = self._open_items()
        innermost = nest.x[-1] if is_columns else nest.r[-1]
        self.plan: WalkPlan = plan_walks(nest.kernel, builder, frozenset(nest.r), innermost)

    def code(self) -> HostCode:
        """The function over items, and the entry."""
        for walk in self.plan.walks:
            self._walk(walk)
        if self.plan.outer:
            self._store_outer()
        if self.streaming is not None:
            end_streams(self.streaming, self.builder)
        setup, scratch = self._scratch()
        lines = (*setup, *c_lines(self.builder.root))
        items = self._items()
        share = max(1, SHARE // cost(self.nest, self.builder) // self._rows)
        grain = f"aot_max(1, {share} / ({self.length} + 1))"
        entry = parallel(self.builder, "run", items, grain, scratch)
        return HostCode((HostFunction("run", lines),), (entry,))

    # --- items

    @property
    def _rows(self) -> int:
        return COLUMNS if self.is_columns else 1

    def _items(self) -> str:
        emitter, x = self.builder.emitter, self.nest.x
        if not self.is_columns:
            return emitter.index(self.builder.kernel.axes[0].extent)
        outer = "".join(f"({emitter.index(digit.extent)})*" for digit in x[:-1])
        return f"{outer}{self._blocks()}"

    def _blocks(self) -> str:
        extent = self.builder.emitter.index(self.nest.x[-1].extent)
        return f"(({extent} + {COLUMNS - 1}) / {COLUMNS})"

    def _open_items(self) -> Region:
        """The loop over rows, or over blocks of rows."""
        builder, x = self.builder, self.nest.x
        header = "for (int64_t item = first; item < last; item++)"
        if not self.is_columns:
            region = open_fissioned(builder.root, header, frozenset(x))
            decode(x, "item", region, builder)
            return region
        region = open_fissioned(builder.root, header, frozenset(x[:-1]))
        if len(x) > 1:
            decode(x[:-1], f"item / {self._blocks()}", region, builder)
        start = f"item % {self._blocks()} * {COLUMNS}" if len(x) > 1 else f"item * {COLUMNS}"
        region.append(f"const int64_t start = {start};")
        length = builder.emitter.index(x[-1].extent)
        region.append(f"const int count = (int)aot_min({COLUMNS}, {length} - start);")
        return region

    # --- one walk

    def _walk(self, walk: Walk) -> None:
        for member in walk.scans:
            self._scan(member)
        firsts = [(m, self._first(m)) for m in walk.reductions]
        seconds = [(m, self._second(m)) for m in walk.seconds]
        if not (firsts or seconds or walk.stored):
            return
        made = [accumulator for _, accumulator in (*firsts, *seconds)]
        lanes = self._lanes(made)
        for accumulator in made:
            for line in accumulator.declare(lanes):
                self.item.append(line)
        guarded = self._guarded(walk, firsts)
        with self._loops(lanes if made else 0, found=guarded) as loop:
            self._use_rows(walk, loop)
            for member, accumulator in firsts:
                element = (
                    self.builder.emitter.value(guarded.value) if guarded else self._element(member)
                )
                loop.items += accumulator.add(self.lane, element, self._position_of(member))
            for member, accumulator in seconds:
                loop.items += self._add_second(member, accumulator)
            self._keep_rows(walk, loop)
            self._store(walk, loop, made)
        for member, accumulator in firsts:
            self._finish_first(member, accumulator, lanes)
        for member, accumulator in seconds:
            self._finish_second(member, accumulator, lanes)

    def _guarded(self, walk: Walk, firsts: list[tuple[Member, Accumulator]]) -> Window | None:
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

    def _store(self, walk: Walk, loop: Loop, made: list[Accumulator]) -> None:
        if made or self.is_columns:
            loop.stores += stores(walk.stored, self.nest, self.builder)
        else:
            loop_stores(loop, walk.stored, self.nest, self.builder)
            self.streaming = loop

    @property
    def lane(self) -> str:
        return "lane"

    def _lanes(self, accumulators: list[Accumulator]) -> int:
        if self.is_columns:
            return COLUMNS
        return lane_count(accumulators, self.nest.r[-1].extent.constant)

    @contextmanager
    def _loops(
        self, lanes: int, *, is_vector: bool = True, found: Window | None = None
    ) -> Iterator[Loop]:
        """The loops over r (and the lanes), innermost last: what is written inside goes there."""
        emitter, r = self.builder.emitter, self.nest.r
        with emitter.at(self.outside):
            ends = [(frozenset((digit,)), digit.name, emitter.index(digit.extent)) for digit in r]
        self.outside = region = self.item
        for end in ends if self.is_columns else ends[:-1]:
            region = open_loop(region, *end)
        if self.is_columns:
            loop = self._open_lanes(region, found)
        else:
            loop = open_loop(region, *ends[-1], is_vector=is_vector, lanes=lanes)
        with emitter.at(loop):
            yield loop
        self.item.close()

    def _open_lanes(self, region: Region, found: Window | None = None) -> Loop:
        """A loop over rows side by side, or over those in a window."""
        digit, emitter = self.nest.x[-1], self.builder.emitter
        first, end = "start", "start + count"
        if found is not None:
            with emitter.at(region):
                first, end = limit_texts(emitter, found, first, end)
            region.append(f"const int64_t low = {first};")
            region.append(f"const int64_t high = {end};")
            first, end = "low", "high"
            if not found.moves:
                region = open_fissioned(region, "if (low < high)", frozenset())
        loop = open_loop(region, frozenset((digit,)), digit.name, end, start=first, is_vector=True)
        loop.append(f"const int64_t lane = {digit.name} - start;")
        return loop

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
        """Where in its row an element is, or where its reduction is told that it is."""
        assert isinstance(member.operation, Reduction)
        for given in member.operation.args[1:]:
            return self.builder.emitter.value(self.builder.bound(member, given))
        return self._position()

    def _position(self) -> str:
        """Where in its row an element is; rows of one element are indexed outside of loops too."""
        if self.builder.kernel.axes[1].extent.constant == 1:
            return "0"
        return f"({self.builder.emitter.index(self.nest.flat[1])})"

    def _add_second(self, member: Member, accumulator: Accumulator) -> list[str]:
        operation = member.operation
        assert isinstance(operation, Reduction)
        passes = two_pass(operation.kind)
        assert passes is not None
        element, middle = (
            self._element(member),
            self._row_value(self.middles[targets(operation)[0]]),
        )
        text = fill(passes.second, accumulator.dtype, element, middle)
        return accumulator.add(self.lane, f"({text})", self._position())

    def _row_value(self, name: str) -> str:
        """A result of a row, inside a loop."""
        return f"{name}[lane]" if self.is_columns else name

    def _finish_first(self, member: Member, accumulator: Accumulator, lanes: int) -> None:
        operation = member.operation
        passes = two_pass(accumulator_kind(member))
        states = self._joined(accumulator, lanes)
        if passes is None:
            self._define(member, accumulator, states)
            return
        text = fill(passes.middle, accumulator.dtype, *states, count=f"({self.length})")
        (name,) = self._named([text], [accumulator.dtype])
        self.middles[targets(operation)[0]] = name

    def _finish_second(self, member: Member, accumulator: Accumulator, lanes: int) -> None:
        passes = two_pass(accumulator_kind(member))
        assert passes is not None
        middle = self._row_value(self.middles[targets(member.operation)[0]])
        (total,) = self._joined(accumulator, lanes)
        states = [
            f"({fill(text, accumulator.dtype, '', middle, total, count=f'({self.length})')})"
            for text in passes.states
        ]
        self._define(member, Accumulator(accumulator_kind(member), accumulator.dtype, ()), states)

    def _joined(self, accumulator: Accumulator, lanes: int) -> list[str]:
        """The states of a row."""
        if self.is_columns:
            return [f"{name}[lane]" for name in accumulator.names]
        for line in accumulator.join(lanes):
            self.item.append(line)
        return [f"{name}[0]" for name in accumulator.names]

    def _define(self, member: Member, accumulator: Accumulator, states: list[str]) -> None:
        """Name the results of a reduction."""
        operation = member.operation
        texts = accumulator.finalise(states)
        kinds = [self.builder.schedule.program.buffers[name].dtype for name in targets(operation)]
        names = self._named(texts, [kind.compute for kind in kinds])
        self.builder.define(member, [self._row_value(name) for name in names])

    def _named(self, texts: list[str], kinds: list[DType]) -> list[str]:
        """Names for values of a row: scalars, or arrays over the lanes."""
        names = [self.builder.fresh("t") for _ in texts]
        for name, text, kind in zip(names, texts, kinds, strict=True):
            if self.is_columns:
                self.item.append(f"{C_TYPES[kind]} {name}[{COLUMNS}];")
                self.item.append(f"for (int lane = 0; lane < count; lane++) {name}[lane] = {text};")
            else:
                self.item.append(f"const {C_TYPES[kind]} {name} = {text};")
        return names

    # --- scans

    def _scan(self, member: Member) -> None:
        """Walk a row in order; every state's results go into row buffers."""
        operation = member.operation
        assert isinstance(operation, Scan)
        accumulator = Accumulator(operation.kind, operation.args[0].dtype, ())
        names = tuple(self.builder.fresh("acc") for _ in accumulator.types)
        accumulator = Accumulator(operation.kind, operation.args[0].dtype, names)
        for line in accumulator.declare(1):
            self.item.append(line)
        places = []
        with self._loops(0, is_vector=False) as loop:
            loop.items += accumulator.add("0", self._element(member), self._position())
            results = accumulator.finalise([f"{name}[0]" for name in names])
            for name, text in zip(targets(operation), results, strict=True):
                dtype = self.builder.schedule.program.buffers[name].dtype.compute
                place = f"{self._row_buffer(dtype)}[{self._position()}]"
                loop.append(f"{place} = {text};")
                places.append(place)
        self.builder.define(member, places)

    # --- row buffers

    def _row_buffer(self, dtype: DType) -> str:
        name = self.builder.fresh("row")
        self.buffers.append((name, dtype))
        return name

    def _place(self, name: str) -> str:
        position = self._position()
        return (
            f"{name}[{position} * {COLUMNS} + lane]" if self.is_columns else f"{name}[{position}]"
        )

    def _keep_rows(self, walk: Walk, loop: Loop) -> None:
        for value in walk.kept:
            name = self.rows[value] = self._row_buffer(value.dtype)
            loop.append(f"{self._place(name)} = {self.builder.emitter.value(value)};")

    def _use_rows(self, walk: Walk, loop: Loop) -> None:
        for value in walk.used:
            name = self.builder.fresh("t")
            loop.append(f"const {C_TYPES[value.dtype]} {name} = {self._place(self.rows[value])};")
            loop.names[Computed(value)] = name

    def _scratch(self) -> tuple[list[str], str]:
        """Lines that place the row buffers in the scratch memory, and its size in bytes."""
        setup: list[str] = []
        total = "0"
        for name, dtype in self.buffers:
            setup.append(
                f"{C_TYPES[dtype]} *const {name} = ({C_TYPES[dtype]} *)(scratch + {total});"
            )
            size = f"(size_t)({self.length}) * {self._rows * dtype.itemsize}"
            total = f"{total} + ({size} + 63) / 64 * 64"
        return setup, total.removeprefix("0 + ")

    # --- what is stored once for each row

    def _store_outer(self) -> None:
        builder = self.builder
        if not self.is_columns:
            with builder.emitter.at(self.item):
                for store in stores(self.plan.outer, self.nest, builder):
                    self.item.append(f"{store.address} = {store.value};")
            return
        loop = self._open_lanes(self.item)
        with builder.emitter.at(loop):
            loop.stores += stores(self.plan.outer, self.nest, builder)
        self.item.close()


def open_fissioned(region: Region, header: str, axes: frozenset[Axis]) -> Region:
    """A region that computes all it needs itself: what is around may change, or not be allowed."""
    inner = region.open(header, axes)
    inner.parent = None
    return inner


def accumulator_kind(member: Member) -> str:
    """The kind of a reduction."""
    operation = member.operation
    assert isinstance(operation, Reduction)
    return operation.kind


def walked_code(nest: LoopNest, builder: KernelBuilder, *, is_columns: bool) -> HostCode:
    """A reduction kernel."""
    return Walker(nest, builder, is_columns=is_columns).code()
