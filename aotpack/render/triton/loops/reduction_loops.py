"""Any monoid over a loop of blocks: accumulators for each lane, and scans that carry a state.

A walk is a pass over the inner axis: a loop over whole blocks, without masks, and straight code for
the last block, which stays in registers for later walks. Where scans need the order of a row, the
last block is a loop of one step.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from aotpack.ir.kernels.kernel import Member
from aotpack.ir.kernels.tiles import WARP, ReductionTile
from aotpack.ir.operations import Reduction, Scan
from aotpack.ir.symbolic.facts import bounds, known_equal, known_multiple
from aotpack.ir.symbolic.integers import Axis, Int, maximum
from aotpack.render.emit.frame import Frame
from aotpack.render.emit.regions import Region
from aotpack.render.triton.loops.loop_builder import LoopBuilder
from aotpack.render.triton.loops.reductions import (
    along,
    block_states,
    combined,
    finish,
    last_axis,
    last_place,
    masked_element,
    named,
    place_type,
    reduced,
    reduced_type,
    tile_shape,
)
from aotpack.render.triton.monoid import TritonMonoid
from aotpack.render.triton.monoids import TRITON_MONOIDS
from aotpack.render.triton.types import TRITON_TYPES

WARPS_WITH_ROOM = 8  # with more of them, states of all elements of a thread spilled
MOST_STEPS = 4  # of a thread in a block: with more of them, positions spilled


@dataclass(frozen=True, slots=True)
class Stretch:
    """Blocks from ``start`` to ``stop``; the one block of a ``rest`` may run past the end."""

    start: Int
    stop: Int
    rest: bool


def stretches(extent: Int, block: int, *, keep_last: bool) -> tuple[Stretch, ...]:
    """The whole blocks of an axis, and its rest, where there may be one.

    ``keep_last``: there is always a rest, the last whole block if necessary.
    """
    if not keep_last and known_multiple(extent, block):
        return (Stretch(Int.of(0), extent, rest=False),)
    whole = (extent - (1 if keep_last else 0)) // block * block
    both = (Stretch(Int.of(0), whole, rest=False), Stretch(whole, extent, rest=True))
    return tuple(part for part in both if not known_equal(part.start, part.stop))


class Blocks:
    """A loop over the blocks of a row: each block is read from memory where it is needed."""

    in_memory = True  # a later loop reads them there again

    def __init__(self, tile: ReductionTile) -> None:
        self.tile = tile

    def steps(self, ends: str, *, is_rest: bool) -> str:
        """The range of the loop; ``ends`` are the first, the last and the step."""
        if self.tile.unroll > 1 and not is_rest:
            return f"tl.range({ends}, loop_unroll_factor={self.tile.unroll})"
        return f"range({ends})"

    @property
    def elements(self) -> str:
        """The positions of elements in their block."""
        return f"tl.arange(0, {self.tile.r})"

    def enter(self, region: Region, *, is_first: bool) -> None:
        """Begin a step; ``is_first``: of the first loop over a row."""

    def leave(self, region: Region) -> None:
        """End a step of the last loop over a row."""


@dataclass(slots=True)
class ReductionLoop:
    """Walks over the inner axis with the accumulators of reductions and the states of scans."""

    builder: LoopBuilder
    blocks: Blocks
    resident: dict[object, str] | None  # names in the last block; None: walk in order
    is_first: bool = False  # of the walks over a row
    is_last: bool = False
    tile: ReductionTile = field(init=False)
    outside: Region = field(init=False)
    frame: Frame = field(init=False)
    region: Region = field(init=False)
    names: dict[str, list[str]] = field(default_factory=dict)  # by the first target of a member
    pending: dict[str, Member] = field(default_factory=dict)
    start: str = ""  # of the current block
    end: str | None = None  # of the row, where the block may run past it

    def __post_init__(self) -> None:
        emitter = self.builder.emitter
        self.tile, self.outside, self.frame = self.blocks.tile, emitter.region, emitter.frame

    @property
    def length(self) -> Int:
        """The length of a walk: of the row, or of the program's part of it."""
        return self.builder.length

    @contextmanager
    def over(self, stretch: Stretch, cache: Mapping[str, str]) -> Iterator[None]:
        """The loop over a stretch of blocks, or the last block, around the lines written inside."""
        is_resident = stretch.rest and self.resident is not None
        frame = self._last_block(stretch) if is_resident else self._loop(stretch)
        cache = dict.fromkeys(cache, "first") if is_resident else cache
        with self.builder.emitter.at(self.region, frame=frame, cache=cache):
            yield
            if self.is_last:
                self.blocks.leave(self.region)
        self.outside.close()

    def _last_block(self, stretch: Stretch) -> Frame:
        """Go to the last block; an earlier walk may have left its loads in registers."""
        r, is_new = self.builder.kernel.axes[1], not self.resident
        assert self.resident is not None
        start = self.builder.emitter.index(stretch.start)
        reaches_over = not known_multiple(stretch.stop, self.tile.r)
        self.region = self.outside.open(None, frozenset((r,)), self.resident)
        self._bound(start, reaches_over)
        if is_new:
            self._place("rest")
        self.resident[r] = "rest"
        masks = self._other_masks
        if reaches_over:
            masks = {a: "rest_mask" if a is r else m for a, m in self.frame.masks.items()}
        return replace(self.frame, names={**self.frame.names, r: "rest"}, masks=masks)

    def _loop(self, stretch: Stretch) -> Frame:
        """Open the loop over a stretch."""
        emitter, r = self.builder.emitter, self.builder.kernel.axes[1]
        ends = f"{emitter.index(stretch.start)}, {emitter.index(stretch.stop)}, {self.tile.r}"
        steps = self.blocks.steps(ends, is_rest=stretch.rest)
        self.region = self.outside.open(f"for r_start in {steps}:", frozenset((r,)))
        self._bound("r_start", stretch.rest)
        self._place("r")
        self.blocks.enter(self.region, is_first=self.is_first)
        return self.frame if stretch.rest else replace(self.frame, masks=self._other_masks)

    @property
    def _other_masks(self) -> dict[Axis, str]:
        """The masks of a block inside its row."""
        r = self.builder.kernel.axes[1]
        return {axis: mask for axis, mask in self.frame.masks.items() if axis is not r}

    def _bound(self, start: str, masked: bool) -> None:
        """Record where the block starts, and where the row ends in it."""
        end = self._in_row(self.builder.emitter.index(self.length))
        self.start, self.end = self._in_row(start), end if masked else None

    def _place(self, name: str) -> None:
        """The lines that name the indices of a block, and its mask."""
        shape = "[None, :]" if last_axis(self.builder) else ""
        index = f"({self.start} + {self.blocks.elements}){shape}{self.builder.index_type}"
        self.region.append(f"{name} = {index}")
        if self.end is not None:
            self.region.append(f"{name}_mask = {name} < {self.end}")

    def accumulate(self, member: Member) -> None:
        """Combine this block into the member's accumulators, for each lane."""
        operation = member.operation
        assert isinstance(operation, Reduction)
        self.pending[operation.targets[0]] = member
        builder, monoid = self.builder, TRITON_MONOIDS[operation.kind]
        if monoid.meaning.needs_order:
            self._accumulate_first(member, monoid)
            return
        mask = builder.emitter.frame.masks.get(builder.kernel.axes[1])
        if self._in_groups(monoid):
            states = self._grouped(member, monoid, mask)
            mask, shape = None, f"[{self._lanes(monoid)[1]}]"
        else:
            states, shape = block_states(builder, member, monoid, masked=False), tile_shape(builder)
        names = self._start(member, "acc", shape)
        made = combined(builder, self.region, monoid, names, states)
        for name, new in zip(names, made, strict=True):
            self.region.append(f"{name} = " + (f"tl.where({mask}, {new}, {name})" if mask else new))

    def _in_groups(self, monoid: TritonMonoid) -> bool:
        return self.tile.group > 1 and monoid.group is not None and not last_axis(self.builder)

    def _grouped(self, member: Member, monoid: TritonMonoid, mask: str | None) -> list[str]:
        """The states of the lanes of a block, which may reach over the end of the row."""
        builder, (steps, lanes, size) = self.builder, self._lanes(monoid)
        element = masked_element(builder, member, monoid)
        counts = mask is not None and monoid.counts
        if not self.frame.vector:
            count = f", {self.end} - ({self.start})" if counts else ""
            return self._call_group(monoid, f"tl.reshape({element}, {[steps, lanes, size]}){count}")
        states = self._call_group(monoid, f"tl.expand_dims({element}, 2)")
        if not counts:
            return states
        # A lane has one vector, and rows are whole vectors: it is in the row, or behind it.
        inside = named(builder, f"{self.start} + tl.arange(0, {lanes})*{size} < {self.end}")
        pairs = zip(states, monoid.identity(reduced_type(member)), strict=True)
        return [named(builder, f"tl.where({inside}, {name}, {fill})") for name, fill in pairs]

    def _call_group(self, monoid: TritonMonoid, operands: str) -> list[str]:
        """The states that a monoid's function for groups gives."""
        builder, names = self.builder, [self.builder.fresh("t") for _ in monoid.meaning.states]
        assert monoid.group is not None
        self.region.append(f"{', '.join(names)} = {builder.use(monoid.group)}({operands})")
        return names

    def _accumulate_first(self, member: Member, monoid: TritonMonoid) -> None:
        """Blocks come in order: of equal extremes the accumulated one is the first.

        A lane keeps the start of the block of its extreme, and the distance from its first element
        of that block; its own position is added at the end. Lanes past the end of a row have the
        identity, which is never a new extreme.
        """
        builder = self.builder
        element = masked_element(builder, member, monoid)
        names = self._start_first(member, monoid)
        states = [element, self.start]
        if self._in_groups(monoid):
            shape = list(self._lanes(monoid))
            states = self._call_group(monoid, f"tl.reshape({element}, {shape}), {self.start}")
        combined(builder, self.region, monoid, names, states, names)

    def _start_first(self, member: Member, monoid: TritonMonoid) -> list[str]:
        """The accumulators of ``_accumulate_first``: at first, those of a lane's first element."""
        operation, builder = member.operation, self.builder
        assert isinstance(operation, Reduction)
        key, dtype = operation.targets[0], operation.args[0].dtype
        if key not in self.names:
            self.names[key] = value, place = [builder.fresh("acc") for _ in monoid.meaning.states]
            _, lanes, _ = self._lanes(monoid)
            shape = f"[{lanes}]" if self._in_groups(monoid) else tile_shape(builder)
            low, kind = monoid.identity(dtype)[0], TRITON_TYPES[dtype]
            self.outside.append(f"{value} = tl.full({shape}, {low}, {kind})")
            first = self._in_row("0")
            kind = TRITON_TYPES[place_type(builder, member, monoid)]
            self.outside.append(f"{place} = tl.full({shape}, {first}, {kind})")
        return self.names[key]

    def _finish_first(self, member: Member, monoid: TritonMonoid) -> list[str]:
        """The states of ``_accumulate_first``; lanes past a short row's end have no element.

        The first lane of an empty row has the identity, at position 0.
        """
        operation, builder = member.operation, self.builder
        assert isinstance(operation, Reduction)
        value, place = self.names[operation.targets[0]]
        _, lanes, size = self._lanes(monoid) if self._in_groups(monoid) else (1, self.tile.r, 1)
        lane = f"tl.arange(0, {lanes})" + (f"*{size}" if size > 1 else "")
        lane = named(builder, f"({lane})[None, :]" if last_axis(builder) else lane)
        place = named(builder, f"{place} + {lane}")
        if bounds(self.length)[0] <= (lanes - 1) * size:
            last = last_place(place_type(builder, member, monoid))
            inside = f"{lane} < {builder.emitter.index(maximum(1, self.length))}"
            place = named(builder, f"tl.where({inside}, {place}, {last})")
        return [value, place]

    def _lanes(self, monoid: TritonMonoid) -> tuple[int, int, int]:
        """A block as a tile: its steps, the groups of each step, the neighbours of a group."""
        tile = self.tile
        size = min(tile.group, monoid.most_neighbours or tile.group)
        groups, at_once = tile.r // size, WARP * tile.num_warps * tile.group // size
        one_step = tile.num_warps > WARPS_WITH_ROOM and not monoid.meaning.needs_order
        lanes = groups if one_step else min(groups, max(at_once, groups // MOST_STEPS))
        return groups // lanes, lanes, size

    def _in_row(self, start: str) -> str:
        """The position in the row of a position in the walk."""
        return self.builder.partition.in_row(start)

    def scan(self, member: Member) -> list[str]:
        """Scan this block, with the state of all blocks before it."""
        operation = member.operation
        assert isinstance(operation, Scan)
        builder, monoid, axis = (
            self.builder,
            TRITON_MONOIDS[operation.kind],
            last_axis(self.builder),
        )
        states = block_states(builder, member, monoid)
        row = builder.emitter.frame.shape(frozenset(builder.kernel.axes[:1])) if axis else "[]"
        carried = self._start(member, "carry", row)
        scanned = along(builder, monoid, "tl.associative_scan", states, axis)
        before = [f"tl.broadcast_to({name}, {tile_shape(builder)})" for name in carried]
        names = combined(builder, self.region, monoid, before, scanned)
        totals = reduced(builder, monoid, states)
        combined(builder, self.region, monoid, carried, totals, carried)
        return [named(builder, text.format(*names)) for text in monoid.finalise]

    def _start(self, member: Member, prefix: str, shape: str) -> list[str]:
        """The names of a member's states, initialised with the identity before the first loop."""
        operation, builder = member.operation, self.builder
        assert isinstance(operation, (Reduction, Scan))
        key = operation.targets[0]
        if key not in self.names:
            monoid, dtype = TRITON_MONOIDS[operation.kind], operation.args[0].dtype
            self.names[key] = [builder.fresh(prefix) for _ in monoid.meaning.states]
            kinds = zip(monoid.identity(dtype), monoid.meaning.state_dtypes(dtype), strict=True)
            for name, (identity, kind) in zip(self.names[key], kinds, strict=True):
                self.outside.append(f"{name} = tl.full({shape}, {identity}, {TRITON_TYPES[kind]})")
        return self.names[key]

    def finish(self) -> list[tuple[Member, list[str]]]:
        """Reduce the accumulators across lanes."""
        done = []
        for key, member in self.pending.items():
            assert isinstance(member.operation, Reduction)
            monoid = TRITON_MONOIDS[member.operation.kind]
            states = self.names[key]
            if monoid.meaning.needs_order:
                states = self._finish_first(member, monoid)
            done.append((member, finish(self.builder, member.operation, states)))
        return done
