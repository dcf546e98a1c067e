"""Let small kernels that do not wait for each other share a launch (C:J; C: section 2.6).

    launch a; launch b (reads a); launch c        ->        launch a and c; launch b

A small kernel takes longer to launch than to run. Sharing changes no kernel: each member keeps its
own tiles and becomes a function; programs of the launch are numbered through.

Rows S:K13, L17, L23, C:B7, J1-J4, J12, J14-J16.
"""

from dataclasses import replace

from aotpack.ir.integers import product
from aotpack.ir.joined import sources
from aotpack.ir.nodes import Program
from aotpack.ir.schedule import Kernel, PointwiseTile, ReductionTile, gpu_variants

MOST_POINTS = 264 * 1024  # of a member: about what an H200 computes at once
MOST_MEMBERS = 64
MOST_BUFFERS = 250  # parameters of one kernel
NUM_WARPS = 4  # of every member
LARGEST_TILE = 4096  # elements: 32 in each thread


def combine(kernels: tuple[Kernel, ...], program: Program) -> tuple[Kernel, ...]:
    """The kernels with those that share a launch behind each other; order is kept otherwise.

    What overwrites an updated tensor stays in a later launch than what reads its old value.
    """
    slots: list[list[Kernel]] = []
    made: dict[str, int] = {}
    last_read: dict[str, int] = {}
    overwritten = {update.value: update.name for update in program.updates}
    for kernel in kernels:
        if kernel.completes:
            slots[-1].append(kernel)
            made |= dict.fromkeys(kernel.stored, len(slots) - 1)
            continue
        before = [made[name] for name in sources(kernel.reads, program) if name in made]
        old = (overwritten[name] for name in kernel.stored if name in overwritten)
        before += [last_read[name] for name in old if name in last_read]
        earliest = 1 + max(before, default=-1)
        slot = len(slots)
        if is_small(kernel, program):
            open_slots = range(earliest, len(slots))
            slot = next((n for n in open_slots if _has_room(slots[n], kernel, program)), slot)
        if slot == len(slots):
            slots.append([])
        slots[slot].append(kernel)
        made |= dict.fromkeys(kernel.stored, slot)
        for name in kernel.reads:
            last_read[name] = max(slot, last_read.get(name, slot))
    return tuple(kernel for slot in slots for kernel in _together(slot))


def _has_room(slot: list[Kernel], kernel: Kernel, program: Program) -> bool:
    touched = {name for member in (*slot, kernel) for name in (*member.reads, *member.stored)}
    return is_small(slot[0], program) and len(slot) < MOST_MEMBERS and len(touched) <= MOST_BUFFERS


def is_small(kernel: Kernel, program: Program) -> bool:
    """True for a loop kernel of one tile, without a loop, of few points whose number is known."""
    if kernel.scatter is not None or kernel.is_opaque:
        return False
    if any(program.buffers[name].alone for name in kernel.stored):
        return False
    variants = gpu_variants(kernel)
    tile = variants[0].tile
    if len(variants) > 1 or not isinstance(tile, (PointwiseTile, ReductionTile)):
        return False
    if isinstance(tile, ReductionTile) and not (
        tile.persistent and not tile.chain and tile.x * tile.r <= LARGEST_TILE
    ):
        return False
    points = product(axis.extent for axis in kernel.axes).constant
    return points is not None and 0 < points <= MOST_POINTS


def _together(slot: list[Kernel]) -> list[Kernel]:
    """The members of a launch, all with the same number of warps; apart, each has its own tile."""
    if len(slot) == 1 or slot[1].completes:
        return slot
    return [
        replace(
            kernel,
            joins=number > 0,
            variants=tuple(
                replace(
                    variant,
                    tile=replace(variant.tile, num_warps=NUM_WARPS),
                    others=(variant.tile,),
                )
                if variant in gpu_variants(kernel)
                else variant
                for variant in kernel.variants
            ),
        )
        for number, kernel in enumerate(slot)
    ]
