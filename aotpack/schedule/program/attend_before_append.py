"""Attention to a cache that the same step extends comes before the cache is extended.

    c = cache; c[at] = k; y = attention(q, c)
    ->    y = attention(q, where(j == at, k, cache[j])); c = cache; c[at] = k       (in that order)

No launch stands between the product that makes the key and attention, which may request the cached
keys before that product ends; all updates of caches share one launch behind the last attention.
What makes the query, such as a rotation by its position, moves into attention too, if it is one
expression: a program has few queries, and makes them once.
"""

from collections.abc import Mapping
from dataclasses import replace

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.appended_rows import AppendedRow, appended_rows, with_appended_row
from aotpack.ir.kernels.key_range import POSITIONS
from aotpack.ir.operations import Attention, Pointwise, Reduction, Scan, Scatter
from aotpack.ir.program import Operation, Program, loads, targets
from aotpack.ir.rewrite import Rewriter
from aotpack.ir.symbolic.facts import bounds, known_equal
from aotpack.ir.symbolic.integers import Axis, Int
from aotpack.ir.uses import Uses, operation_uses
from aotpack.ir.values import (
    Apply,
    Const,
    Guarded,
    IndexValue,
    Load,
    Value,
    indirect_values,
    loads_below,
    walk,
)
from aotpack.schedule.program.dead_code import remove_dead_code
from aotpack.schedule.program.prologue import MOST_QUERIES
from aotpack.schedule.program.realize import own_index

MOST_OPERATORS = 48  # of a row or a query, which each program makes


def attend_before_append(program: Program, is_host: bool = False) -> Program:
    """Let attention of few queries read the appended row where it is made, on GPUs.

    The updates of the caches come last. The same object if there are none. Not in parts of
    branches and loops, nor in bodies of calls: what these are given may be made by the same call.
    """
    if is_host:
        return program
    uses = operation_uses(program.operations)
    places = {update.value: update.name for update in program.updates}
    found = {
        one.target: one
        for one in program.operations
        if isinstance(one, Scatter) and places.get(one.target) == one.base
    }
    makers = {one.target: one for one in program.operations if isinstance(one, Pointwise)}
    new: dict[str, Attention] = {}
    for operation in program.operations:
        changed = _attending(operation, found, makers, uses, program)
        if changed is not None:
            new[changed.target] = changed
    if not new:
        return program
    moved = [name for name, one in found.items() if _is_read_by(new, one, uses)]
    kept: list[Operation] = []
    for one in program.operations:
        if isinstance(one, Attention):
            kept.append(new.get(one.target, one))
        elif not (isinstance(one, Scatter) and one.target in moved):
            kept.append(one)
    operations = (*kept, *(found[name] for name in moved))
    return remove_dead_code(replace(program, operations=operations))


def _attending(
    operation: Operation,
    scatters: Mapping[str, Scatter],
    makers: Mapping[str, Pointwise],
    uses: Uses[Operation],
    program: Program,
) -> Attention | None:
    """The attention with a row in key and value, and its query made; None where one has none."""
    if not isinstance(operation, Attention) or operation.causal:
        return None
    if bounds(operation.i.extent)[1] > MOST_QUERIES:
        return None
    factors: list[Value] = []
    caches: list[str] = []
    for factor in (operation.key, operation.value):
        scatter = scatters.get(factor.buffer) if isinstance(factor, Load) else None
        if scatter is None or not isinstance(factor, Load):
            return None
        if uses.readers[scatter.target] != (operation,):
            return None
        if program.buffers[scatter.target].dtype is not operation.operand:
            return None
        row = _with_row(factor, scatter, operation.j, program.buffers[scatter.target].shape)
        if row is None:
            return None
        factors.append(row)
        caches.append(scatter.target)
    key, value = factors
    query = _made_query(operation, makers, uses, program)
    changed = replace(operation, key=key, value=value, query=query)
    if any(_reads(changed, name) for name in caches):
        return None  # a mask or a bias reads the cache too
    if not appended_rows(changed) or _is_reduced((query, key, value), uses):
        return None  # the launch that makes a norm of heads makes the rest too
    return changed


def _is_reduced(factors: tuple[Value, ...], uses: Uses[Operation]) -> bool:
    """True where a reduction stands between the products before attention and its factors."""
    pending, seen = {load.buffer for load in loads_below(factors)}, set[str]()
    while pending:
        name = pending.pop()
        seen.add(name)
        maker = uses.producers.get(name)
        if isinstance(maker, (Reduction, Scan)):
            return True
        if isinstance(maker, Pointwise):
            pending |= {one.buffer for one in loads(maker)} - seen
    return False


def _reads(attention: Attention, name: str) -> bool:
    return any(load.buffer == name for load in loads(attention))


def _is_read_by(new: Mapping[str, Attention], scatter: Scatter, uses: Uses[Operation]) -> bool:
    """True for a cache whose readers have become attention to its old value."""
    readers = uses.readers.get(scatter.target, ())
    changed = [new.get(targets(one)[0]) for one in readers]
    return bool(readers) and not any(one is None or _reads(one, scatter.target) for one in changed)


def _with_row(read: Load, scatter: Scatter, j: Axis, shape: tuple[Int, ...]) -> Value | None:
    """The element that attention reads: of the row that a scatter sets, or of its base.

    Along ``j`` the scatter has one place, along other dimensions it sets all; None for others.
    """
    if scatter.kind != "set" or not _is_short(scatter.value):
        return None
    binding: dict[Axis, Int] = {}
    positions: list[Value] = []
    for at, place, size in zip(read.index, scatter.index, shape, strict=True):
        axis = next((axis for axis in scatter.axes if place == Int.of(axis)), None)
        if axis is not None and axis not in binding and known_equal(axis.extent, size):
            binding[axis] = at
        elif at == Int.of(j):
            positions.append(_as_value(place))
        elif not (size.constant == 1 and place.constant == 0):
            return None
    rest = [axis for axis in scatter.axes if axis not in binding]
    if len(positions) != 1 or any(axis.extent.constant != 1 for axis in rest):
        return None
    binding |= dict.fromkeys(rest, Int.of(0))
    rewrite = Rewriter(binding)
    position = rewrite(positions[0])
    if isinstance(position, Const):
        return None
    cached = Load(scatter.base, read.index, read.dtype)
    return with_appended_row(j, AppendedRow(position, rewrite(scatter.value), cached))


def _as_value(place: Int) -> Value:
    """A place that data give, as a value."""
    if len(place.indirects) == 1 and place == Int.of(place.indirects[0]):
        (value,) = indirect_values((place,))
        if value.dtype in POSITIONS:
            return value
    return IndexValue(place, DType.INT64)


def _made_query(
    attention: Attention,
    makers: Mapping[str, Pointwise],
    uses: Uses[Operation],
    program: Program,
) -> Value:
    """The query as what makes it, if nothing else reads it and one expression does."""
    query = attention.query
    maker = makers.get(query.buffer) if isinstance(query, Load) else None
    if maker is None or not isinstance(query, Load):
        return query
    buffer = program.buffers[maker.target]
    is_alone = uses.readers[maker.target] == (attention,) and maker.target not in program.results
    is_whole = maker.index == own_index(maker.axes)
    is_rounded = buffer.dtype is attention.operand and not buffer.unfusable
    if not (is_alone and is_whole and is_rounded and _is_short(maker.value)):
        return query
    return Rewriter(dict(zip(maker.axes, query.index, strict=True)))(maker.value)


def _is_short(value: Value) -> bool:
    return sum(isinstance(one, (Apply, Guarded)) for one in walk((value,))) <= MOST_OPERATORS
