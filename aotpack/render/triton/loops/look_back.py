"""Decoupled look-back: scans of long rows in one pass; a program scans a block of a row.

A program publishes the states of its block and scans it. It needs the states of all blocks before:
those of its group of blocks, which it reduces itself, and the prefix that the last program of the
group before has published (after Merrill and Garland, 2016, but in one order: the order of
combining does not depend on which programs are ready, so bits are reproducible).

Blocks are numbered in the order in which programs begin, so a program waits for running programs
only. The last to end clears all counters, for the next launch.
"""

from aotpack.ir.kernels.kernel import LOOK_BACK_GROUP, Kernel, Member
from aotpack.ir.operations import Scan
from aotpack.render.emit.regions import INDENT
from aotpack.render.environment import render_function
from aotpack.render.triton.contexts import LookBackContext
from aotpack.render.triton.loops.loop_builder import LoopBuilder
from aotpack.render.triton.loops.reductions import (
    along,
    block_states,
    combined,
    named,
    reduced,
    tile_shape,
)
from aotpack.render.triton.loops.walk import RowWalk
from aotpack.render.triton.monoids import TRITON_MONOIDS

TEMPLATE = "device_look_back.py.jinja"
# Triton's interpreter runs programs one by one: it needs no fence.
FUNCTIONS = ("fence", "publish", "wait", "clear")


class LookBack(RowWalk):
    """A program has a block of a row, and waits for the blocks before it."""

    def scan(self, builder: LoopBuilder, member: Member) -> list[str]:
        """Scan a program's block behind all before it; the names of the results."""
        operation, region = member.operation, builder.emitter.region
        assert isinstance(operation, Scan)
        monoid = TRITON_MONOIDS[operation.kind]
        ready, places = _exchange(builder.kernel, operation)
        ready = builder.arguments.pointer(ready)
        pointers = [builder.arguments.pointer(place) for place in places]
        builder.functions.update({name: render_function(TEMPLATE, name) for name in FUNCTIONS})
        states = block_states(builder, member, monoid)
        totals = reduced(builder, monoid, states)
        _publish(builder, ready, pointers, totals, "row + part", "part < parts")
        scanned = along(builder, monoid, "tl.associative_scan", states, 0)
        region.append(f"wait({ready} + row + before, is_before)")
        fills = monoid.identity(operation.args[0].dtype)
        told = [
            named(
                builder,
                f"tl.where(is_before, tl.load({pointer} + row + before, mask=is_before, other=0,"
                f' cache_modifier=".cg"), {fill})',
            )
            for pointer, fill in zip(pointers, fills, strict=True)
        ]
        earlier = along(builder, monoid, "tl.reduce", told, 0)
        after = combined(builder, region, monoid, earlier, totals)
        _publish(builder, ready, pointers, after, "row + parts + group + 1", "is_last")
        spread = [f"tl.broadcast_to({name}, {tile_shape(builder)})" for name in earlier]
        names = combined(builder, region, monoid, spread, scanned)
        return [named(builder, text.format(*names)) for text in monoid.finalise]

    def emit(self, builder: LoopBuilder, program: str) -> None:
        """The members; then the last program to end resets all counters."""
        super().emit(builder, program)
        kernel, region = builder.kernel, builder.emitter.region
        turn, *others = (builder.arguments.pointer(counter.name) for counter in kernel.counters)
        builder.arguments.use_sizes(kernel.axes[0].extent)
        places = f"({kernel.axes[0].extent})*(parts + groups)"
        region.append("tl.debug_barrier()")
        region.append(f'if tl.atomic_add({turn} + 1, 1, sem="acq_rel") == tl.num_programs(0) - 1:')
        for ready in others:
            region.append(f"{INDENT}clear({ready}, {places})")
        region.append(f"{INDENT}tl.store({turn} + tl.arange(0, 2), 0)")

    def look_back(self, builder: LoopBuilder) -> LookBackContext:
        """Blocks are counted in the order in which their programs begin."""
        kernel = builder.kernel
        turn = builder.arguments.pointer(kernel.counters[0].name)
        return LookBackContext(turn, str(kernel.axes[0].extent), LOOK_BACK_GROUP)


def _exchange(kernel: Kernel, operation: Scan) -> tuple[str, list[str]]:
    """The buffer of ready flags, and the buffers of a scan's states."""
    scans = [m.operation for m in kernel.members if isinstance(m.operation, Scan)]
    counts = [len(TRITON_MONOIDS[scan.kind].lift) for scan in scans]
    number = scans.index(operation)
    first = sum(counts[:number])
    places = kernel.exchange[first : first + counts[number]]
    return kernel.counters[1 + number].name, [place.name for place in places]


def _publish(
    builder: LoopBuilder,
    ready: str,
    pointers: list[str],
    states: list[str],
    place: str,
    mask: str,
) -> None:
    region = builder.emitter.region
    for pointer, state in zip(pointers, states, strict=True):
        region.append(f"tl.store({pointer} + {place}, {state}, mask={mask})")
    region.append(f"publish({ready} + {place}, {mask})")
