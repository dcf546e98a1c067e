"""A straight line of operations with sizes that data decide -> nested size reads.

Each read of sizes makes the host wait. So sizes are read as early as they can be, all that are
ready together at once; and an operation that no read needs waits for the last one, beside its
readers, where it can share their kernels.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from aotpack.ir.buffers import Buffer, Update
from aotpack.ir.origin import Origin
from aotpack.ir.program import Control, Operation, Program, SizeRead, reads, targets
from aotpack.ir.symbolic.integers import Int, Var
from aotpack.ir.uses import integers, operation_uses


@dataclass(frozen=True, slots=True)
class Count:
    """A size, the buffer with its number, a bound in other sizes."""

    size: Var
    buffer: str
    most: Int
    origin: Origin


@dataclass(frozen=True, slots=True)
class _Levels:
    """How many reads stand before each size and each operation, and ``depth``: of all."""

    sizes: Mapping[Var, int]
    operations: tuple[int, ...]
    depth: int


def with_size_reads(program: Program, counts: tuple[Count, ...]) -> Program:
    """The program whose operations stand inside the reads of the sizes that they use."""
    if not counts:
        return program
    levels = _levels(program, counts)
    written = {
        name: level
        for level, operation in zip(levels.operations, program.operations, strict=True)
        for name in targets(operation)
    }
    exported = {name: _names(name, written[name], program) for name in program.results}
    part = _part(program, counts, levels, exported, 0)
    return replace(
        program,
        buffers=part.buffers,
        operations=part.operations,
        outputs=tuple(exported[name][0] for name in program.outputs),
        updates=tuple(Update(one.name, exported[one.value][0]) for one in program.updates),
    )


def _levels(program: Program, counts: tuple[Count, ...]) -> _Levels:
    """As many reads before each operation as it has to wait for, or as its readers wait for."""
    by_size = {count.size: count for count in counts}
    early = _earliest(program, by_size)
    sizes = {size: early[count.buffer] + 1 for size, count in by_size.items()}
    depth = max(sizes.values())
    latest = {count.buffer: sizes[count.size] - 1 for count in counts}
    fixed = _of_weights(program)
    placed: list[int] = []
    for operation in reversed(program.operations):
        made = targets(operation)
        level = 0 if made[0] in fixed else min(latest.get(name, depth) for name in made)
        placed.append(level)
        for name in reads(operation):
            latest[name] = min(latest.get(name, depth), level)
    return _Levels(sizes, tuple(reversed(placed)), depth)


def _earliest(program: Program, by_size: Mapping[Var, Count]) -> dict[str, int]:
    """The number of reads that each buffer has to wait for."""
    early = dict.fromkeys((*program.inputs, *program.weights), 0)
    for operation in program.operations:
        asked = [early[name] for name in reads(operation)]
        for leaf in _sizes_of(operation, program.buffers):
            if leaf in by_size:
                asked.append(early[by_size[leaf].buffer] + 1)
        early |= dict.fromkeys(targets(operation), max(asked, default=0))
    return early


def _sizes_of(operation: Operation, buffers: Mapping[str, Buffer]) -> set[Var]:
    shapes = [size for name in targets(operation) for size in buffers[name].shape]
    parts = operation.parts if isinstance(operation, Control) else ()
    shapes += [size for part in parts for each in part.buffers.values() for size in each.shape]
    leaves = (leaf for one in (*integers(operation), *shapes) for leaf in one.leaves())
    return {leaf for leaf in leaves if isinstance(leaf, Var)}


def _of_weights(program: Program) -> set[str]:
    """What depends on weights alone: it stays outside, where the weight program takes it from."""
    changed = {update.name for update in program.updates}
    found = {*program.weights} - changed
    for operation in program.operations:
        read = reads(operation)
        if read and found.issuperset(read) and not _sizes_of(operation, program.buffers):
            found.update(targets(operation))
    return found


def _names(name: str, level: int, program: Program) -> tuple[str, ...]:
    """The names of a result outside of each read around its writer, then its own."""
    outer: list[str] = []
    for number in range(level):
        made = f"{name}_result" + (f"{number}" if number else "")
        while made in program.buffers:
            made += "_"
        outer.append(made)
    return (*outer, name)


def _part(
    program: Program,
    counts: tuple[Count, ...],
    levels: _Levels,
    exported: Mapping[str, tuple[str, ...]],
    level: int,
) -> Program:
    """The program inside of ``level`` reads."""
    inside = [name for name, names in exported.items() if len(names) > level]
    new = tuple(size for size, read in levels.sizes.items() if read <= level)
    operations = [
        _with_sizes(operation, new)
        for operation, own in zip(program.operations, levels.operations, strict=True)
        if own == level
    ]
    if level < levels.depth:
        rest = _part(program, counts, levels, exported, level + 1)
        operations.append(_read(counts, levels, level, rest))
    buffers = _renamed(program.buffers, exported)
    updates = tuple(
        Update(exported[name][level - 1], exported[name][level]) for name in inside if level
    )
    made = operation_uses(operations)
    touched = dict.fromkeys((*made.readers, *(update.name for update in updates)))
    inputs = tuple(name for name in touched if name not in made.producers)
    if not level:
        known = (*program.inputs, *program.weights, *made.producers)
        return replace(
            program, buffers={name: buffers[name] for name in known}, operations=tuple(operations)
        )
    return Program(
        (*program.sizes, *new),
        {name: buffers[name] for name in (*inputs, *made.producers)},
        inputs,
        (),
        tuple(operations),
        (),
        updates=updates,
    )


def _with_sizes(operation: Operation, new: tuple[Var, ...]) -> Operation:
    """The operation with the read sizes known to the parts inside of it."""
    if not isinstance(operation, Control):
        return operation
    parts = (
        replace(
            part,
            sizes=(*part.sizes, *new),
            operations=tuple(_with_sizes(each, new) for each in part.operations),
        )
        for part in operation.parts
    )
    return operation.with_parts(tuple(parts))


def _read(counts: tuple[Count, ...], levels: _Levels, level: int, rest: Program) -> SizeRead:
    """The read behind the operations of a level."""
    own = [count for count in counts if levels.sizes[count.size] == level + 1]
    origins = [count.origin for count in own]
    return SizeRead(
        tuple(update.name for update in rest.updates),
        tuple(count.size for count in own),
        tuple(count.buffer for count in own),
        tuple(count.most for count in own),
        rest,
        Origin(_all(o.nodes for o in origins), ("size.read",), _all(o.sources for o in origins)),
    )


def _all(parts: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for part in parts for name in part))


def _renamed(
    buffers: Mapping[str, Buffer], exported: Mapping[str, tuple[str, ...]]
) -> dict[str, Buffer]:
    """The buffers, with those of results under their outer names too."""
    outer = {
        name: replace(buffers[own], name=name) for own, names in exported.items() for name in names
    }
    return {**buffers, **outer}
