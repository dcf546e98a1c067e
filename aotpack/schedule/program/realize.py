"""Decide which pointwise results are stored; inline the others into their readers.

    t[i] = exp(x[i]);  y[i] = t[i] + 1        ->        y[i] = exp(x[i]) + 1

One pass in program order: when an operation is reached, its operands are final.
"""

from collections.abc import Sequence
from dataclasses import replace

from aotpack.ir.kernels.access import points
from aotpack.ir.operations import Attention, Matmul, Pointwise, Reduction, Scan
from aotpack.ir.ops.opinfo import Cost
from aotpack.ir.ops.optable import OPS
from aotpack.ir.origin import Origin
from aotpack.ir.program import Operation, Program, loads, read_whole
from aotpack.ir.rewrite import Rewriter, map_values
from aotpack.ir.symbolic.facts import known_equal
from aotpack.ir.symbolic.integers import Axis, Indirect, Int
from aotpack.ir.uses import Uses, operation_uses
from aotpack.ir.values import Apply, Const, Guarded, IndexValue, Load, Value, walk
from aotpack.schedule.program.dead_code import with_operations
from aotpack.schedule.program.prologue import is_prologue

MAX_READS = 4  # a value with more loads is stored when several operations read it
MAX_OPS = 8  # likewise for arithmetic: recomputing is cheaper than a round trip below this
MAX_INLINED_OPS = 120  # a bound on the size of one expression
IDENTITIES = {"sum": 0, "any": False, "all": True}


def realize(program: Program) -> Program:
    """Inline pointwise results that are cheaper to recompute than to store.

    Buffers that are read as a whole are stored.
    """
    uses = operation_uses(program.operations)
    stored = {*program.results, *(name for o in program.operations for name in read_whole(o))}
    inlined: dict[str, Pointwise] = {}
    operations: list[Operation] = []
    for operation in program.operations:
        operation = _inline_reads(operation, inlined)
        operation = _simplify(operation)
        if isinstance(operation, Pointwise) and _is_inlinable(operation, program, uses, stored):
            inlined[operation.target] = operation
        else:
            operations.append(operation)
    return with_operations(program, operations)


def _inline_reads(operation: Operation, inlined: dict[str, Pointwise]) -> Operation:
    taken: list[Origin] = []

    def load(moved: Load) -> Value | None:
        producer = inlined.get(moved.buffer)
        if producer is None:
            return None
        taken.append(producer.origin)
        return Rewriter(dict(zip(producer.axes, moved.index, strict=True)))(producer.value)

    operation = map_values(operation, Rewriter({}, load))
    for origin in dict.fromkeys(taken):
        operation = replace(operation, origin=origin + operation.origin)
    return operation


def _is_inlinable(
    operation: Pointwise, program: Program, uses: Uses[Operation], stored: set[str]
) -> bool:
    """False for results, bases, partial writes, and what is expensive to compute in each reader."""
    if operation.target in stored or operation.index != own_index(operation.axes):
        return False
    if program.buffers[operation.target].unfusable:
        return False
    if is_view(operation.value):
        return True
    readers = uses.readers.get(operation.target, ())
    if any(_is_operand(operation.target, reader) for reader in readers):
        return is_prologue(operation, readers, program)
    inner = walk((operation.value,))
    arithmetic = [value for value in inner if isinstance(value, (Apply, Guarded))]
    reads = [value for value in inner if isinstance(value, Load)]
    gathers = [load for load in reads if not is_view(load)]
    if len(arithmetic) > MAX_INLINED_OPS or _is_epilogue(operation, readers, program):
        return False
    if len(readers) == 1 and not _repeats(operation, readers[0]):
        return True
    costs = (OPS[value.op].cost for value in arithmetic if isinstance(value, Apply))
    expensive = any(cost > Cost.ONE for cost in costs)
    small = len(reads) <= MAX_READS and len(arithmetic) <= MAX_OPS
    shared_gather = gathers and len(readers) > 1
    return small and not shared_gather and not (expensive and reads)


def own_index(axes: tuple[Axis, ...]) -> tuple[Int, ...]:
    """The identity index: each point of ``axes`` writes the element at its own position."""
    return tuple(Int.of(axis) for axis in axes)


def is_view(value: Value) -> bool:
    """True for a value that only moves data, at addresses known without reading memory."""
    if isinstance(value, Load):
        leaves = (leaf for part in value.index for leaf in part.leaves())
        return not any(isinstance(leaf, Indirect) for leaf in leaves)
    return isinstance(value, (Const, IndexValue))


def _is_operand(buffer: str, reader: Operation) -> bool:
    """True when a template multiplies the buffer: its tile is read many times."""
    if isinstance(reader, Matmul):
        slots: tuple[Value, ...] = (reader.lhs, reader.rhs)
    elif isinstance(reader, Attention):
        slots = (reader.query, reader.key, reader.value)
    else:
        return False
    return any(isinstance(v, Load) and v.buffer == buffer for v in walk(slots))


def _is_epilogue(operation: Pointwise, readers: Sequence[Operation], program: Program) -> bool:
    """True when the operation finishes a template's result: free, if that kernel stores it.

    If its one reader is pointwise and of the same size, the epilogue ends there instead.
    """
    made = {t.target for t in program.operations if isinstance(t, (Matmul, Attention))}
    if not any(load.buffer in made for load in loads(operation)):
        return False
    if len(readers) != 1 or not isinstance(readers[0], Pointwise):
        return True
    mine, theirs = (points(o.axes) for o in (operation, readers[0]))
    return not known_equal(mine, theirs)


def _repeats(producer: Pointwise, reader: Operation) -> bool:
    """True when inlining would compute an element of the producer more than once."""
    if isinstance(reader, Attention):
        return False  # only its mask and bias get here: they are read once for each (i, j)
    mine = [load for load in loads(reader) if load.buffer == producer.target]
    if len(mine) > 1:
        return True
    domain = {*reader.axes, *(reader.inner if isinstance(reader, Reduction) else ())}
    used = {leaf for load in mine for part in load.index for leaf in part.leaves()}
    return any(axis.extent.constant != 1 for axis in domain - used)


def _simplify(operation: Operation) -> Operation:
    """A reduction or scan of the monoid's identity alone is that identity."""
    if not isinstance(operation, (Reduction, Scan)) or operation.kind not in IDENTITIES:
        return operation
    (value,) = operation.args
    if not isinstance(value, Const) or value.value != IDENTITIES[operation.kind]:
        return operation
    index = own_index(operation.axes)
    return Pointwise(operation.targets[0], operation.axes, value, index, operation.origin)
