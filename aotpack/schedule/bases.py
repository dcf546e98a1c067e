"""Where scatters work: in their base's memory, once nobody needs it as it was (S:K11).

    y = x; y[i] = v    ->    c = x; y = c; y[i] = v        (c and y lie in one place)

``copy_bases`` puts in the copies, before anything else is scheduled; with them every base has its
scatter for its only reader. ``homes`` says which buffers lie in a result from the start: those that
scatters turn into it. A base that is an input or a weight is overwritten where forward updates it.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from aotpack.ir.integers import Axis, Int, Var
from aotpack.ir.nodes import (
    Buffer,
    Load,
    Operation,
    Origin,
    Pointwise,
    Program,
    Scatter,
    Update,
    loads,
    reads,
)


def copy_bases(program: Program) -> Program:
    """Copy each base that is still needed as it was; the same object if there is none."""
    uses = Counter(name for operation in program.operations for name in reads(operation))
    scatters = {o.target: o for o in program.operations if isinstance(o, Scatter)}
    in_place = {u.name for u in program.updates if _turns_into(u, program, scatters, uses)}
    kept = {*program.inputs, *program.weights, *program.results} - in_place
    buffers = dict(program.buffers)
    operations: list[Operation] = []
    for operation in program.operations:
        if isinstance(operation, Scatter) and not _may_overwrite(operation, uses, kept):
            name = f"{operation.target}_base"
            copy = copied(operation.base, name, operation.origin, buffers, program.sizes)
            operations.append(copy)
            operation = replace(operation, base=copy.target)
        operations.append(operation)
    updates: list[Update] = []
    for update in program.updates:
        if update.name not in in_place and update.value in scatters:
            origin = scatters[update.value].origin
            copy = copied(update.value, f"{update.value}_new", origin, buffers, program.sizes)
            operations.append(copy)
            update = replace(update, value=copy.target)
        updates.append(update)
    if len(operations) == len(program.operations):
        return program
    return replace(program, operations=tuple(operations), buffers=buffers, updates=tuple(updates))


def _turns_into(
    update: Update, program: Program, scatters: Mapping[str, Scatter], uses: Mapping[str, int]
) -> bool:
    """True when nothing but scatters leads from a tensor to its new value, each in place."""
    kept = {*program.inputs, *program.weights, *program.results} - {update.name}
    name = update.value
    while name in scatters:
        if not _may_overwrite(scatters[name], uses, kept):
            return False
        name = scatters[name].base
    return name == update.name and name != update.value


def _may_overwrite(scatter: Scatter, uses: Mapping[str, int], kept: set[str]) -> bool:
    """True for a base that no other operation, nor this one's value or index, reads."""
    is_read = any(load.buffer == scatter.base for load in loads(scatter))
    return not is_read and uses[scatter.base] == 1 and scatter.base not in kept


def copied(
    source: str, name: str, origin: Origin, buffers: dict[str, Buffer], sizes: tuple[Var, ...]
) -> Pointwise:
    """A copy of a buffer, declared among ``buffers``; no axis is named like a size."""
    buffer = buffers[source]
    while name in buffers:
        name += "_"
    buffers[name] = Buffer(name, buffer.dtype, buffer.shape)
    taken = {size.name for size in sizes}
    names = [f"i{dim}" for dim in range(len(buffer.shape))]
    axes = tuple(map(Axis, (name + "_" * (name in taken) for name in names), buffer.shape))
    index = tuple(map(Int.of, axes))
    value = Load(source, index, buffer.dtype.compute)
    return Pointwise(name, axes, value, index, Origin(origin.nodes, ("copy",), origin.sources))


def homes(program: Program) -> dict[str, str]:
    """The intermediates that scatters turn into results, each with the tensor it lies in."""
    final = {name: name for name in program.outputs}
    final |= {update.value: update.name for update in program.updates}
    found: dict[str, str] = {}
    for operation in reversed(program.operations):
        if isinstance(operation, Scatter):
            home = final.get(operation.target) or found.get(operation.target)
            if home is not None:
                found[operation.base] = home
    return found
