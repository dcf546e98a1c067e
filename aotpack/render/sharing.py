"""Several programs share a row: each leaves the states of its part, waits, and merges all parts.

The programs of a row are one thread block cluster: the GPU runs them at once or refuses the launch,
so waiting for each other cannot hang, whatever else the GPU does. States go through memory, which
every compiler can write; each has a place of its own, so nothing must be cleared or reused.

Rows C:B18, G18, inv23.
"""

from aotpack.ir.integers import Int
from aotpack.ir.monoids import MONOIDS
from aotpack.ir.nodes import Buffer, Reduction
from aotpack.ir.schedule import Kernel, ReductionTile
from aotpack.render.contexts import Share
from aotpack.render.workshop import Workshop

WAIT = "meet()"  # Triton's interpreter turns to another program here
MEET = """@triton.jit
def meet():
    tl.inline_asm_elementwise(
        "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;"
        " mov.u32 $0, $1;", "=r,r", [0], tl.int32, is_pure=False, pack=1
    )
"""


def part_length(extent: Int, cluster_size: int) -> Int:
    """The elements of a part; all are equally long."""
    return extent // cluster_size


def share_of(kernel: Kernel, tile: ReductionTile) -> Share | None:
    """How a tile's rows are divided; None where a program has a row of its own."""
    if tile.cluster_size == 1:
        return None
    length = part_length(kernel.axes[1].extent, tile.cluster_size)
    return Share(tile.cluster_size, str(length))


def exchanged(kernel: Kernel, operation: Reduction) -> tuple[Buffer, ...]:
    """Where the states of a reduction are left."""
    first = 0
    for member in kernel.members:
        if isinstance(member.operation, Reduction):
            count = len(MONOIDS[member.operation.kind].states)
            if member.operation is operation:
                return kernel.exchange[first : first + count]
            first += count
    raise ValueError(f"{operation.targets} are not made by {kernel.name}")


def exchange(shop: Workshop, operation: Reduction, states: list[str]) -> list[str]:
    """Leave the states of a part for the others; the states of all parts, as blocks."""
    region, parts = shop.emitter.region, shop.cluster_size
    buffers = exchanged(shop.kernel, operation)
    pointers = [shop.arguments.pointer(buffer.name) for buffer in buffers]
    for pointer, state in zip(pointers, states, strict=True):
        region.append(f"tl.store({pointer} + x*{parts} + part, {state})")
    shop.functions["meet"] = MEET
    region.append(WAIT)
    names = [shop.fresh("t") for _ in states]
    for name, pointer in zip(names, pointers, strict=True):
        place = f"{pointer} + x*{parts} + tl.arange(0, {parts})"
        region.append(f'{name} = tl.load({place}, cache_modifier=".cg")')
    return names
