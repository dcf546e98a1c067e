"""Scatters and foreign calls write in place; a copy is made where the old value is still read.

    y = x; y[i] = v    ->    c = x; y = c; y[i] = v        (c and y lie in one place)

The copies come before other scheduling; afterwards the operation is the only reader of its base,
until attention reads a cache before its update (``attend_before_append``).
``homes`` gives the buffers that lie in a result from the start, because they become it. An input or
a weight is overwritten where forward updates it.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace

from aotpack.ir.foreign import Foreign
from aotpack.ir.names import free_name
from aotpack.ir.operations import Pointwise, Scatter
from aotpack.ir.origin import Origin
from aotpack.ir.program import (
    Buffer,
    Call,
    Operation,
    Program,
    Update,
    in_place_pairs,
    loads,
    read_whole,
)
from aotpack.ir.symbolic.integers import Axis, Int, Var
from aotpack.ir.uses import Uses, operation_uses
from aotpack.ir.values import Load


def insert_copies(program: Program) -> Program:
    """Copy the base of a scatter or foreign call, if its old value is still read.

    The same object if there is nothing to copy.
    """
    uses = operation_uses(program.operations)
    kept = {*program.inputs, *program.weights, *program.results}
    in_place = {u.name for u in program.updates if _turns_into(u, kept, uses)}
    kept -= in_place
    buffers = dict(program.buffers)
    operations: list[Operation] = []
    for operation in program.operations:
        copies: dict[str, str] = {}
        for target, base in in_place_pairs(operation):
            if not _may_overwrite(operation, base, uses, kept):
                origin = operation.origin
                copy = copied(base, f"{target}_base", origin, buffers, program.sizes)
                operations.append(copy)
                copies[target] = copy.target
        operations.append(_with_bases(operation, copies))
    updates: list[Update] = []
    for update in program.updates:
        if update.name not in in_place and _base(update.value, uses) is not None:
            origin = uses.producers[update.value].origin
            copy = copied(update.value, f"{update.value}_new", origin, buffers, program.sizes)
            operations.append(copy)
            update = replace(update, value=copy.target)
        updates.append(update)
    if len(operations) == len(program.operations):
        return program
    return replace(program, operations=tuple(operations), buffers=buffers, updates=tuple(updates))


def _turns_into(update: Update, kept: set[str], uses: Uses[Operation]) -> bool:
    """True when a tensor becomes its new value only by in-place changes."""
    name = update.value
    while (base := _base(name, uses)) is not None:
        others = () if base == update.name else kept
        if not _may_overwrite(uses.producers[name], base, uses, others):
            return False
        name = base
    return name == update.name and name != update.value


def _base(name: str, uses: Uses[Operation]) -> str | None:
    """The buffer that another one changes in place; None for one that is written anew."""
    producer = uses.producers.get(name)
    return None if producer is None else dict(in_place_pairs(producer)).get(name)


def _may_overwrite(
    operation: Operation, base: str, uses: Uses[Operation], kept: Collection[str]
) -> bool:
    """True for a base of one target that nothing else reads, including this operation."""
    is_read = any(load.buffer == base for load in loads(operation))
    is_alone = read_whole(operation).count(base) == 1
    return not is_read and is_alone and len(uses.readers[base]) == 1 and base not in kept


def _with_bases(operation: Operation, copies: Mapping[str, str]) -> Operation:
    """The operation with other bases, by target; the same object without any."""
    if not copies:
        return operation
    if isinstance(operation, Scatter):
        return replace(operation, base=copies[operation.target])
    if isinstance(operation, Call):
        new = {base: copies[target] for target, base in operation.bases if target in copies}
        changed = {update.name for update in operation.body.updates}
        return replace(
            operation,
            arguments=tuple(
                new.get(argument, argument) if own in changed else argument
                for own, argument in operation.given.items()
            ),
        )
    assert isinstance(operation, Foreign)
    pairs = zip(operation.targets, operation.bases, strict=True)
    return replace(operation, bases=tuple(copies.get(target, base) for target, base in pairs))


def copied(
    source: str, name: str, origin: Origin, buffers: dict[str, Buffer], sizes: tuple[Var, ...]
) -> Pointwise:
    """A copy of a buffer, declared among ``buffers``; no axis is named like a size."""
    buffer = buffers[source]
    name = free_name(name, buffers)
    buffers[name] = Buffer(name, buffer.dtype, buffer.shape)
    taken = {size.name for size in sizes}
    names = [f"i{dim}" for dim in range(len(buffer.shape))]
    axes = tuple(map(Axis, (name + "_" * (name in taken) for name in names), buffer.shape))
    index = tuple(map(Int.of, axes))
    value = Load(source, index, buffer.dtype.compute)
    return Pointwise(name, axes, value, index, Origin(origin.nodes, ("copy",), origin.sources))


def homes(program: Program) -> dict[str, str]:
    """The intermediates that become results by in-place changes, each with that result's tensor."""
    final = {name: name for name in program.outputs}
    final |= {update.value: update.name for update in program.updates}
    found: dict[str, str] = {}
    for operation in reversed(program.operations):
        for target, base in in_place_pairs(operation):
            home = final.get(target) or found.get(target)
            if home is not None:
                found[base] = home
    return found
