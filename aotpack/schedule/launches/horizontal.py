"""Horizontal fusion: small kernels that do not depend on each other share a launch.

    launch a; launch b (reads a); launch c        ->        launch a and c; launch b

A small kernel takes longer to launch than to run. Sharing changes no kernel: each keeps its own
tiles and becomes a function; the programs of a launch are numbered through, those of dynamic sizes
by size expressions.
"""

from bisect import bisect_left
from dataclasses import replace

from aotpack.devices import H200, Gpu
from aotpack.ir.kernels.access import points
from aotpack.ir.kernels.kernel import Kernel
from aotpack.ir.kernels.tiles import Variant
from aotpack.ir.program import Program, expand_concats
from aotpack.ir.symbolic.facts import bounds, typical
from aotpack.schedule.launches.user_partition import (
    MOST_BUFFERS,
    Groups,
    Partition,
    can_share,
    overwritten_by,
    partitioned,
    shared_variant,
    touched,
)

MOST_MEMBERS = 64
NUM_WARPS = 4  # of every member
MOST_ROUNDS = (
    16  # of all threads of the GPU, for the largest sizes of a kernel that shares a launch
)


def fuse_horizontally(
    kernels: tuple[Kernel, ...], program: Program, gpu: Gpu, partition: Partition | None = None
) -> tuple[Kernel, ...]:
    """Let kernels share a launch: those of a group of the user's ``partition``, else small ones."""
    groups = (
        group_small_kernels(kernels, program, gpu)
        if partition is None
        else partitioned(partition, kernels, program)
    )
    return tuple(kernel for group in groups for kernel in _together(group))


def group_small_kernels(kernels: tuple[Kernel, ...], program: Program, gpu: Gpu = H200) -> Groups:
    """Put each small kernel into the first launch with room for it; the order is kept otherwise.

    A kernel that overwrites an updated tensor stays in a later launch than readers of the old
    value.
    """
    slots: list[tuple[Kernel, ...]] = []
    made: dict[str, int] = {}
    last_read: dict[str, int] = {}
    open_slots: list[int] = []  # of small kernels, and not full
    for kernel in kernels:
        before = [made[name] for name in expand_concats(kernel.reads, program) if name in made]
        old = overwritten_by(kernel, program)
        before += [last_read[name] for name in old if name in last_read]
        earliest = 1 + max(before, default=-1)
        slot = len(slots)
        if kernel.runs_in_last_block:
            slot -= 1  # that of the kernel before it
        elif is_small(kernel, program, gpu):
            later = open_slots[bisect_left(open_slots, earliest) :]
            slot = next((n for n in later if _has_room(slots[n], kernel)), slot)
            if slot == len(slots):
                open_slots.append(slot)
        if slot == len(slots):
            slots.append(())
        slots[slot] += (kernel,)
        if len(slots[slot]) >= MOST_MEMBERS and slot in open_slots:
            open_slots.remove(slot)
        made |= dict.fromkeys(kernel.stored, slot)
        for name in kernel.reads:
            last_read[name] = max(slot, last_read.get(name, slot))
    return tuple(slots)


def _has_room(slot: tuple[Kernel, ...], kernel: Kernel) -> bool:
    return len(touched((*slot, kernel))) <= MOST_BUFFERS


def is_small(kernel: Kernel, program: Program, gpu: Gpu) -> bool:
    """True for a kernel of no more points than the GPU computes at once.

    A separate launch would take longer than it runs. Of dynamic points the typical number counts,
    if the largest is not far from it.
    """
    if not can_share(kernel, program):
        return False
    count = points(kernel.axes)
    is_never_large = bounds(count)[1] <= MOST_ROUNDS * gpu.threads_at_once
    return is_never_large and typical(count) <= gpu.threads_at_once


def _together(group: tuple[Kernel, ...]) -> tuple[Kernel, ...]:
    """The kernels of a launch, with equal warps; the tile of a separate launch is a candidate."""
    if len(group) == 1 or group[1].runs_in_last_block:
        return group
    return tuple(
        replace(
            kernel,
            shares_launch=number > 0,
            variants=(
                *(one for one in kernel.variants if one.arch_high == 0),
                _in_shared_launch(shared_variant(kernel)),
            ),
        )
        for number, kernel in enumerate(group)
    )


def _in_shared_launch(variant: Variant) -> Variant:
    tile = replace(variant.tile, num_warps=NUM_WARPS)
    return replace(variant, tile=tile, others=(variant.tile,))
