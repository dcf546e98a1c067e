"""Decide which pointwise results are stored; inline the others into their readers.

    t[i] = exp(x[i]);  y[i] = t[i] + 1        ->        y[i] = exp(x[i]) + 1

One pass in program order: when an operation is reached, its operands are final.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from aotpack.ir.kernels.access import points
from aotpack.ir.operations import Attention, Matmul, Pointwise, Reduction, Scan
from aotpack.ir.ops.opinfo import Cost
from aotpack.ir.ops.optable import OPS
from aotpack.ir.origin import Origin
from aotpack.ir.program import Operation, Program, loads, read_whole, targets
from aotpack.ir.rewrite import Rewriter, map_values
from aotpack.ir.rounding import ROUNDINGS
from aotpack.ir.symbolic.facts import known_equal, known_lt
from aotpack.ir.symbolic.integers import Axis, Indirect, Int, product
from aotpack.ir.uses import operation_uses, operator_count
from aotpack.ir.values import (
    Apply,
    Const,
    Guarded,
    IndexValue,
    Load,
    Value,
    loads_below,
    walk,
)
from aotpack.schedule.program.dead_code import with_operations
from aotpack.schedule.program.prologue import is_decoding, is_prologue

MAX_READS = 4  # a value with more loads is stored when several operations read it
MAX_OPS = 8  # likewise for arithmetic: recomputing is cheaper than a round trip below this
MAX_INLINED_OPS = 120  # a bound on the size of what is inlined
MAX_OPERATORS = 512  # a bound on one expression: 8 s of ptxas at worst
IDENTITIES = {"sum": 0, "any": False, "all": True}


def realize(program: Program) -> Program:
    """Inline pointwise results that are cheaper to recompute than to store.

    Buffers that are read as a whole are stored.
    """
    readers = Readers(program)
    inlined: dict[str, Pointwise] = {}
    operations: list[Operation] = []
    for operation in program.operations:
        operation = _inline_reads(operation, inlined)
        operation = _simplify(operation)
        if isinstance(operation, Pointwise) and _is_inlinable(operation, readers):
            inlined[operation.target] = operation
            readers.enlarge(operation)
        else:
            operations.append(operation)
    return with_operations(program, operations)


class Readers:
    """The operations that read each buffer, and the size of each with what is inlined into it."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.stored = {*program.results, *(n for o in program.operations for n in read_whole(o))}
        templates = (o for o in program.operations if isinstance(o, (Matmul, Attention)))
        self.made_by_templates = {o.target: points(o.axes) for o in templates}
        uses = operation_uses(program.operations)
        self._of, self._producers = uses.readers, uses.producers
        self.meet_others = self._meeting_others()
        self._loads: dict[str, dict[str, list[Load]]] = {}
        self._operators: dict[str, int] = {}

    def of(self, operation: Pointwise) -> Sequence[Operation]:
        """The operations that read the result."""
        return self._of.get(operation.target, ())

    def loads(self, reader: Operation, buffer: str) -> list[Load]:
        """A reader's loads of a buffer."""
        name = targets(reader)[0]
        if name not in self._loads:
            by_buffer = self._loads[name] = {}
            for one in loads(reader):
                by_buffer.setdefault(one.buffer, []).append(one)
        return self._loads[name].get(buffer, [])

    def have_room(self, operation: Pointwise, operators: int) -> bool:
        """True when every reader may become larger by this number of operators."""
        names = [targets(reader)[0] for reader in self.of(operation)]
        return all(self._operators.get(name, 0) + operators <= MAX_OPERATORS for name in names)

    def _meeting_others(self) -> frozenset[str]:
        """The unfinished products whose reader also finishes a later one, of other rows.

        y = (x @ u + b) + (z @ v + c): a kernel makes one product, so the first sum is stored.
        """
        made: dict[str, tuple[int, Matmul | Attention]] = {}  # by buffer, with its position
        meeting: set[str] = set()
        for position, operation in enumerate(self.program.operations):
            if isinstance(operation, (Matmul, Attention)):
                made[operation.target] = position, operation
            elif isinstance(operation, Pointwise):
                met = {n: made[n] for n in self._finished_by(operation) if n in made}
                if not met:
                    continue
                last = made[operation.target] = max(met.values(), key=lambda one: one[0])
                meeting |= {name for name, one in met.items() if self._are_apart(one[1], last[1])}
        return frozenset(meeting)

    def _finished_by(self, operation: Pointwise) -> Iterator[str]:
        """What the operation alone reads, of its own size."""
        size, program = points(operation.axes), self.program
        for name in dict.fromkeys(one.buffer for one in loads(operation)):
            alone = len(self._of[name]) == 1 and name not in self.stored
            if alone and known_equal(product(program.buffers[name].shape), size):
                yield name

    def _are_apart(self, one: Matmul | Attention, other: Matmul | Attention) -> bool:
        """True for two products, unless they read the same rows: such may become one."""
        if not isinstance(one, Matmul) or not isinstance(other, Matmul):
            return one is not other
        own, others = ({*map(self._viewed, loads_below((o.lhs,)))} for o in (one, other))
        return own.isdisjoint(others)

    def _viewed(self, read: Load) -> str:
        """The buffer whose elements are read, maybe as a view."""
        producer = self._producers.get(read.buffer)
        while isinstance(producer, Pointwise) and isinstance(producer.value, Load):
            read = producer.value
            producer = self._producers.get(read.buffer)
        return read.buffer

    def enlarge(self, operation: Pointwise) -> None:
        """Count what is inlined into its readers."""
        for reader in self.of(operation):
            name = targets(reader)[0]
            self._operators[name] = self._operators.get(name, 0) + operator_count(operation)


def _inline_reads(operation: Operation, inlined: dict[str, Pointwise]) -> Operation:
    taken: list[Origin] = []

    def load(moved: Load) -> Value | None:
        producer = inlined.get(moved.buffer)
        if producer is None:
            return None
        taken.append(producer.origin)
        if moved.index == own_index(producer.axes):
            return producer.value
        return Rewriter(dict(zip(producer.axes, moved.index, strict=True)))(producer.value)

    operation = map_values(operation, Rewriter({}, load))
    for origin in dict.fromkeys(taken):
        operation = replace(operation, origin=origin + operation.origin)
    return operation


def _is_inlinable(operation: Pointwise, readers: Readers) -> bool:
    """False for results, bases, partial writes, and what is expensive to compute in each reader."""
    if operation.target in readers.stored or operation.index != own_index(operation.axes):
        return False
    if readers.program.buffers[operation.target].unfusable:
        return False
    if is_view(operation.value):
        return True
    if any(_is_operand(operation.target, reader) for reader in readers.of(operation)):
        return is_prologue(operation, readers.of(operation), readers.program)
    repeated = _repeated_operand(operation, readers)
    if repeated is not None:
        return is_prologue(repeated, readers.of(repeated), readers.program)
    inner = walk((operation.value,))
    arithmetic = [value for value in inner if isinstance(value, (Apply, Guarded))]
    reads = [value for value in inner if isinstance(value, Load)]
    gathers = [load for load in reads if not is_view(load)]
    if len(arithmetic) > MAX_INLINED_OPS or not readers.have_room(operation, len(arithmetic)):
        return False
    if _is_epilogue(operation, reads, readers):
        return False
    if is_decoding(operation, readers.of(operation), readers.program):
        return True
    is_shared = len(readers.of(operation)) != 1
    if not is_shared and not _repeats(operation, readers):
        return True
    applied = (value.op for value in arithmetic if isinstance(value, Apply))
    expensive = any(OPS[op].cost > Cost.ONE for op in applied if op not in ROUNDINGS)
    small = len(reads) <= MAX_READS and len(arithmetic) <= MAX_OPS
    return small and not (is_shared and gathers) and not (expensive and reads)


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


def _repeated_operand(operation: Pointwise, readers: Readers) -> Pointwise | None:
    """The view that repeats the result for templates alone, with the operation inlined.

    Heads of keys that several heads of queries share: the template reads through the view, so
    that what is stored has each element once.
    """
    seen = operation
    while len(readers.of(seen)) == 1:
        view = readers.of(seen)[0]
        if not isinstance(view, Pointwise) or not is_view(view.value):
            break
        is_stored = view.target in readers.stored or view.index != own_index(view.axes)
        if is_stored or readers.program.buffers[view.target].unfusable:
            return None
        inlined = _inline_reads(view, {seen.target: seen})
        assert isinstance(inlined, Pointwise)
        seen = inlined
    users = readers.of(seen)
    if seen is operation or not all(_is_operand(seen.target, user) for user in users):
        return None
    return seen if known_lt(points(operation.axes), points(seen.axes)) else None


def _is_epilogue(operation: Pointwise, reads: Sequence[Load], readers: Readers) -> bool:
    """True when the operation finishes a template's whole result: free, if that kernel stores it.

    If its one reader is pointwise and of the same size, the epilogue ends there instead, unless
    that of another product does.
    """
    mine, made = points(operation.axes), readers.made_by_templates
    if not any(one.buffer in made and known_equal(made[one.buffer], mine) for one in reads):
        return False
    first, *others = readers.of(operation) or (None,)
    if others or not isinstance(first, Pointwise) or operation.target in readers.meet_others:
        return True
    return not known_equal(mine, points(first.axes))


def _repeats(producer: Pointwise, readers: Readers) -> bool:
    """True when inlining into the one reader would compute an element more than once."""
    (reader,) = readers.of(producer)
    if isinstance(reader, Attention):
        return False  # only its mask and bias get here: they are read once for each (i, j)
    mine = readers.loads(reader, producer.target)
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
