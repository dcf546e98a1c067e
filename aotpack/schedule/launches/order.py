"""Launch order: dependences first, otherwise the user's order."""

from aotpack.ir.kernels.kernel import Kernel, kernel_uses
from aotpack.ir.program import Program, Update, expand_concats, targets
from aotpack.ir.uses import Uses


def order_kernels(program: Program, kernels: tuple[Kernel, ...]) -> tuple[Kernel, ...]:
    """Put kernels into launch order: dependences first, otherwise the user's order."""
    waiting = dependences(kernels, program)
    positions = enumerate(program.operations)
    position_of = {name: position for position, one in positions for name in targets(one)}
    rank = [
        max(position_of[name] for member in kernel.members for name in targets(member.operation))
        for kernel in kernels
    ]
    done: set[int] = set()
    result: list[Kernel] = []
    for position in sorted(range(len(kernels)), key=rank.__getitem__):
        _place(position, kernels, waiting, done, result)
    return tuple(result)


def dependences(kernels: tuple[Kernel, ...], program: Program) -> list[set[int]]:
    """The kernels, by number, that each must wait for."""
    uses = kernel_uses(kernels)
    producers = uses.producers
    waiting = [
        {producers[name] for name in expand_concats(kernel.reads, program) if name in producers}
        for kernel in kernels
    ]
    for update in program.updates:
        _order_old_readers(update, uses, waiting)
    return waiting


def _order_old_readers(update: Update, uses: Uses[int], waiting: list[set[int]]) -> None:
    """Readers of a tensor's old value go before its update, unless they need the new value too."""
    overwriting = uses.producers[update.value]
    for position in uses.readers.get(update.name, ()):
        if not _needs(position, overwriting, waiting):
            waiting[overwriting].add(position)


def _needs(position: int, other: int, waiting: list[set[int]]) -> bool:
    """True when a kernel is ``other`` or depends on it, directly or not."""
    pending, seen = [position], {position}
    while pending:
        here = pending.pop()
        if here == other:
            return True
        pending += waiting[here] - seen
        seen |= waiting[here]
    return False


def _place(
    position: int,
    kernels: tuple[Kernel, ...],
    waiting: list[set[int]],
    done: set[int],
    result: list[Kernel],
) -> None:
    """Depth first: dependences go before a kernel. Fusion made no cycles."""
    pending = [(position, False)]
    while pending:
        here, is_ready = pending.pop()
        if is_ready:
            result.append(kernels[here])
        elif here not in done:
            done.add(here)
            pending.append((here, True))
            pending += [(before, False) for before in sorted(waiting[here], reverse=True)]
