"""Pointwise and reduction kernels: members in order, one region for each walk over the inner axis.

Persistent: the row is in registers, straight code. Looped: a loop for each level of reductions,
each reading the row again; what a later loop needs from a pointwise member is recomputed in it
(C:B8, C:G12-G13).
"""

from aotpack.ir.access import written_index
from aotpack.ir.facts import known_multiple
from aotpack.ir.integers import Axis
from aotpack.ir.nodes import Pointwise, Reduction, Scan, loads, targets
from aotpack.ir.schedule import Kernel, Member, PointwiseTile, ReductionTile, Schedule
from aotpack.render.contexts import LoopContext
from aotpack.render.emitter import Frame
from aotpack.render.reductions import block_reduction, block_scan, start_loop
from aotpack.render.workshop import Workshop


def loop_frame(kernel: Kernel, tile: PointwiseTile | ReductionTile) -> Frame:
    """The index tensors, masks and dimensions of a loop kernel's tile."""
    x = kernel.axes[0]
    names: dict[Axis, str] = {axis: axis.name for axis in kernel.axes}
    masks: dict[Axis, str] = {}
    blocks: list[tuple[Axis, int]] = []
    if tile.x > 1 or len(kernel.axes) == 1:
        blocks.append((x, tile.x))
        if not known_multiple(x.extent, tile.x):
            masks[x] = "x_mask"
    if isinstance(tile, ReductionTile):
        r = kernel.axes[1]
        blocks.append((r, tile.r))
        if not known_multiple(r.extent, tile.r) or (
            tile.persistent and r.extent.constant != tile.r
        ):
            masks[r] = "r_mask"
    return Frame(names, masks, tuple(blocks))


def loop_context(
    schedule: Schedule, kernel: Kernel, tile: PointwiseTile | ReductionTile, shop: Workshop
) -> LoopContext:
    """Everything the loop template prints, but the name."""
    if isinstance(tile, ReductionTile) and not tile.persistent:
        _emit_looped(kernel, shop)
    else:
        for member in kernel.members:
            _emit_straight(member, kernel, shop)
    return _context(kernel, tile, shop)


def _emit_straight(member: Member, kernel: Kernel, shop: Workshop) -> None:
    operation = member.operation
    if isinstance(operation, Reduction):
        shop.define(member, block_reduction(shop, member))
    elif isinstance(operation, Scan):
        shop.define(member, block_scan(shop, member))
    for name in targets(operation):
        if name in kernel.stored:
            _store(member, name, kernel, shop)


def _emit_looped(kernel: Kernel, shop: Workshop) -> None:
    level = _levels(kernel)
    last = max(level.values())
    for number in range(last + 1):
        here = [m for m in kernel.members if level[targets(m.operation)[0]] == number]
        for member in here:
            if member.outer:
                _emit_straight(member, kernel, shop)
        _emit_loop([m for m in here if not m.outer], kernel, shop)


def _emit_loop(members: list[Member], kernel: Kernel, shop: Workshop) -> None:
    """One walk over the inner axis: stores and accumulations; then the reductions' results."""
    working = [
        m
        for m in members
        if isinstance(m.operation, Reduction) or set(targets(m.operation)) & set(kernel.stored)
    ]
    if not working:
        return
    loop = start_loop(shop, kernel.axes[1])
    for member in working:
        if isinstance(member.operation, Reduction):
            loop.accumulate(member)
        else:
            _emit_straight(member, kernel, shop)
    for member, names in loop.finish():
        shop.define(member, names)
        for name in targets(member.operation):
            if name in kernel.stored:
                _store(member, name, kernel, shop)


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


def _store(member: Member, buffer: str, kernel: Kernel, shop: Workshop) -> None:
    operation = member.operation
    if isinstance(operation, Pointwise):
        value = shop.emitter.value(shop.bound(member, operation.value))
    else:
        value = shop.results[buffer]
    outer = member.outer or isinstance(operation, Reduction)
    axes = frozenset(kernel.axes[:1] if outer else kernel.axes)
    offset = shop.offset_of(buffer, written_index(member))
    shop.emitter.region.append(shop.emitter.store(buffer, offset, value, axes))


def _context(kernel: Kernel, tile: PointwiseTile | ReductionTile, shop: Workshop) -> LoopContext:
    frame = shop.emitter.frame
    both = len(frame.blocks) == 2
    x = kernel.axes[0]
    r = kernel.axes[1] if len(kernel.axes) == 2 else None
    shop.arguments.use_sizes(x.extent)
    if r is not None:
        shop.arguments.use_sizes(r.extent)
    return LoopContext(
        name=kernel.name,
        comments=shop.comments,
        functions=tuple(shop.functions.values()),
        parameters=tuple(arg.name for arg in shop.arguments.parameters()),
        index_type=shop.index_type,
        x_block=tile.x if any(axis is x for axis, _ in frame.blocks) else 0,
        x_extent=str(x.extent),
        x_masked=x in frame.masks,
        x_shape="[:, None]" if both else "",
        r_block=tile.r if isinstance(tile, ReductionTile) else 0,
        r_extent="" if r is None else str(r.extent),
        r_masked=r in frame.masks,
        r_shape="[None, :]" if both else "",
        persistent=not isinstance(tile, ReductionTile) or tile.persistent,
        lines=tuple(shop.root.lines()),
    )
