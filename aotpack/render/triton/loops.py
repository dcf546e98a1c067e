"""Pointwise and reduction kernels: members in order, one region for each walk over the inner axis.

Persistent: the row is in registers, straight code. Looped: a loop for each level of reductions,
each reading the row again; what a later loop needs from a pointwise member or a scan is recomputed
in it.
"""

from collections.abc import Mapping
from dataclasses import replace

from aotpack.ir.kernels.access import written_index
from aotpack.ir.kernels.kernel import Kernel, Member, Schedule
from aotpack.ir.kernels.row_reads import row_reads
from aotpack.ir.kernels.tiles import PointwiseTile, ReductionTile, Tile2D, cluster_size
from aotpack.ir.operations import Pointwise, Reduction, Scan, Scatter
from aotpack.ir.ops.monoids import MONOIDS
from aotpack.ir.program import Operation, loads, reads, targets
from aotpack.ir.symbolic.facts import known_multiple
from aotpack.ir.symbolic.integers import Axis
from aotpack.ir.uses import operation_uses
from aotpack.render.contexts import LoopContext, TileAxis
from aotpack.render.emit.emitter import PACKED_BITS
from aotpack.render.emit.frame import Frame
from aotpack.render.emit.kernel_builder import KernelBuilder
from aotpack.render.emit.loop_fission import fission_groups
from aotpack.render.emit.regions import Region
from aotpack.render.triton.cluster_reduction import cluster_reduction_of, open_room, part_length
from aotpack.render.triton.look_back import end_look_back, look_back_of, look_back_scan
from aotpack.render.triton.reduction_loops import ReductionLoop, stretches
from aotpack.render.triton.reductions import block_reduction, block_scan
from aotpack.render.triton.row_pipeline import Ring
from aotpack.render.triton.scatter import scatter_line

PROGRAM_ID = "tl.program_id(0)"
# The compiler would keep what was computed from elements of 16 bits, which takes twice the room.
AGAIN = """@triton.jit
def again(x):
    return tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [x], x.dtype, is_pure=False, pack=2)
"""
LoopTile = PointwiseTile | Tile2D | ReductionTile


def loop_builder(
    schedule: Schedule, kernel: Kernel, tile: LoopTile, program: str = PROGRAM_ID
) -> KernelBuilder:
    """What a loop kernel is rendered with; a looped axis has no value outside its loops."""
    axes = kernel.axes
    if isinstance(tile, ReductionTile):
        axes = () if tile.ring else axes if tile.persistent else axes[:1]
    builder = KernelBuilder(schedule, kernel, loop_frame(kernel, tile), Region(frozenset(axes)))
    builder.cluster_size = cluster_size(tile)
    if isinstance(tile, ReductionTile) and tile.ring:
        _with_ring(builder, tile)
    builder.looks_back = isinstance(tile, ReductionTile) and tile.look_back
    if isinstance(tile, ReductionTile) and tile.persistent and tile.cluster_size > 1:
        buffers = schedule.program.buffers
        builder.emitter.packed = any(
            buffers[n].dtype.facts.bits == PACKED_BITS for n in kernel.reads
        )
        if builder.emitter.packed:
            builder.functions["again"] = AGAIN
    if isinstance(tile, PointwiseTile):
        starts = {kernel.axes[0]: f"({program}{builder.index_type}*{tile.x})"}
        builder.emitter.frame = replace(builder.emitter.frame, starts=starts)
    return builder


def _with_ring(builder: KernelBuilder, tile: ReductionTile) -> None:
    """Blocks are held in shared memory, as vectors of threads."""
    kernel, schedule = builder.kernel, builder.schedule
    found = row_reads(kernel, schedule.strides, schedule.program.buffers)
    assert found is not None, kernel.name
    length = part_length(kernel.axes[1].extent, tile.cluster_size)
    builder.ring = Ring(builder, tile, found, int(length))
    builder.emitter.frame = replace(builder.emitter.frame, vector=found.vector)


def loop_frame(kernel: Kernel, tile: LoopTile) -> Frame:
    """The index tensors, masks and dimensions of a loop kernel's tile."""
    sides = _sides(kernel, tile)
    masks = {
        axis: f"{axis.name}_mask" for axis, side in sides.items() if side.block and side.masked
    }
    blocks = tuple((axis, side.block) for axis, side in sides.items() if side.block)
    return Frame({axis: axis.name for axis in kernel.axes}, masks, blocks)


def _sides(kernel: Kernel, tile: LoopTile) -> dict[Axis, TileAxis]:
    """The kernel's axes in the tile; a block of 0 means one point for the whole program."""
    if isinstance(tile, Tile2D):
        blocks = (tile.z, tile.y, tile.x)[-len(kernel.axes) :]
        return {axis: _side(axis, n) for axis, n in zip(kernel.axes, blocks, strict=True)}
    if isinstance(tile, PointwiseTile):
        (x,) = kernel.axes
        return {x: _side(x, tile.x)}
    x, r = kernel.axes
    length = part_length(r.extent, tile.cluster_size)
    whole = not tile.persistent or tile.look_back or length.constant == tile.r
    row = replace(_side(r, tile.r), masked=not (whole and known_multiple(length, tile.r)))
    return {x: _side(x, tile.x if tile.x > 1 else 0), r: row}


def _side(axis: Axis, block: int) -> TileAxis:
    return TileAxis(str(axis.extent), block, bool(block) and not known_multiple(axis.extent, block))


def loop_context(
    schedule: Schedule,
    kernel: Kernel,
    tile: LoopTile,
    builder: KernelBuilder,
    program: str = PROGRAM_ID,
) -> LoopContext:
    """Everything the loop template prints, but the name."""
    if builder.cluster_size > 1:
        open_room(builder)
    if isinstance(tile, ReductionTile) and tile.ring:
        _emit_in_turn(kernel, tile, builder, program)
    elif isinstance(tile, ReductionTile) and not tile.persistent:
        _emit_looped(kernel, tile, builder)
    else:
        for member in kernel.members:
            _emit_straight(member, kernel, builder)
        if builder.looks_back:
            end_look_back(builder)
    return _context(kernel, tile, builder, program)


def _emit_in_turn(
    kernel: Kernel, tile: ReductionTile, builder: KernelBuilder, program: str
) -> None:
    """Rows one after the other, through a ring of blocks in shared memory."""
    assert builder.ring is not None
    x = kernel.axes[0]
    builder.root.append(f"row = {program} // {tile.cluster_size}")
    builder.root.append(f"together = tl.num_programs(0) // {tile.cluster_size}")
    builder.ring.open()
    builder.root.append("all_open()")
    builder.has_met = True
    turns = f"tl.cdiv({builder.emitter.index(x.extent)} - row, together)"
    if builder.wide:  # a side of the room is an operand of 32 bits; so long rows are fewer
        turns = f"tl.cast({turns}, tl.int32)"
    builder.body = builder.root.open(f"for turn in range({turns}):", frozenset((x,)))
    builder.emitter.region = builder.body
    builder.body.append(f"{x.name} = (row + turn*together){builder.index_type}")
    builder.emitter.held = builder.ring.held()
    builder.emitter.made_for = frozenset((x,))  # a result of the only row has no index that says so
    _emit_looped(kernel, tile, builder)
    builder.root.close()
    builder.emitter.region = builder.body = builder.root


def _emit_straight(member: Member, kernel: Kernel, builder: KernelBuilder) -> None:
    operation = member.operation
    if isinstance(operation, Reduction):
        _define(builder, member, operation, block_reduction(builder, member))
    elif isinstance(operation, Scan):
        builder.define(
            member, (look_back_scan if builder.looks_back else block_scan)(builder, member)
        )
    elif isinstance(operation, Scatter):
        builder.emitter.region.append(scatter_line(builder, member, operation))
        return
    for name in targets(operation):
        if name in kernel.stored:
            _store(member, name, kernel, builder)


def _define(builder: KernelBuilder, member: Member, operation: Reduction, names: list[str]) -> None:
    """Record a reduction's results; what a softmax does with them may be cheaper."""
    builder.define(member, names)
    if operation.kind == "softmax":
        top, total = operation.targets
        builder.emitter.softmax.tops.add(top)
        builder.emitter.softmax.sums.add(total)


def _emit_looped(kernel: Kernel, tile: ReductionTile, builder: KernelBuilder) -> None:
    level = _levels(kernel)
    walks: list[list[Member]] = []
    for number in range(max(level.values()) + 1):
        here = [m for m in kernel.members if level[targets(m.operation)[0]] == number]
        walks.append([m for m in here if not m.outer and _works(m, kernel)])
    producers = operation_uses(member.operation for member in kernel.members).producers
    walked = [_buffers(walk, producers) for walk in walks]
    in_order = any(isinstance(member.operation, Scan) for member in kernel.members)
    once = len(list(filter(None, walks))) < 2
    held: dict[object, str] | None = None if in_order or once or builder.ring is not None else {}
    inner = frozenset(kernel.axes[1:])
    loops = [fission_groups(walk, kernel, inner) for walk in walks]
    order = [group for groups in loops for group in groups]
    for number, groups in enumerate(loops):
        for member in kernel.members:
            if member.outer and level[targets(member.operation)[0]] == number:
                _emit_straight(member, kernel, builder)
        if builder.ring is None:
            builder.emitter.keep = _keep(number, walked, kernel)
        for group in groups:
            is_first, is_last = group is order[0], group is order[-1]
            loop = ReductionLoop(builder, tile, held, is_first=is_first, is_last=is_last)
            _emit_walk(group, kernel, builder, loop)
        builder.emitter.keep = {}


def _keep(number: int, walked: list[set[str]], kernel: Kernel) -> dict[str, str]:
    """What of a walk caches may evict first, and what later walks read again."""
    before, after = set().union(*walked[:number]), set().union(*walked[number + 1 :])
    return {
        **dict.fromkeys(kernel.stored if before else (), "first"),
        **dict.fromkeys(sorted(walked[number] & before), "first"),
        **dict.fromkeys(sorted(walked[number] & after), "last"),
    }


def _works(member: Member, kernel: Kernel) -> bool:
    """True for a member that a walk is made for; others are computed where they are needed."""
    stored = set(targets(member.operation)) & set(kernel.stored)
    return isinstance(member.operation, Reduction) or bool(stored)


def _buffers(walk: list[Member], producers: Mapping[str, Operation]) -> set[str]:
    """What a walk reads from memory, itself and to compute pointwise members and scans again."""
    found: set[str] = set()
    pending = [name for member in walk for name in reads(member.operation)]
    while pending:
        name = pending.pop()
        producer = producers.get(name)
        if producer is None:
            found.add(name)
        elif not isinstance(producer, Reduction):
            pending += reads(producer)
    return found


def _emit_walk(
    working: list[Member], kernel: Kernel, builder: KernelBuilder, loop: ReductionLoop
) -> None:
    """One walk over the inner axis: stores and accumulations; then the reductions' results."""
    parts = stretches(loop.length, loop.tile.r, keep_last=loop.held is not None)
    keep = builder.emitter.keep
    if loop.held and not any(map(_gives_first, working)):
        parts = parts[::-1]  # first what is in registers
    for stretch in parts:
        loop.enter(stretch)
        in_registers = stretch.rest and loop.held is not None
        builder.emitter.keep = dict.fromkeys(keep, "first") if in_registers else keep
        for member in _with_scans(working, kernel):
            if isinstance(member.operation, Reduction):
                loop.accumulate(member)
                continue
            if isinstance(member.operation, Scan):
                builder.define(member, loop.scan(member))
            for name in targets(member.operation):
                if member in working and name in kernel.stored:
                    _store(member, name, kernel, builder)
        loop.leave()
    for member, names in loop.finish():
        assert isinstance(member.operation, Reduction)
        _define(builder, member, member.operation, names)
        for name in targets(member.operation):
            if name in kernel.stored:
                _store(member, name, kernel, builder)


def _gives_first(member: Member) -> bool:
    """True for a reduction that must meet a row's elements in order."""
    operation = member.operation
    return isinstance(operation, Reduction) and MONOIDS[operation.kind].needs_order


def _with_scans(working: list[Member], kernel: Kernel) -> list[Member]:
    """Members of one loop, with the scans whose results they need, in order."""
    needed = {name for member in working for name in reads(member.operation)}
    chosen: list[Member] = []
    for member in reversed(kernel.members):
        made = needed.intersection(targets(member.operation))
        is_scan = isinstance(member.operation, Scan)
        if made and (is_scan or isinstance(member.operation, Pointwise)):
            needed.update(reads(member.operation))
        if member in working or (made and is_scan):
            chosen.append(member)
    return chosen[::-1]


def _levels(kernel: Kernel) -> dict[str, int]:
    """For each target, the loop in which it is made: after all loops whose reductions it needs."""
    level: dict[str, int] = {}
    ready: dict[str, int] = {}
    for member in kernel.members:
        operation = member.operation
        number = max((ready.get(load.buffer, 0) for load in loads(operation)), default=0)
        for name in targets(operation):
            level[name] = number
            ready[name] = number + 1 if isinstance(operation, Reduction) else number
    return level


def _store(member: Member, buffer: str, kernel: Kernel, builder: KernelBuilder) -> None:
    operation = member.operation
    if isinstance(operation, Pointwise):
        value = builder.emitter.value(builder.bound(member, operation.value))
    else:
        value = builder.results[buffer]
    outer = member.outer or isinstance(operation, Reduction)
    axes = frozenset(kernel.axes[:1] if outer else kernel.axes)
    offset = builder.offset_of(buffer, written_index(member))
    builder.emitter.region.append(builder.emitter.store(buffer, offset, value, axes))


def _context(kernel: Kernel, tile: LoopTile, builder: KernelBuilder, program: str) -> LoopContext:
    sides = {axis.name: side for axis, side in _sides(kernel, tile).items()}
    for axis in kernel.axes:
        builder.arguments.use_sizes(axis.extent)
    look_back = look_back_of(kernel, tile, builder) if isinstance(tile, ReductionTile) else None
    return LoopContext(
        name=kernel.name,
        comments=builder.comments,
        functions=tuple(builder.functions.values()),
        parameters=tuple(arg.name for arg in builder.arguments.parameters()),
        index_type=builder.index_type,
        z=sides.get("z"),
        y=sides.get("y"),
        x=sides["x"],
        r=sides.get("r"),
        is_flat=sum(bool(side.block) for side in sides.values()) == 1,
        persistent=not isinstance(tile, ReductionTile) or tile.persistent,
        lines=tuple(builder.root.lines()),
        program=program,
        band=tile.band if isinstance(tile, Tile2D) else 1,
        is_launched=program == PROGRAM_ID,
        cluster=cluster_reduction_of(kernel, tile) if isinstance(tile, ReductionTile) else None,
        in_turn=builder.ring is not None,
        look_back=look_back,
    )
