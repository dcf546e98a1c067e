"""Operations that depend on weights alone move into the weight program, which runs once.

    s[c] = rsqrt(var[c] + 1e-5) * g[c]              once:  s[c] = rsqrt(var[c] + 1e-5) * g[c]
    y[n, c] = (x[n, c] - mean[c]) * s[c]    ->      y[n, c] = (x[n, c] - mean[c]) * s[c]

Here ``s`` is a derived weight. The rule of worth: a result moves if it has at most as many bytes as
the weights that it is computed from, and is no view. So a table that is expanded from a short
weight is computed where it is read, and reading derived weights costs no more than reading the
originals. A view only renames elements, which the indices of its readers do for nothing; an
unfusable buffer is no view, but a copy for the sake of its memory order. What the rule leaves in
the program, and what the model returns or stores in its state, is computed there from derived
weights as far as they reach.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from aotpack.ir.foreign import Foreign
from aotpack.ir.kernels.kernel import Schedule
from aotpack.ir.kernels.rows import buffer_bytes
from aotpack.ir.operations import Pointwise
from aotpack.ir.program import (
    Control,
    Operation,
    Program,
    reads,
    targets,
)
from aotpack.ir.symbolic.integers import Indirect, Var
from aotpack.ir.uses import integers
from aotpack.ir.values import Load
from aotpack.schedule.program.dead_code import remove_dead_code, with_operations
from aotpack.stages import Weight


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
            name in sources and name not in staying and _is_worth(name, sources[name], program)
            for name in asked
        ):
            derived += reversed(asked)
        elif asked:
            kept.append(operation)
            needed.update(reads(operation))
    return _Split(tuple(reversed(kept)), tuple(reversed(derived)))


def _is_view(operation: Operation, program: Program) -> bool:
    """True for elements of one buffer at known places, in the order of the operation's axes."""
    if not isinstance(operation, Pointwise) or not isinstance(operation.value, Load):
        return False
    places = (leaf for part in operation.value.index for leaf in part.leaves())
    is_known = not any(isinstance(leaf, Indirect) for leaf in places)
    return is_known and not program.buffers[operation.target].unfusable


def _is_worth(name: str, sources: frozenset[str], program: Program) -> bool:
    """True if a result is at most as large as the weights it is computed from."""
    size, *read = (
        buffer_bytes(program.buffers[buffer]).constant or 0 for buffer in (name, *sources)
    )
    return 0 < size <= sum(read)


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
