"""Lifetimes of intermediates over the launch order, and which results overwrite a dead operand.

Offsets are not chosen here: the runtime packs the lifetimes once per concrete set of sizes.
"""

from aotpack.ir.facts import known_equal
from aotpack.ir.nodes import Program
from aotpack.ir.schedule import (
    HostTile,
    Kernel,
    Lifetime,
    MatmulTile,
    PointwiseTile,
    ReductionTile,
)
from aotpack.ir.access import Strides, accesses
from aotpack.schedule.layout import buffer_bytes


def plan_memory(
    program: Program, kernels: tuple[Kernel, ...], strides: Strides
) -> tuple[Lifetime, ...]:
    """A lifetime for each stored buffer that is not an output, in order of writing."""
    last = {name: position for position, kernel in enumerate(kernels) for name in kernel.reads}
    storage: dict[str, str] = {}
    lifetimes: list[Lifetime] = []
    for position, kernel in enumerate(kernels):
        taken: set[str] = set()
        for name in kernel.stored:
            if name in program.outputs:
                continue
            dying = [n for n in kernel.reads if n in storage and last[n] == position]
            home = _overwritable(name, kernel, dying, program, strides, taken)
            storage[name] = storage[home] if home else name
            taken.add(storage[name])
            lifetimes.append(Lifetime(name, storage[name], position, last[name]))
    return tuple(lifetimes)


def _overwritable(
    name: str,
    kernel: Kernel,
    dying: list[str],
    program: Program,
    strides: Strides,
    taken: set[str],
) -> str | None:
    """A dying operand of the same size that each program reads only where it then writes ``name``."""
    if not _reads_before_writes(kernel):
        return None
    touched = list(accesses(kernel))
    stores = {a.offset(strides) for a in touched if a.is_store and a.buffer == name}
    for other in dying:
        a, b = program.buffers[name], program.buffers[other]
        if a.dtype.itemsize != b.dtype.itemsize or other in taken:
            continue
        if not known_equal(buffer_bytes(a), buffer_bytes(b)):
            continue
        if {x.offset(strides) for x in touched if x.buffer == other} == stores:
            return other
    return None


def _reads_before_writes(kernel: Kernel) -> bool:
    """True when no variant reads an element again after the program may have overwritten it."""
    return all(
        isinstance(v.tile, (PointwiseTile, MatmulTile, HostTile))
        or (isinstance(v.tile, ReductionTile) and v.tile.persistent)
        for v in kernel.variants
    )
