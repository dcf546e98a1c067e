"""Lifetimes of intermediates over the launch order, and which results overwrite a dead operand.

Offsets are not chosen here: the runtime packs the lifetimes once per concrete set of sizes. Results
have no lifetime: an output belongs to the caller, a new value lies in the updated tensor. The
target of a scatter or foreign call lies where its base does
(``schedule/program/insert_copies.py``).
"""

from aotpack.ir.kernels.access import Strides, accesses
from aotpack.ir.kernels.kernel import Kernel, Lifetime, launches
from aotpack.ir.kernels.rows import storage_bytes
from aotpack.ir.kernels.tiles import HostTile, MatmulTile, PointwiseTile, ReductionTile, Tile2D
from aotpack.ir.operations import Pointwise, Reduction
from aotpack.ir.program import Program, concats_by_part, reads, targets, values
from aotpack.ir.symbolic.facts import known_equal
from aotpack.ir.values import Guarded, Load, walk
from aotpack.schedule.program.insert_copies import homes


def plan_memory(
    program: Program, kernels: tuple[Kernel, ...], strides: Strides
) -> tuple[Lifetime, ...]:
    """Give each intermediate its lifetime, and the memory of a dead operand where that is legal.

    Lifetimes come in the order of writing; results have none.
    """
    steps = list(enumerate(launches(kernels)))
    last = {name: step for step, together in steps for k in together for name in k.reads}
    storage: dict[str, str] = {}
    in_results = homes(program)
    whole, results = concats_by_part(program), {*program.results}
    lifetimes: list[Lifetime] = []
    for step, together in steps:
        taken: set[str] = set()
        for kernel, name in ((k, name) for k in together for name in k.stored):
            if name in results:
                continue
            if name in whole:
                lifetimes += _part(name, whole[name], step, program, storage, last)
                continue
            dying = [n for n in kernel.reads if n in storage and last[n] == step]
            if len(together) > 1:
                dying = []  # kernels that run at once may read it later than this one writes
            if name in in_results:
                storage[name] = in_results[name]
            elif name in kernel.bases:
                storage[name] = storage[kernel.bases[name]]
            else:
                home = _overwritable(name, kernel, dying, program, strides, storage, taken)
                storage[name] = storage[home] if home else name
            taken.add(storage[name])
            lifetimes.append(Lifetime(name, storage[name], step, last.get(name, step)))
    return tuple(lifetimes)


def _part(
    name: str,
    whole: str,
    step: int,
    program: Program,
    storage: dict[str, str],
    last: dict[str, int],
) -> list[Lifetime]:
    """The lifetime of a part; with the first part also that of the concat buffer."""
    if whole in program.results:
        return [Lifetime(name, whole, step, step)]
    begun = [] if whole in storage else [Lifetime(whole, whole, step, last[whole])]
    storage[whole] = whole
    return [*begun, Lifetime(name, whole, step, last[whole])]


def _overwritable(
    name: str,
    kernel: Kernel,
    dying: list[str],
    program: Program,
    strides: Strides,
    storage: dict[str, str],
    taken: set[str],
) -> str | None:
    """A dying operand of equal size that each program reads only where it then writes ``name``."""
    for other in dying:
        a, b = program.buffers[name], program.buffers[other]
        if a.dtype.itemsize != b.dtype.itemsize or storage[other] in taken:
            continue
        if not known_equal(storage_bytes(a, strides), storage_bytes(b, strides)):
            continue
        if may_overwrite(kernel, name, other, strides):
            return other
    return None


def may_overwrite(kernel: Kernel, name: str, other: str, strides: Strides) -> bool:
    """True when each program of a kernel reads ``other`` only where it then writes ``name``."""
    if kernel.is_opaque:
        return False  # its reads are unknown
    if not _reads_once(kernel) or _is_shared(kernel, name):
        return False
    if _guards(kernel, other) or not _is_read_in_time(kernel, name, other):
        return False
    touched = list(accesses(kernel))
    stores = {a.offset(strides) for a in touched if a.is_store and a.buffer == name}
    return {a.offset(strides) for a in touched if a.buffer == other} == stores


def _reads_once(kernel: Kernel) -> bool:
    """True when no variant reads its row twice, after it may have overwritten it."""
    return all(
        isinstance(tile, (PointwiseTile, Tile2D, MatmulTile, HostTile))
        or (isinstance(tile, ReductionTile) and tile.persistent)
        for variant in kernel.variants
        for tile in variant.tiles
    )


def _position(kernel: Kernel, name: str) -> int:
    """The number of the member that writes a buffer; members are emitted in order."""
    return next(p for p, m in enumerate(kernel.members) if name in targets(m.operation))


def _is_read_in_time(kernel: Kernel, name: str, other: str) -> bool:
    """True when nothing is loaded from ``other`` after ``name`` is stored.

    A kernel of one axis has one region, in which an element is loaded once, at its first use.
    """
    written = _position(kernel, name)
    if len(kernel.axes) == 1 and other in reads(kernel.members[written].operation):
        return True
    return _last_read(kernel, other) <= written


def _last_read(kernel: Kernel, name: str) -> int:
    """The number of the last member that reads a buffer, itself or by recomputing a member.

    A pointwise member that is not stored is computed where it is first used, which may be long
    after its own place; a stored one has been computed when it is stored.
    """
    readers: set[str] = {name}
    last = 0
    for position, member in enumerate(kernel.members):
        if readers.intersection(reads(member.operation)):
            last = position
            operation = member.operation
            if isinstance(operation, Pointwise) and operation.target not in kernel.stored:
                readers.add(operation.target)
    return last


def _is_shared(kernel: Kernel, name: str) -> bool:
    """True for a result of one element a row: several warps hold the row's operands."""
    member = kernel.members[_position(kernel, name)]
    outer = member.outer or isinstance(member.operation, Reduction)
    return outer and len(kernel.axes) == 2


def _guards(kernel: Kernel, name: str) -> bool:
    """True when a buffer is read under a condition: such a load does not share its register."""
    return any(
        isinstance(part, Load) and part.buffer == name
        for member in kernel.members
        for value in walk(values(member.operation))
        if isinstance(value, Guarded)
        for part in walk((value,))
    )
