"""Scans of long rows in one pass: each program has a block, and waits for those before it.

A program tells the others the states of its block, scans it, and needs the states of all before:
those of its group of blocks, which it reduces itself, and what the last program of the group
before has told of everything up to there (a look-back after Merrill and Garland, 2016, but in one
order: what is combined with what does not depend on who is ready, so bits do not).

Blocks are given out in the order in which programs begin, so whoever waits, waits for programs
that run. The last to end clears all counters: the next launch finds them as this one did.
"""

from aotpack.ir.kernels.kernel import LOOK_BACK_GROUP, Kernel, Member
from aotpack.ir.kernels.tiles import ReductionTile
from aotpack.ir.operations import Scan
from aotpack.render.contexts import LookBack
from aotpack.render.emit.kernel_builder import KernelBuilder
from aotpack.render.emit.regions import INDENT
from aotpack.render.triton.monoid import TritonMonoid
from aotpack.render.triton.monoids import TRITON_MONOIDS
from aotpack.render.triton.reductions import along, block_states, named, reduced, tile_shape

FENCE = "fence()"  # Triton's interpreter, whose programs run in turn, needs none
FUNCTIONS = {
    "fence": """@triton.jit
def fence():
    tl.inline_asm_elementwise(
        "fence.acq_rel.gpu; mov.u32 $0, $1;", "=r,r", [0], tl.int32, is_pure=False, pack=1
    )
""",
    "tell": """@triton.jit
def tell(ready, mask):
    tl.debug_barrier()
    tl.atomic_xchg(ready, 1, mask=mask, sem="release")
""",
    "wait": f"""@triton.jit
def wait(ready, mask):
    missing = 1
    while missing > 0:
        found = tl.load(ready, mask=mask, other=1, volatile=True)
        missing = tl.sum((found == 0).to(tl.int32), 0)
    {FENCE}
    tl.debug_barrier()
""",
    "clear": """@triton.jit
def clear(ready, places):
    for start in range(0, places, 1024):
        place = start + tl.arange(0, 1024)
        tl.store(ready + place, 0, mask=place < places)
""",
}


def look_back_of(kernel: Kernel, tile: ReductionTile, builder: KernelBuilder) -> LookBack | None:
    """How blocks are given out; None where programs do not wait for each other."""
    if not tile.look_back:
        return None
    turn = builder.arguments.pointer(kernel.counters[0].name)
    return LookBack(turn, str(kernel.axes[0].extent), LOOK_BACK_GROUP)


def look_back_scan(builder: KernelBuilder, member: Member) -> list[str]:
    """The lines that scan a program's block behind all before it; the names of the results."""
    operation, region = member.operation, builder.emitter.region
    assert isinstance(operation, Scan)
    monoid, kernel = TRITON_MONOIDS[operation.kind], builder.kernel
    ready, rooms = _told(kernel, operation)
    ready = builder.arguments.pointer(ready)
    pointers = [builder.arguments.pointer(room) for room in rooms]
    builder.functions.update(FUNCTIONS)
    states = block_states(builder, member, monoid)
    totals = reduced(builder, monoid, states)
    _tell(builder, ready, pointers, totals, "row + part", "part < parts")
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
    after = _combined(builder, monoid, earlier, totals)
    _tell(builder, ready, pointers, after, "row + parts + group + 1", "is_last")
    spread = [f"tl.broadcast_to({name}, {tile_shape(builder)})" for name in earlier]
    names = _combined(builder, monoid, spread, scanned)
    return [named(builder, text.format(*names)) for text in monoid.finalise]


def end_look_back(builder: KernelBuilder) -> None:
    """The lines by which the last program to end leaves all counters zero."""
    kernel, region = builder.kernel, builder.emitter.region
    turn, *others = (builder.arguments.pointer(counter.name) for counter in kernel.counters)
    builder.arguments.use_sizes(kernel.axes[0].extent)
    places = f"({kernel.axes[0].extent})*(parts + groups)"
    region.append("tl.debug_barrier()")
    region.append(f'if tl.atomic_add({turn} + 1, 1, sem="acq_rel") == tl.num_programs(0) - 1:')
    for ready in others:
        region.append(f"{INDENT}clear({ready}, {places})")
    region.append(f"{INDENT}tl.store({turn} + tl.arange(0, 2), 0)")


def _told(kernel: Kernel, operation: Scan) -> tuple[str, list[str]]:
    """What says who is ready, and where the states of a scan are left."""
    scans = [m.operation for m in kernel.members if isinstance(m.operation, Scan)]
    counts = [len(TRITON_MONOIDS[scan.kind].lift) for scan in scans]
    number = scans.index(operation)
    first = sum(counts[:number])
    rooms = kernel.exchange[first : first + counts[number]]
    return kernel.counters[1 + number].name, [room.name for room in rooms]


def _tell(
    builder: KernelBuilder,
    ready: str,
    pointers: list[str],
    states: list[str],
    place: str,
    mask: str,
) -> None:
    region = builder.emitter.region
    for pointer, state in zip(pointers, states, strict=True):
        region.append(f"tl.store({pointer} + {place}, {state}, mask={mask})")
    region.append(f"tell({ready} + {place}, {mask})")


def _combined(
    builder: KernelBuilder, monoid: TritonMonoid, a: list[str], b: list[str]
) -> list[str]:
    names = [builder.fresh("t") for _ in a]
    call = f"{monoid.combine_name}({', '.join([*a, *b])})"
    builder.emitter.region.append(f"{', '.join(names)} = {call}")
    return names
