"""Operations that depend on weights alone move into the weight program, which runs once.

    s[c] = rsqrt(var[c] + 1e-5) * g[c]              once:  s[c] = rsqrt(var[c] + 1e-5) * g[c]
    y[n, c] = (x[n, c] - mean[c]) * s[c]    ->      y[n, c] = (x[n, c] - mean[c]) * s[c]

Here ``s`` is a derived weight. The rule of worth: a result moves if it has at most as many bytes as
the weights that it is computed from, and is no view. So a table that is expanded from a short
weight is computed where it is read, and reading derived weights costs no more than reading the
originals. A larger one moves if it is a factor of weights that are made in each call, many for each
of its elements, and takes dear operators: the scale of a block of codes, from its exponent. A view
only renames elements, which the indices of its readers do for nothing; an
unfusable buffer is no view, but a copy for the sake of its memory order. What the rule leaves in
the program, and what the model returns or stores in its state, is computed there from derived
weights as far as they reach.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from aotpack.ir.foreign import Foreign
from aotpack.ir.kernels.kernel import Schedule
from aotpack.ir.kernels.rows import buffer_bytes
from aotpack.ir.operations import Pointwise
from aotpack.ir.ops.opinfo import Cost
from aotpack.ir.ops.optable import OPS
from aotpack.ir.program import (
    Control,
    Operation,
    Program,
    reads,
    targets,
    values,
)
from aotpack.ir.symbolic.integers import Indirect, Var, product
from aotpack.ir.uses import integers
from aotpack.ir.values import Apply, Load, walk
from aotpack.schedule.program.dead_code import remove_dead_code, with_operations
from aotpack.schedule.program.prologue import DECODING
from aotpack.stages import Weight

WIDEST = 4  # bytes of a factor, for each that it is computed from
SHORTEST = 16  # elements of what is made in each call, for each of a factor


def derive_weights(program: Program, state: frozenset[str] = frozenset()) -> Program:
    """Move operations that depend on weights alone into the weight program, where that pays.

    Foreign calls, branches and loops stay, as does what depends on weights that forward changes,
    on the ``state`` that other methods change, on inputs or on sizes. The same object if nothing
    moves.
    """
    sources = _sources(program, state)
    split = _split(program, sources)
    if not split.derived:
        return program
    made = _weight_program(program, sources, split.derived)
    rest = with_operations(
        replace(program, weights=(*program.weights, *split.derived)), split.operations
    )
    order = dict.fromkeys((*rest.inputs, *rest.weights, *rest.buffers))
    buffers = {name: program.buffers[name] for name in order}
    return replace(rest, buffers=buffers, weight_program=made)


@dataclass(frozen=True, slots=True)
class _Split:
    """The operations that stay, and the buffers that they read of those that do not."""

    operations: tuple[Operation, ...]
    derived: tuple[str, ...]


def _sources(program: Program, state: frozenset[str]) -> dict[str, frozenset[str]]:
    """The weights behind each buffer that depends on nothing else."""
    changed = {*state, *(update.name for update in program.updates)}
    found = {name: frozenset((name,)) for name in program.weights if name not in changed}
    for operation in program.operations:
        if _is_movable(operation) and all(name in found for name in reads(operation)):
            behind = frozenset[str]().union(*(found[name] for name in reads(operation)))
            found |= dict.fromkeys(targets(operation), behind)
    return found


def _is_movable(operation: Operation) -> bool:
    """False for foreign calls, for what has programs inside, and for what depends on sizes."""
    leaves = (leaf for integer in integers(operation) for leaf in integer.leaves())
    is_other = isinstance(operation, (Foreign, Control))
    return not is_other and not any(isinstance(leaf, Var) for leaf in leaves)


def _split(program: Program, sources: dict[str, frozenset[str]]) -> _Split:
    """From the last operation on: what is read decides what stays."""
    needed = {*program.results}
    staying = needed | {t for o in program.operations if _is_view(o, program) for t in targets(o)}
    kept: list[Operation] = []
    derived: list[str] = []
    for operation in reversed(program.operations):
        asked = [name for name in targets(operation) if name in needed]
        if asked and all(
            name in sources
            and name not in staying
            and (
                _is_worth(name, sources[name], program)
                or _is_dear_factor(name, kept, sources, program)
            )
            for name in asked
        ):
            derived += reversed(asked)
        elif asked:
            kept.append(operation)
            needed.update(reads(operation))
    return _Split(tuple(reversed(kept)), tuple(reversed(derived)))


def _is_view(operation: Operation, program: Program) -> bool:
    """True for elements of one buffer at known places, in the order of the operation's axes.

    What is computed and then stored in fewer bytes is none.
    """
    if not isinstance(operation, Pointwise) or not isinstance(operation.value, Load):
        return False
    made, held = program.buffers[operation.target], program.buffers[operation.value.buffer]
    if made.dtype.itemsize < held.dtype.itemsize and held.name not in program.weights:
        return False
    places = (leaf for part in operation.value.index for leaf in part.leaves())
    is_known = not any(isinstance(leaf, Indirect) for leaf in places)
    return is_known and not program.buffers[operation.target].unfusable


def _is_worth(name: str, sources: frozenset[str], program: Program, most: int = 1) -> bool:
    """True if a result is at most as large, or ``most`` times, as what it is computed from."""
    size, *read = (
        buffer_bytes(program.buffers[buffer]).constant or 0 for buffer in (name, *sources)
    )
    return 0 < size <= most * sum(read)


def _is_dear_factor(
    name: str,
    kept: Sequence[Operation],
    sources: Mapping[str, frozenset[str]],
    program: Program,
) -> bool:
    """True for a short factor of weights that stay, a little larger than what it is made from."""
    if not _is_worth(name, sources[name], program, most=WIDEST):
        return False
    least, read = SHORTEST * _elements(name, program), [name]
    while read:
        buffer = read.pop()
        for reader in (one for one in kept if buffer in reads(one)):
            if _is_view(reader, program):
                read += targets(reader)
            elif not all(
                one in sources and least <= _elements(one, program) for one in targets(reader)
            ):
                return False
    return _is_dear(name, program)


def _elements(buffer: str, program: Program) -> int:
    return product(program.buffers[buffer].shape).constant or 0


def _is_dear(name: str, program: Program) -> bool:
    """True if a function that takes many instructions, and decodes nothing, is behind a buffer."""
    makers = {target: one for one in program.operations for target in targets(one)}
    behind, seen = [name], set[str]()
    while behind:
        buffer = behind.pop()
        if buffer in seen or buffer not in makers:
            continue
        seen.add(buffer)
        applied = (one for one in walk(values(makers[buffer])) if isinstance(one, Apply))
        if any(OPS[one.op].cost is Cost.MANY and one.op not in DECODING for one in applied):
            return True
        behind += reads(makers[buffer])
    return False


def _weight_program(
    program: Program, sources: dict[str, frozenset[str]], derived: tuple[str, ...]
) -> Program:
    """The operations behind derived weights, with the weights they read."""
    behind = frozenset[str]().union(*(sources[name] for name in derived))
    operations = (o for o in program.operations if all(name in sources for name in targets(o)))
    weights = tuple(name for name in program.weights if name in behind)
    whole = Program((), program.buffers, (), weights, (), derived)
    return remove_dead_code(with_operations(whole, operations))


def with_staged(weights: tuple[Weight, ...], schedules: Iterable[Schedule]) -> tuple[Weight, ...]:
    """The weights with a mark on those that nothing but weight programs reads.

    Constants stay where they are: no later binding gives them.
    """
    programs = [schedule.program for schedule in schedules]
    sources = {name for p in programs if p.weight_program for name in p.weight_program.weights}
    kept = {update.name for program in programs for update in program.updates}
    for program in programs:
        kept |= {part for packed in program.packed for part in packed.parts}
        kept |= {name for operation in program.operations for name in reads(operation)}
    return tuple(
        replace(weight, is_staged=True)
        if weight.name in sources - kept and not weight.is_constant
        else weight
        for weight in weights
    )
