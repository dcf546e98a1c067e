"""Prologues: arithmetic on a factor that moves into the loads of the product's template.

    w[n, k] = float(q[n, k]) * s[n]; y = x @ w    ->    y = x @ (float(q[n, k]) * s[n])

Only cheap arithmetic on inputs and weights, which reads no more than it makes, for one product. A
factor is loaded once for each tile along the other side, so that side must be short: then the
product is bound by memory, and computing costs nothing.

Weights made of codes enter their products before products are merged
(``schedule/program/merge_products.py``); the rest waits for ``schedule/program/realize.py``, which
lets lookups of rows decode what they read, so the weight of an embedding that is a product's too
lies in memory as codes alone.

Attention of few queries reads each key once, so keys and values that are gathered through a table
of pages, or converted from fewer bits, never lie in memory as such, nor is computed what a mask
hides (``schedule/tiles/few_queries.py``). Those of one place in a cache, which the call names for a
whole sequence, are read there by any number of queries.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.access import axes_of, points
from aotpack.ir.kernels.grouped_heads import heads_together
from aotpack.ir.operations import Attention, Matmul, Pointwise
from aotpack.ir.ops.float8 import FORMATS
from aotpack.ir.ops.opinfo import Cost
from aotpack.ir.ops.optable import OPS
from aotpack.ir.program import Operation, Program
from aotpack.ir.rewrite import Rewriter
from aotpack.ir.rounding import ROUNDINGS
from aotpack.ir.symbolic.facts import bounds, known_equal, typical
from aotpack.ir.symbolic.integers import Indirect, Int
from aotpack.ir.values import Apply, Const, IndexValue, Load, Value, walk
from aotpack.schedule.layout import typical_bytes
from aotpack.schedule.program.dead_code import remove_dead_code

MOST_OPS = 8
MOST_DECODING_OPS = 12  # of codes
MANY = 64  # weights in an element of a factor, too many for the few operators above
MOST_QUERIES = 16  # of attention
DECODING = ("shift_right", *(f"of_{dtype}_code" for dtype in FORMATS))
"""Operators of quantised weights: a few instructions, for half a byte or one that is read."""
LONGEST_OTHER_SIDE = 256  # of the product: a few tiles
MOST_READ = 1.1  # bytes for each byte that is not written


def widen_in_products(program: Program) -> Program:
    """Compute weights made of codes in the products that read them; the same object if none are.

    Each of several products computes them: it reads fewer bytes than a weight stored once for all.
    """
    makers = {
        one.target: one
        for one in program.operations
        if isinstance(one, Pointwise) and _may_move(one, program)
    }
    counts = _weights_read(makers, program)  # of what is made of weights alone
    makers = {name: one for name, one in makers.items() if counts.get(name, MANY) < MANY}
    operations = tuple(_widening(one, makers, program) for one in program.operations)
    if all(new is old for new, old in zip(operations, program.operations, strict=True)):
        return program
    return remove_dead_code(replace(program, operations=operations))


def _may_move(maker: Pointwise, program: Program) -> bool:
    if maker.target in program.results or program.buffers[maker.target].unfusable:
        return False
    return maker.index == tuple(map(Int.of, maker.axes))


def _widening(operation: Operation, makers: Mapping[str, Pointwise], program: Program) -> Operation:
    """A product whose right factor is arithmetic on weights."""
    if not isinstance(operation, Matmul) or not isinstance(operation.rhs, Load):
        return operation
    maker = makers.get(operation.rhs.buffer)
    if maker is None:
        return operation

    def made(load: Load) -> Value | None:
        its = makers.get(load.buffer)
        binding = dict(zip(its.axes, load.index, strict=True)) if its else {}
        return Rewriter(binding, made)(its.value) if its else None

    whole = replace(maker, value=Rewriter({}, made)(maker.value))
    if not is_prologue(whole, (operation,), program):
        return operation
    return replace(
        operation,
        rhs=Rewriter({}, made)(operation.rhs),
        origin=whole.origin + operation.origin,
    )


def _weights_read(makers: Mapping[str, Pointwise], program: Program) -> Mapping[str, int]:
    """How many weights an element of each buffer is made of, whose arithmetic is written out."""
    found = dict.fromkeys(program.weights, 1)
    for maker in makers.values():  # in order
        loads = [value for value in walk((maker.value,)) if isinstance(value, Load)]
        if all(load.buffer in found for load in loads):
            found[maker.target] = sum(found[load.buffer] for load in loads)
    return found


def is_decoding(operation: Pointwise, readers: Sequence[Operation], program: Program) -> bool:
    """True for a weight made of codes that is read point by point: each point decodes its own."""
    if not all(isinstance(reader, Pointwise) for reader in readers):
        return False
    is_cheap = _is_cheap(operation) and _is_small(operation, program)
    return is_cheap and _is_of_weights(operation, program)


def is_prologue(operation: Pointwise, readers: Sequence[Operation], program: Program) -> bool:
    """True for an operation that its only reader, a product, computes where it loads."""
    if len(readers) != 1 or not isinstance(readers[0], (Matmul, Attention)):
        return False
    template_op = readers[0]
    if isinstance(template_op, Attention):
        return _makes_keys(operation, template_op)
    others = [
        other
        for slot, side, other in (
            (template_op.lhs, template_op.m, template_op.n),
            (template_op.rhs, template_op.n, template_op.m),
        )
        if _reads(slot, operation.target)
        and known_equal(points((*template_op.batch, side, template_op.k)), points(operation.axes))
    ]
    loads = [_reads(slot, operation.target) for slot in (template_op.lhs, template_op.rhs)]
    if sum(loads) != 1 or len(others) != 1 or typical(others[0].extent) > LONGEST_OTHER_SIDE:
        return False
    return _is_cheap(operation) and _is_small(operation, program)


def _makes_keys(operation: Pointwise, attention: Attention) -> bool:
    """True for keys or values of few queries, gathered or cheaply computed, or of one place."""
    if attention.causal:
        return False
    others = (attention.query, attention.bias, attention.mask)
    if any(_reads(slot, operation.target) for slot in others if slot is not None):
        return False
    read = [s for s in (attention.key, attention.value) if _reads(s, operation.target)]
    if not all(isinstance(slot, Load) for slot in read):
        return False
    if bounds(attention.i.extent)[1] > MOST_QUERIES:
        return all(_is_of_one_place(operation, slot, attention) for slot in read)
    rows = heads_together(attention)
    column = attention.d if read[0] is attention.key else attention.e
    keys = points((attention.batch, attention.head, attention.j, column))
    is_once = known_equal(keys, points(operation.axes) * rows)
    return _is_cheap(operation, most=Cost.MANY if is_once else Cost.ONE)


def _is_of_one_place(operation: Pointwise, slot: Value, attention: Attention) -> bool:
    """True for a plain read at a position that memory has, the same for all keys of a sequence."""
    if not isinstance(operation.value, Load) or not isinstance(slot, Load):
        return False
    at = dict(zip(operation.axes, slot.index, strict=True))
    leaves = (leaf for part in operation.value.index for leaf in part.leaves())
    named = axes_of(leaf.value for leaf in leaves if isinstance(leaf, Indirect))
    used = axes_of(IndexValue(at[axis], DType.INT64) for axis in named)
    return used <= {attention.batch}


def _reads(slot: Value, buffer: str) -> int:
    return sum(isinstance(v, Load) and v.buffer == buffer for v in walk((slot,)))


def _is_cheap(operation: Pointwise, most: Cost = Cost.ONE) -> bool:
    """True for a few operators of at most such a cost."""
    inner = walk((operation.value,))
    applied = [value for value in inner if isinstance(value, Apply)]
    plain = all(isinstance(value, (Apply, Load, Const, IndexValue)) for value in inner)
    others = {value.op for value in applied if OPS[value.op].cost > most}
    decodes = any(value.op in DECODING for value in applied)
    is_short = len(applied) <= (MOST_DECODING_OPS if decodes else MOST_OPS)
    return plain and is_short and others <= {*ROUNDINGS, *DECODING}


def _is_of_weights(operation: Pointwise, program: Program) -> bool:
    loads = (value for value in walk((operation.value,)) if isinstance(value, Load))
    return all(load.buffer in program.weights for load in loads)


def _is_small(operation: Pointwise, program: Program) -> bool:
    """True when it reads only inputs and weights, and no more bytes than it makes."""
    names = {value.buffer for value in walk((operation.value,)) if isinstance(value, Load)}
    if not names <= {*program.inputs, *program.weights}:
        return False
    read = sum(typical_bytes(program.buffers[name]) for name in names)
    return read <= MOST_READ * typical_bytes(program.buffers[operation.target])
