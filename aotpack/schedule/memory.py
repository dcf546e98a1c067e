"""Lifetimes of intermediates over the launch order, and which results overwrite a dead operand.

A scatter works in its base's memory. ``copy_bases`` sees to it that it may, before anything else is
scheduled; ``plan_memory`` then puts both into one place, the output's if the scatter makes one.
Offsets are not chosen here: the runtime packs the lifetimes once per concrete set of sizes.
"""

from collections import Counter
from dataclasses import replace

from aotpack.ir.access import Strides, accesses
from aotpack.ir.facts import known_equal
from aotpack.ir.integers import Axis, Int
from aotpack.ir.nodes import (
    Buffer,
    Guarded,
    Load,
    Operation,
    Origin,
    Pointwise,
    Program,
    Reduction,
    Scatter,
    loads,
    reads,
    targets,
    values,
    walk,
)
from aotpack.ir.schedule import (
    HostTile,
    Kernel,
    Lifetime,
    MatmulTile,
    PlaneTile,
    PointwiseTile,
    ReductionTile,
)
from aotpack.schedule.layout import buffer_bytes


def copy_bases(program: Program) -> Program:
    """Copy each scatter's base that is still needed as it was; the same object if none is.

    y = x; y[i] = v    ->    c = x; y = c; y[i] = v
    """
    uses = Counter(name for operation in program.operations for name in reads(operation))
    kept = {*program.inputs, *program.weights, *program.outputs}
    buffers = dict(program.buffers)
    operations: list[Operation] = []
    for operation in program.operations:
        if isinstance(operation, Scatter):
            own = any(load.buffer == operation.base for load in loads(operation))
            if own or operation.base in kept or uses[operation.base] > 1:
                copy = _copied(operation, buffers)
                operations.append(copy)
                operation = replace(operation, base=copy.target)
        operations.append(operation)
    if len(operations) == len(program.operations):
        return program
    return replace(program, operations=tuple(operations), buffers=buffers)


def _copied(operation: Scatter, buffers: dict[str, Buffer]) -> Pointwise:
    """The copy of a base, declared."""
    base = buffers[operation.base]
    name = f"{operation.target}_base"
    while name in buffers:
        name += "_"
    buffers[name] = Buffer(name, base.dtype, base.shape)
    axes = tuple(Axis(f"copied{dim}", size) for dim, size in enumerate(base.shape))
    index = tuple(map(Int.of, axes))
    origin = Origin(operation.origin.nodes, ("copy",), operation.origin.sources)
    return Pointwise(name, axes, Load(base.name, index, base.dtype.compute), index, origin)


def plan_memory(
    program: Program, kernels: tuple[Kernel, ...], strides: Strides
) -> tuple[Lifetime, ...]:
    """A lifetime for each stored buffer that is not an output, in order of writing."""
    last = {name: position for position, kernel in enumerate(kernels) for name in kernel.reads}
    storage: dict[str, str] = {}
    in_outputs = _lying_in_outputs(program)
    lifetimes: list[Lifetime] = []
    for position, kernel in enumerate(kernels):
        taken: set[str] = set()
        for name in kernel.stored:
            if name in program.outputs:
                continue
            dying = [n for n in kernel.reads if n in storage and last[n] == position]
            if name in in_outputs:
                storage[name] = in_outputs[name]
            elif kernel.scatter is not None:
                storage[name] = storage[kernel.scatter.base]
            else:
                home = _overwritable(name, kernel, dying, program, strides, storage, taken)
                storage[name] = storage[home] if home else name
            taken.add(storage[name])
            lifetimes.append(Lifetime(name, storage[name], position, last[name]))
    return tuple(lifetimes)


def _lying_in_outputs(program: Program) -> dict[str, str]:
    """The buffers that scatters turn into outputs, with these."""
    found: dict[str, str] = {}
    for operation in reversed(program.operations):
        if isinstance(operation, Scatter):
            if operation.target in program.outputs:
                found[operation.base] = operation.target
            elif operation.target in found:
                found[operation.base] = found[operation.target]
    return found


def _overwritable(
    name: str,
    kernel: Kernel,
    dying: list[str],
    program: Program,
    strides: Strides,
    storage: dict[str, str],
    taken: set[str],
) -> str | None:
    """A dying operand as large that each program reads only where it then writes ``name``."""
    if not _reads_once(kernel) or _is_shared(kernel, name):
        return None
    touched = list(accesses(kernel))
    stores = {a.offset(strides) for a in touched if a.is_store and a.buffer == name}
    written = _position(kernel, name)
    for other in dying:
        if _guards(kernel, other) or _last_read(kernel, other) > written:
            continue
        a, b = program.buffers[name], program.buffers[other]
        if a.dtype.itemsize != b.dtype.itemsize or storage[other] in taken:
            continue
        if not known_equal(buffer_bytes(a), buffer_bytes(b)):
            continue
        if {x.offset(strides) for x in touched if x.buffer == other} == stores:
            return other
    return None


def _reads_once(kernel: Kernel) -> bool:
    """True when no variant walks twice over its row, and might read again what it has written."""
    return all(
        isinstance(v.tile, (PointwiseTile, PlaneTile, MatmulTile, HostTile))
        or (isinstance(v.tile, ReductionTile) and v.tile.persistent)
        for v in kernel.variants
    )


def _position(kernel: Kernel, name: str) -> int:
    """The number of the member that writes a buffer; members are emitted in order."""
    return next(p for p, m in enumerate(kernel.members) if name in targets(m.operation))


def _last_read(kernel: Kernel, name: str) -> int:
    """The number of the last member that reads a buffer, itself or through what it recomputes.

    A pointwise member is computed where it is first used, which may be long after its own place.
    """
    readers: set[str] = {name}
    last = 0
    for position, member in enumerate(kernel.members):
        if readers.intersection(reads(member.operation)):
            last = position
            if isinstance(member.operation, Pointwise):
                readers.add(member.operation.target)
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
