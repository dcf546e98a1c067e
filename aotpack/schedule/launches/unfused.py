"""Unfused forms: the operations of a kernel in two launches, for tuning to time.

    y = gelu(x @ w + b)               or    t = x @ w;          y = gelu(t + b)
    y = exp(x - max(x)) / sum         or    m, s = max, sum;    y = exp(x - m) / s
    p, q = x.sum(1), (x * z).sum(1)   or    p = x.sum(1);       q = (x * z).sum(1)

The first launch passes values through memory. The fused form stays the first choice. A loop kernel
is offered in parts if measuring may pay: it moves enough bytes that a second launch costs little,
and its parts hardly move more.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice

from aotpack.devices import Gpu
from aotpack.ir.kernels.access import Strides
from aotpack.ir.kernels.kernel import Kernel, Lifetime
from aotpack.ir.kernels.tiles import ReductionTile, Tile
from aotpack.ir.operations import Pointwise, Reduction, Scan
from aotpack.ir.program import Operation, Program, reads, targets
from aotpack.schedule.fusion.fuse import fuse
from aotpack.schedule.fusion.naming import kernel_name
from aotpack.schedule.layout import typical_bytes
from aotpack.schedule.memory.lifetimes import may_overwrite
from aotpack.schedule.tiles.choose import choose_tiles

MOST_MORE = 0.6  # of a kernel's bytes, moved in addition by its parts: softmax reads a row twice
MOST_TRIED = 4  # cuts of a kernel

Operations = tuple[Operation, ...]


def offer_unfused(
    program: Program,
    kernels: tuple[Kernel, ...],
    strides: Strides,
    lifetimes: tuple[Lifetime, ...],
    gpu: Gpu,
) -> tuple[Kernel, ...]:
    """Offer unfused forms of launches, where tuning may find them quicker.

    Parts of branches and loops have none: a package holds one form of them.
    """
    homes = {life.buffer: life.storage for life in lifetimes}
    homes |= {update.value: update.name for update in program.updates}
    return tuple(
        replace(kernel, unfused=_unfused(kernel, program, strides, homes, gpu))
        for kernel in kernels
    )


def _unfused(
    kernel: Kernel, program: Program, strides: Strides, homes: dict[str, str], gpu: Gpu
) -> tuple[Kernel, ...]:
    """The launches of the first legal cut whose parts are one launch each."""
    for first, rest in islice(_cuts(kernel, program, gpu), MOST_TRIED):
        passed = {name for operation in rest for name in reads(operation)}
        before = _launch(first, passed, kernel, program, strides, gpu)
        behind = _launch(rest, set(), kernel, program, strides, gpu)
        if before and behind and keeps_operands((before, behind), strides, homes):
            return before, behind
    return ()


def _cuts(kernel: Kernel, program: Program, gpu: Gpu) -> Iterable[tuple[Operations, Operations]]:
    """The cuts of a kernel that may be worth a measurement, the best guess first.

    Cuts with a pointwise second part come first: it need not go row by row. Each part moves at
    least a quarter of the bytes that could be moved in the time of a launch.
    """
    if kernel.is_opaque or len(kernel.members) == 1:
        return ()
    operations = tuple(member.operation for member in kernel.members)
    if kernel.template_op is not None:
        is_plain = all(isinstance(operation, Pointwise) for operation in operations[1:])
        return ((operations[:1], operations[1:]),) if is_plain else ()
    if not _has_walk(operations):
        return ()
    moved = _moved_bytes(operations, set(), kernel, program)
    cuts = []
    for first, rest in _places(operations):
        passed = {name for operation in rest for name in reads(operation)}
        parts = [_moved_bytes(first, passed, kernel, program)]
        parts.append(_moved_bytes(rest, set(), kernel, program))
        if min(parts) >= gpu.launch_bytes // 4 and sum(parts) <= (1 + MOST_MORE) * moved:
            cuts.append((_has_walk(rest), sum(parts), (first, rest)))
    return [cut for *_, cut in sorted(cuts, key=lambda one: one[:2])]


def _has_walk(operations: Operations) -> bool:
    return any(isinstance(operation, (Reduction, Scan)) for operation in operations)


def _places(operations: Operations) -> Iterator[tuple[Operations, Operations]]:
    """First the operations connected to the first one, if not all; then a cut at each place."""
    alone = _connected(operations)
    rest = tuple(operation for operation in operations if operation not in alone)
    if rest:
        yield alone, rest
    for place in range(1, len(operations)):
        yield operations[:place], operations[place:]


def _connected(operations: Operations) -> Operations:
    """The operations that values connect, directly or not, to the first one."""
    made = {name for one in operations for name in targets(one)}
    touched = {one: made & {*targets(one), *reads(one)} for one in operations}
    found: set[str] = {*targets(operations[0])}
    size = 0
    while len(found) > size:
        size = len(found)
        found |= {name for names in touched.values() if names & found for name in names}
    return tuple(one for one in operations if touched[one] & found)


def _moved_bytes(operations: Operations, passed: set[str], kernel: Kernel, program: Program) -> int:
    """The typical bytes that a launch of some operations reads and stores."""
    made = {name for one in operations for name in targets(one)}
    touched = {name for one in operations for name in reads(one)} - made
    touched |= {name for name in made if name in passed or name in kernel.stored}
    return sum(typical_bytes(program.buffers[name]) for name in touched)


def _launch(
    operations: Operations,
    passed: set[str],
    kernel: Kernel,
    program: Program,
    strides: Strides,
    gpu: Gpu,
) -> Kernel | None:
    """A kernel of some operations of another; None if they need more than one.

    A product keeps its tiles. None for cluster reductions and look-back scans: a part has no memory
    to exchange states.
    """
    first = kernel.members[0]
    made = (name for operation in operations for name in targets(operation))
    stored = tuple(name for name in made if name in passed or name in kernel.stored)
    if not stored:
        return None
    if kernel.template_op is not None and operations[0] is first.operation:
        name, read = kernel_name((first,)), tuple(dict.fromkeys(reads(kernel.template_op)))
        return replace(kernel, name=name, members=(first,), stored=stored, reads=read)
    part = replace(program, operations=operations, outputs=stored, updates=())
    found = choose_tiles(program, fuse(part), strides, gpu)
    if len(found) != 1 or any(_exchanges_states(variant.tile) for variant in found[0].variants):
        return None
    return found[0]


def _exchanges_states(tile: Tile) -> bool:
    return isinstance(tile, ReductionTile) and (tile.cluster_size > 1 or tile.look_back)


def keeps_operands(parts: tuple[Kernel, ...], strides: Strides, homes: dict[str, str]) -> bool:
    """True when each operand is read before its memory is overwritten, or as it is overwritten."""
    for number, part in enumerate(parts):
        for name in part.stored:
            for reader in parts[number:]:
                for other in reader.reads:
                    if other == name or homes.get(name, name) != homes.get(other, other):
                        continue
                    if reader is not part or not may_overwrite(part, name, other, strides):
                        return False
    return True
