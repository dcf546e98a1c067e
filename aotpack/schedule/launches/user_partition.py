"""The user's partition: a function that says which kernels share a launch.

    kernels a, b, c        ->        [[a, c], [b]]: launch a and c; launch b

Kernels of a launch run at the same time, so the groups are checked: every kernel is in one group, a
kernel that waits for another is in a later group, and kernels of a group can be functions of one
launch.
"""

from collections.abc import Callable, Iterable
from typing import TypeAlias

from aotpack.errors import UsageError, a_type, calling_user
from aotpack.ir.kernels.access import points
from aotpack.ir.kernels.kernel import Kernel, gpu_variants
from aotpack.ir.kernels.tiles import PointwiseTile, ReductionTile, Variant
from aotpack.ir.program import Program, expand_concats
from aotpack.ir.symbolic.facts import bounds
from aotpack.ir.symbolic.integers import LARGEST_SIZE, Extremum

Groups: TypeAlias = tuple[tuple[Kernel, ...], ...]
Partition: TypeAlias = Callable[[tuple[Kernel, ...], Program], Iterable[Iterable[Kernel]]]

MOST_BUFFERS = 250  # parameters of one kernel
LARGEST_TILE = 4096  # elements: 32 in each thread of four warps


def partitioned(partition: Partition, kernels: tuple[Kernel, ...], program: Program) -> Groups:
    """The groups that the user's partition gives, in launch order; UsageError if they are illegal.

    It is called once for the model's kernels and once for those of each part of a branch or loop.
    """
    name = getattr(partition, "__name__", type(partition).__name__)
    accepted = "a function from (kernels, program) to groups of these kernels, in launch order"
    with calling_user(f"partition {name}", accepted):
        groups = tuple(tuple(group) for group in partition(kernels, program))
    groups = tuple(group for group in groups if group)
    fault = (
        _fault_of_kernels(groups, kernels)
        or _fault_of_order(groups, program)
        or _fault_of_groups(groups, program)
    )
    if fault:
        raise UsageError(f"partition {name}: {fault}")
    return groups


def can_share(kernel: Kernel, program: Program) -> bool:
    """True for a loop kernel with a tile for all sizes that covers its rows, and some points.

    So is a scatter that only stores: the others need functions of their types.
    """
    if kernel.is_opaque or (kernel.scatter is not None and kernel.scatter.kind != "set"):
        return False
    if any(program.buffers[name].unfusable for name in kernel.stored):
        return False
    tile = shared_variant(kernel).tile
    if {v.arch_low for v in gpu_variants(kernel)} != {shared_variant(kernel).arch_low}:
        return False
    if not isinstance(tile, (PointwiseTile, ReductionTile)):
        return False
    if isinstance(tile, ReductionTile) and not (
        tile.persistent and not tile.look_back and tile.x * tile.r <= LARGEST_TILE
    ):
        return False
    count = points(kernel.axes)
    is_simple = not any(isinstance(atom, Extremum) for atom in count.atoms())
    return count.constant != 0 and is_simple and bounds(count)[1] <= LARGEST_SIZE


def shared_variant(kernel: Kernel) -> Variant:
    """The variant that a kernel has in a launch with others: the one for all sizes."""
    return gpu_variants(kernel)[-1]


def touched(kernels: Iterable[Kernel]) -> set[str]:
    """The buffers that kernels read or store."""
    return {name for kernel in kernels for name in (*kernel.reads, *kernel.stored)}


def overwritten_by(kernel: Kernel, program: Program) -> set[str]:
    """The inputs and weights whose memory takes a kernel's results.

    Other overwritten buffers have no other reader (``insert_copies``).
    """
    return {update.name for update in program.updates if update.value in kernel.stored}


# --- illegal groups ----------------------------------------------------------------------------


def _fault_of_kernels(groups: Groups, kernels: tuple[Kernel, ...]) -> str:
    """Each kernel is in one group, unchanged."""
    known = {kernel.stored: kernel for kernel in kernels}
    placed: set[tuple[str, ...]] = set()
    for kernel in (kernel for group in groups for kernel in group):
        if not isinstance(kernel, Kernel) or known.get(kernel.stored) != kernel:
            shown = kernel.name if isinstance(kernel, Kernel) else a_type(kernel)
            return f"{shown} in a group is none of the kernels it was given"
        if kernel.stored in placed:
            return f"{_named(kernel)} is there twice; each kernel is in one group"
        placed.add(kernel.stored)
    missing = [_named(kernel) for kernel in kernels if kernel.stored not in placed]
    return f"no group has {', '.join(missing)}; each kernel is in one group" if missing else ""


def _fault_of_order(groups: Groups, program: Program) -> str:
    """A kernel's operands are stored in a launch before, and overwritten in none before."""
    stored_in = {name: n for n, group in enumerate(groups) for k in group for name in k.stored}
    for number, group in enumerate(groups):
        for kernel in group:
            for name in expand_concats(kernel.reads, program):
                if name not in kernel.stored and stored_in.get(name, -1) >= number:
                    return f"{_named(kernel)} reads {name}, which no group before its own stores"
            for name in overwritten_by(kernel, program):
                others = (k for later in groups[number:] for k in later if k is not kernel)
                if any(name in other.reads for other in others):
                    return f"{_named(kernel)} overwrites {name} before others have read it"
    return ""


def _fault_of_groups(groups: Groups, program: Program) -> str:
    """Kernels of a group can be functions of one launch, which takes all their tensors."""
    for group in (group for group in groups if len(group) > 1):
        for kernel in group:
            if not can_share(kernel, program):
                return (
                    f"{_named(kernel)} shares no launch; accepted are loop kernels with one tile "
                    "for all sizes, whose rows fit into it and which have at most 2^31 - 1 points"
                )
        count = len(touched(group))
        if count > MOST_BUFFERS:
            return f"a group touches {count} tensors; at most {MOST_BUFFERS} are accepted"
    return ""


def _named(kernel: Kernel) -> str:
    return f"{kernel.name} (stores {', '.join(kernel.stored)})"
