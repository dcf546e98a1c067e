"""Counted loops in one launch: the turns are a loop of the kernel, and states stay in registers.

The state that products multiply goes through exchange memory, which has room for two turns: no
program writes where another may still read. Factors that no turn changes are loaded once. What a
turn reads besides is requested before the wait for other programs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.access import points
from aotpack.ir.kernels.kernel import Kernel, Member
from aotpack.ir.kernels.row_reads import Read
from aotpack.ir.kernels.rows import buffer_bytes
from aotpack.ir.kernels.tiles import TurnsTile
from aotpack.ir.kernels.traffic import Work
from aotpack.ir.kernels.turns import Turns, Write, turns_of
from aotpack.ir.operations import Matmul, Pointwise
from aotpack.ir.rewrite import Rewriter
from aotpack.ir.symbolic.facts import known_equal, known_multiple
from aotpack.ir.symbolic.integers import Axis, Int, ceil_div, operand, total
from aotpack.ir.values import Load, Value, indirect_values, loads_below, unguarded_parts
from aotpack.render.emit.emitter import Emitter
from aotpack.render.emit.frame import Frame
from aotpack.render.emit.kernel_builder import KernelBuilder
from aotpack.render.emit.regions import Region
from aotpack.render.environment import render_function
from aotpack.render.triton.dialect import TRITON
from aotpack.render.triton.loops.turns_contexts import TurnsContext, TurnsExchange
from aotpack.render.triton.matmul import precision

TEMPLATE = "device_turns.py.jinja"


def turns_builder(kernel: Kernel, tile: TurnsTile) -> TurnsBuilder:
    """The builder of a loop's kernel; the schedule is that of the loop's body."""
    turns = turns_of(kernel)
    assert turns is not None
    return TurnsBuilder(kernel, turns, tile)


class TurnsBuilder(KernelBuilder):
    """Builds the kernel of a loop from the values of its turns."""

    def __init__(self, loop: Kernel, turns: Turns, tile: TurnsTile) -> None:
        self.turns, self.tile = turns, tile
        self._window = Axis("window", Int.of(max(1, len(turns.windows))))
        names = {turns.row: "row", turns.unit: "unit", turns.turn: "turn"}
        blocks = ((turns.row, tile.rows), (turns.unit, tile.units))
        self._own = Frame(names, _masks(turns, tile), blocks)
        self._before = Region(frozenset((turns.row, turns.unit)))
        super().__init__(loop.parts[1], _computing(loop, turns), self._own, self._before, TRITON)

    @property
    def programs(self) -> Int:
        """The number of programs; a cluster counts as one."""
        rows = ceil_div(self.turns.row.extent, self.tile.rows)
        across = ceil_div(self.turns.unit.extent, self.tile.units)
        return rows if self.turns.windows else rows * across

    @property
    def work(self) -> Work:
        """The work of all turns; each tensor counts once."""
        body = self.schedule.program
        moved = (buffer_bytes(body.buffers[n]) for n in (*self.kernel.reads, *self.kernel.stored))
        sums = (points((w.product.m, self.turns.unit, w.product.k)) for w in self.turns.windows)
        flops = 2 * total(sums)
        return Work(total(moved), flops * self.turns.turn.extent)

    def context(self) -> TurnsContext:
        """The context of the template, without the name."""
        turns, tile = self.turns, self.tile
        first = self._first_states()
        exchange = self._exchange(first) if turns.windows else None
        loop = self._before.open("for", frozenset((turns.turn,)))
        early, body, stores, new = self._turn(loop)
        for expression in (turns.turn.extent, turns.row.extent, turns.unit.extent):
            self.arguments.use_sizes(expression)
        return TurnsContext(
            name=self.kernel.name,
            comments=self.comments,
            functions=_functions() if exchange else (),
            index_type=self.index_type,
            turns=str(turns.turn.extent),
            rows=tile.rows,
            units=tile.units,
            across=str(tile.cluster_size if exchange else ceil_div(turns.unit.extent, tile.units)),
            row_extent=str(turns.row.extent),
            unit_extent=str(turns.unit.extent),
            rows_masked=turns.row in self._own.masks,
            units_masked=turns.unit in self._own.masks,
            setup=tuple(_lines(self._before, loop)),
            early=early,
            body=body,
            stores=stores,
            last=tuple(self._last_states()),
            exchange=exchange and replace(exchange, next=new.get(turns.exchanged, "")),
            parameters=tuple(arg.name for arg in self.arguments.parameters()),
        )

    def _first_states(self) -> dict[str, str]:
        """Load the states that the loop begins with; gives the name of each as it is stored."""
        found = {}
        for number, one in enumerate(self.turns.carried):
            emitter = self.emitter_in(self._own, self._before)
            stored = self.arguments.dtype(one.buffer)
            load = Load(one.buffer, one.index, stored.compute)
            name = found[one.buffer] = emitter.operand(load, stored, self.turns.unit)
            self._before.append(f"carry{number} = {_wide(name, stored)}")
        for number, one in enumerate(self.turns.carried):
            self.results[one.buffer] = f"carry{number}"
        return found

    def _exchange(self, first: dict[str, str]) -> TurnsExchange:
        """The exchange of a state, and the products of it; a turn's new state is not known yet."""
        turns, tile, product = self.turns, self.tile, self.turns.windows[0].product
        (buffer,) = self.kernel.exchange
        masks = self._own.masks
        is_whole = known_equal(turns.unit.extent, tile.depth)
        row_mask = [masks[turns.row]] if turns.row in masks else []
        return TurnsExchange(
            pointer=self.arguments.pointer(buffer.name),
            size=operand(turns.row.extent * turns.unit.extent),
            depth=tile.depth,
            depth_masked=not is_whole,
            mask=_mask([*row_mask, *([] if is_whole else ["k_row_mask"])], ", other=0"),
            own_mask=_mask(list(masks.values())),
            first=first[turns.exchanged],
            next="",
            products=tuple(self._products()),
            parts=tuple(self._parts()),
            precision=precision(product.operand, "ieee"),
            together=tile.together,
        )

    def _products(self) -> Iterator[tuple[str, str]]:
        """Load the right factors; gives the name of each product and of its factor."""
        turns, tile = self.turns, self.tile
        for number, window in enumerate(turns.windows):
            self.results[window.name] = f"acc{number}"
        if tile.together > 1:
            yield "sums", self._factor(turns.windows[0].product, self._columns())
            return
        for number, window in enumerate(turns.windows):
            k = window.product.k
            masks = self._masks_of(k, {turns.unit: self._own.masks.get(turns.unit, "")})
            blocks = ((k, tile.depth), (turns.unit, tile.units))
            frame = Frame({k: "k_column", turns.unit: "unit"}, masks, blocks)
            yield f"acc{number}", self._factor(window.product, frame)

    def _columns(self) -> Frame:
        """The frame of all windows: the columns of a unit are neighbours."""
        turns, tile, k = self.turns, self.tile, self.turns.windows[0].product.k
        others = {turns.unit: "column_mask" if turns.unit in self._own.masks else ""}
        names = {k: "k_column", turns.unit: "column_unit", self._window: "window"}
        blocks = ((k, tile.depth), (turns.unit, tile.units * tile.together))
        return Frame(names, self._masks_of(k, others), blocks)

    def _masks_of(self, k: Axis, others: Mapping[Axis, str]) -> dict[Axis, str]:
        """The bound checks of a factor."""
        whole = known_equal(k.extent, self.tile.depth)
        given = {k: "" if whole else "k_column_mask", **others}
        return {axis: mask for axis, mask in given.items() if mask}

    def _factor(self, product: Matmul, frame: Frame) -> str:
        """Load a right factor; gives its name."""
        value = product.rhs
        if self.tile.together > 1:
            moved = Int.of(self.turns.unit) + self.turns.stride * Int.of(self._window)
            value = Rewriter({self.turns.unit: moved})(value)
        inner = self._before.open(None, frozenset((product.k, self._window)))
        name = self.emitter_in(frame, inner).operand(value, product.operand, product.k)
        self._before.close()
        return name

    def _parts(self) -> Iterator[str]:
        """The lines that take the sums of all windows apart."""
        tile = self.tile
        if tile.together == 1:
            return
        names = [f"acc{number}" for number in range(tile.together)]
        shape = ", ".join(map(str, (tile.rows, tile.units, *[2] * (tile.together // 2))))
        if tile.together == 2:
            yield f"{', '.join(names)} = tl.split(tl.reshape(sums, [{shape}]))"
            return
        yield f"even, odd = tl.split(tl.reshape(sums, [{shape}]))"
        yield f"{names[0]}, {names[2]} = tl.split(even)"
        yield f"{names[1]}, {names[3]} = tl.split(odd)"

    def _turn(
        self, loop: Region
    ) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], dict[str, str]]:
        """Lines of a turn before the wait, behind it, its stores, and the names of new states."""
        turns = self.turns
        emitter = self.emitter_in(self._own, loop)
        requested = self._requested(emitter)
        early = len(loop.items)
        around = frozenset((turns.turn,))
        made: dict[tuple[Value, DType], str] = {}
        with emitter.at(loop, shared_reads=requested, made_for=around):
            for one in (*turns.carried, *turns.stacked):
                key = one.value, self.arguments.dtype(one.buffer)
                if key not in made:
                    made[key] = emitter.operand(*key, turns.turn)
            stores = [self._store(emitter, one, made) for one in turns.stacked]
        new = {one.buffer: self._new(one, made) for one in turns.carried}
        for number, one in enumerate(turns.carried):
            stored = self.arguments.dtype(one.buffer)
            loop.append(f"carry{number} = {_wide(new[one.buffer], stored)}")
        lines = tuple(item for item in loop.items if isinstance(item, str))
        return lines[:early], lines[early:], tuple(stores), new

    def _new(self, one: Write, made: Mapping[tuple[Value, DType], str]) -> str:
        return made[one.value, self.arguments.dtype(one.buffer)]

    def _store(self, emitter: Emitter, one: Write, made: Mapping[tuple[Value, DType], str]) -> str:
        axes = frozenset((self.turns.row, self.turns.unit, self.turns.turn))
        offset = self.offset_of(one.buffer, one.index)
        return emitter.store(one.buffer, offset, self._new(one, made), axes)

    def _requested(self, emitter: Emitter) -> dict[Read, tuple[str, DType]]:
        """Load what a turn reads from memory; gives the names, by buffer and offset."""
        found: dict[Read, tuple[str, DType]] = {}
        values = [one.value for one in (*self.turns.carried, *self.turns.stacked)]
        parts = dict.fromkeys(part for value in values for part in unguarded_parts(value, ()))
        for load in (part for part in parts if isinstance(part, Load)):
            if self.resolve(load) is not None or indirect_values(load.index):
                continue
            if self.turns.turn in emitter.needs(load):
                key = load.buffer, self.offset(load)
                found[key] = emitter.as_stored(load), self.arguments.dtype(load.buffer)
            else:
                emitter.value(load)
        return found

    def _last_states(self) -> Iterator[str]:
        """The stores of the states that the loop ends with."""
        axes = frozenset((self.turns.row, self.turns.unit))
        for number, one in enumerate(self.turns.carried):
            offset = self.offset_of(one.buffer, one.index)
            emitter = self.emitter_in(self._own, self._before)
            yield emitter.store(one.buffer, offset, f"carry{number}", axes)


def _computing(loop: Kernel, turns: Turns) -> Kernel:
    """What a turn computes, as a kernel of points."""
    control, place = loop.control, (turns.row, turns.unit)
    assert control is not None
    writes = (*turns.carried, *turns.stacked)
    index = tuple(map(Int.of, place))
    members = tuple(
        Member(
            Pointwise(f"new {one.buffer}", place, one.value, index, control.origin),
            tuple(zip(place, index, strict=True)),
            outer=False,
        )
        for one in writes
    )
    known = loop.parts[1].program.buffers
    factors = (window.product.rhs for window in turns.windows)
    loads = loads_below((*(one.value for one in writes), *factors))
    read = tuple(dict.fromkeys(load.buffer for load in loads if load.buffer in known))
    stored = tuple(one.buffer for one in writes)
    return Kernel(loop.name, place, members, stored, read, exchange=loop.exchange)


def _masks(turns: Turns, tile: TurnsTile) -> dict[Axis, str]:
    """The bound checks of rows and units, where blocks may leave them."""
    masks = {} if known_multiple(turns.row.extent, tile.rows) else {turns.row: "row_mask"}
    if tile.cluster_size > 1:
        is_even = known_equal(turns.unit.extent, tile.cluster_size * tile.units)
    else:
        is_even = known_multiple(turns.unit.extent, tile.units)
    return masks if is_even else {**masks, turns.unit: "unit_mask"}


def _functions() -> tuple[str, ...]:
    return tuple(render_function(TEMPLATE, name) for name in ("programs_arrive", "programs_wait"))


def _lines(before: Region, loop: Region) -> Iterator[str]:
    """The lines before the loop."""
    for item in before.items:
        if isinstance(item, str):
            yield item
        elif item is not loop:
            yield from item.lines()


def _mask(conditions: list[str], otherwise: str = "") -> str:
    return f", mask={' & '.join(conditions)}{otherwise}" if conditions else ""


def _wide(name: str, stored: DType) -> str:
    """A stored element in the type that it is computed with."""
    return name if stored.compute is stored else TRITON.cast(name, stored, stored.compute)
