"""Drop roundings to 16 bits that change nothing, or that the reader or the store does anyway.

    for i: h[i] = round_bfloat16(x[i])          for i: h[i] = x[i]        (its store rounds)
    for m, n: y[m, n] = sum of h[m, k] ...  ->  for m, n: y[m, n] = sum of h[m, k] ...
    for m: s[m] = round_bfloat16(w[m]) > 0      for m: s[m] = w[m] > 0    (w is a bfloat16 input)

A buffer that operations outside of the given ones write is read from memory, where it is rounded.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.kernel import Kernel
from aotpack.ir.operations import Attention, Matmul, Pointwise, Reduction, Sort
from aotpack.ir.program import Operation, Program, targets, values
from aotpack.ir.rewrite import Rewriter, map_values
from aotpack.ir.rounding import MOVES, ROUNDINGS
from aotpack.ir.uses import Uses, operation_uses
from aotpack.ir.values import Apply, Const, Guarded, Load, Value, children, walk

_EXTREMES = frozenset({"max", "min"})


def drop_spare_roundings(program: Program) -> Program:
    """Drop roundings to 16 bits that change nothing, or that the reader or the store does anyway.

    The same object if there is none.
    """
    changed = _changed(program.operations, program)
    if not changed:
        return program
    operations = tuple(changed.get(targets(o), o) for o in program.operations)
    return replace(program, operations=operations)


def drop_kernels_roundings(
    program: Program, kernels: tuple[Kernel, ...]
) -> tuple[Program, tuple[Kernel, ...]]:
    """Drop such roundings in each kernel, which reads what others made rounded from memory."""
    changed: dict[tuple[str, ...], Operation] = {}
    for kernel in kernels:
        changed |= _changed([member.operation for member in kernel.members], program)
    if not changed:
        return program, kernels
    operations = tuple(changed.get(targets(o), o) for o in program.operations)
    return replace(program, operations=operations), tuple(_with(k, changed) for k in kernels)


def _with(kernel: Kernel, changed: dict[tuple[str, ...], Operation]) -> Kernel:
    if not any(targets(member.operation) in changed for member in kernel.members):
        return kernel
    members = (
        replace(m, operation=changed.get(targets(m.operation), m.operation)) for m in kernel.members
    )
    return replace(kernel, members=tuple(members))


def _changed(operations: Sequence[Operation], program: Program) -> dict[tuple[str, ...], Operation]:
    """The operations that change, by their targets."""
    if not any(_rounds(operation) for operation in operations):
        return {}
    rounded = _Rounded(program, frozenset(name for o in operations for name in targets(o)))
    made = []
    for operation in operations:
        operation = map_values(operation, Rewriter({}, apply=rounded.without))
        rounded.note(operation)
        made.append(operation)
    made = [_without_factors_roundings(operation) for operation in made]
    uses = operation_uses(made)
    made = [_stored_alone(operation, program, uses) for operation in made]
    pairs = zip(made, operations, strict=True)
    return {targets(new): new for new, old in pairs if new is not old}


def _rounds(operation: Operation) -> bool:
    parts = walk(values(operation))
    return any(isinstance(part, Apply) and part.op in ROUNDINGS for part in parts)


@dataclass(frozen=True, slots=True)
class _Rounded:
    """What is rounded already where some operations read it; ``written`` are their targets.

    ``known`` are those targets whose results are rounded before any store.
    """

    program: Program
    written: frozenset[str]
    known: set[str] = field(default_factory=set)
    done: dict[tuple[Value, DType], bool] = field(default_factory=dict)

    def note(self, operation: Operation) -> None:
        """Add an operation's target if its results are rounded before any store."""
        name, value = targets(operation)[0], next(iter(values(operation)), None)
        is_extreme = isinstance(operation, Reduction) and operation.kind in _EXTREMES
        if value is None or isinstance(operation, Sort):
            self.known.add(name)  # memory; sorting moves rounded numbers
        elif not isinstance(operation, Pointwise) and not is_extreme:
            return
        elif self.holds(value, self.program.buffers[name].dtype):
            self.known.add(name)

    def without(self, value: Apply) -> Value | None:
        """The operand of a rounding that changes nothing; None for other operators."""
        dtype = ROUNDINGS.get(value.op)
        return value.args[0] if dtype and self.holds(value.args[0], dtype) else None

    def holds(self, value: Value, dtype: DType) -> bool:
        """True for a value that is a number of the type."""
        for part in walk((value,)):
            if (part, dtype) not in self.done:
                self.done[part, dtype] = self._holds(part, dtype)
        return self.done[value, dtype]

    def _holds(self, value: Value, dtype: DType) -> bool:
        """The same if the answers for its operands are known."""
        match value:
            case Load(buffer=name):
                is_kept = name not in self.written or name in self.known
                return is_kept and self.program.buffers[name].dtype is dtype
            case Const(value=number):
                return not number or number in (1, math.inf, -math.inf)
            case Guarded(value=one, otherwise=other):
                return self.done[one, dtype] and self.done[other, dtype]
            case Apply(op=op, args=args) if op in MOVES:
                return all(self.done[arg, dtype] for arg in args[MOVES[op] :])
            case Apply(op="cast", args=(arg,)):
                return arg.dtype in (DType.BOOL, DType.INT8, DType.UINT8)
        return isinstance(value, Apply) and ROUNDINGS.get(value.op) is dtype


def _without_factors_roundings(operation: Operation) -> Operation:
    """A product rounds its factors itself."""
    match operation:
        case Matmul(lhs=lhs, rhs=rhs, operand=operand):
            a, b = _unrounded(lhs, operand), _unrounded(rhs, operand)
            return operation if a is lhs and b is rhs else replace(operation, lhs=a, rhs=b)
        case Attention(query=query, key=key, value=value, operand=operand):
            a, b, c = (_unrounded(factor, operand) for factor in (query, key, value))
            same = a is query and b is key and c is value
            return operation if same else replace(operation, query=a, key=b, value=c)
    return operation


def _unrounded(factor: Value, dtype: DType) -> Value:
    """A factor without roundings to its own type, if it is moved elements alone."""
    parts = [part for part in walk((factor,)) if isinstance(part, Apply)]
    if not all(part.op in MOVES or ROUNDINGS.get(part.op) is dtype for part in parts):
        return factor
    return Rewriter({}, apply=lambda part: part.args[0] if part.op in ROUNDINGS else None)(factor)


def _stored_alone(operation: Operation, program: Program, uses: Uses[Operation]) -> Operation:
    """A rounding that the store does, and each product that reads the result."""
    if not isinstance(operation, Pointwise) or not isinstance(operation.value, Apply):
        return operation
    dtype, target = ROUNDINGS.get(operation.value.op), operation.target
    if dtype is None or dtype is not program.buffers[target].dtype:
        return operation
    if all(_multiplies(reader, target, dtype) for reader in uses.readers.get(target, ())):
        return replace(operation, value=operation.value.args[0])
    return operation


def _multiplies(reader: Operation, buffer: str, dtype: DType) -> bool:
    """True for a product that uses a buffer as a factor of this type alone."""
    if not isinstance(reader, (Matmul, Attention)) or reader.operand is not dtype:
        return False
    if isinstance(reader, Matmul):
        return _moves(reader.lhs, buffer) and _moves(reader.rhs, buffer)
    others = [slot for slot in (reader.bias, reader.mask) if slot is not None]
    if any(_reads(part, buffer) for part in walk(others)):
        return False
    return all(_moves(factor, buffer) for factor in (reader.query, reader.key, reader.value))


def _moves(value: Value, buffer: str) -> bool:
    """True when elements of a buffer are only moved, negated or chosen from."""
    inside: dict[Value, bool] = {}
    for part in walk((value,)):
        inside[part] = _reads(part, buffer) or any(inside[child] for child in children(part))
        decides = children(part)
        if isinstance(part, Apply) and part.op in MOVES:
            decides = part.args[: MOVES[part.op]]
        elif isinstance(part, Guarded):
            decides = (part.condition,)
        if any(inside[child] for child in decides):
            return False
    return True


def _reads(value: Value, buffer: str) -> bool:
    return isinstance(value, Load) and value.buffer == buffer
