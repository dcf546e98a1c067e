"""Results of 16 bits that decide something are rounded for all their readers, as they are in eager.

    for i: y[i] = a[i] + b[i]              for i: y[i] = a[i] + b[i]
    for i: m[i] = y[i] > 0.5           ->  for i: m[i] = round_bfloat16(y[i]) > 0.5
    for i: z[i] = exp(y[i])                for i: z[i] = exp(round_bfloat16(y[i]))

Were they rounded for the decision alone, other readers in the same kernel would get other numbers.
"""

from collections.abc import Mapping, Sequence, Set

from aotpack.ir.operations import Pointwise
from aotpack.ir.program import Buffer, Operation, targets
from aotpack.ir.rewrite import Rewriter, map_values
from aotpack.ir.rounding import MOVES
from aotpack.ir.values import Apply, Guarded, Load, Value
from aotpack.lower.values import round_to


def with_rounded_reads(
    operations: Sequence[Operation], decided: Set[str], buffers: Mapping[str, Buffer]
) -> tuple[Operation, ...]:
    """The operations with every read of the decided buffers, and of what they move, rounded."""
    made = {name for operation in operations for name in targets(operation)}
    chosen = set(decided)
    for operation in reversed(operations):
        if isinstance(operation, Pointwise) and operation.target in chosen:
            chosen |= _moved(operation.value)
    types = {name: buffers[name].dtype for name in chosen & made}
    rounded = {name: dtype for name, dtype in types.items() if dtype.compute is not dtype}
    if not rounded:
        return tuple(operations)

    def read(load: Load) -> Value | None:
        dtype = rounded.get(load.buffer)
        return round_to(load, dtype) if dtype else None

    rewrite = Rewriter({}, read)
    return tuple(map_values(operation, rewrite) for operation in operations)


def _moved(value: Value) -> set[str]:
    """The buffers whose elements are moved, negated or chosen from."""
    found: dict[Value, None] = {}
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if part in found:
            continue
        found[part] = None
        match part:
            case Guarded(value=one, otherwise=other):
                waiting += (one, other)
            case Apply(op=op, args=args) if op in MOVES:
                waiting += args[MOVES[op] :]
    return {part.buffer for part in found if isinstance(part, Load)}
