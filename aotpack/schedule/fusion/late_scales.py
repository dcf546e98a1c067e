"""Norms of rows in front of products of few rows: a row's scale moves behind the product.

    s[m] = sum of x[m, k]**2                      p[m, n] = sum of x[m, k] * g[k] * w[n, k]
    t[m, k] = x[m, k] * rsqrt(s[m]) * g[k]   ->   s[m] = sum of x[m, k]**2
    y[m, n] = sum of t[m, k] * w[n, k]            y[m, n] = p[m, n] * rsqrt(s[m])

The kernel of the product reads x anyway and sums its squares too
(``schedule/fusion/paired_products.py``), so no launch is left for the norm. Factors are rounded
once, where the norm rounds its results too. In float16 a row without its scale could overflow.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.access import axes_in, axes_of, delinearize, points
from aotpack.ir.names import free_name
from aotpack.ir.operations import Matmul, Pointwise, Reduction
from aotpack.ir.program import Buffer, Operation, Program, targets
from aotpack.ir.rewrite import Rewriter
from aotpack.ir.rounding import ROUNDINGS
from aotpack.ir.symbolic.facts import known_equal
from aotpack.ir.symbolic.integers import Axis, Int
from aotpack.ir.uses import Uses, operation_uses, operator_count
from aotpack.ir.values import Apply, Const, Load, Value, indirect_values, walk
from aotpack.schedule.program.dead_code import remove_dead_code, with_operations
from aotpack.schedule.program.merge_products import can_pair, has_weight

WIDE_RANGES = (DType.BFLOAT16, DType.FLOAT32)  # of factors that need no scale to be finite
LONGEST_ROW = 16384  # elements, that every program reads
MOST_OPS = 8  # of the scale and of what is summed


@dataclass(frozen=True, slots=True)
class Norm:
    """Rows times their scale: all that reads the rows are ``products``, of one kernel.

    ``factor`` is over the rows' axes, ``scale`` over those without the last.
    """

    rows: Pointwise
    statistic: Reduction
    products: tuple[Matmul, ...]
    factor: Value
    scale: Value


def scale_after_products(
    program: Program, state: frozenset[str] = frozenset(), partition: object = None
) -> Program:
    """Move the scales of normed rows behind products of few rows; the same object if none moves.

    Not past factors that other methods change. A ``partition`` is for all targets, so not for it.
    """
    if partition is not None:
        return program
    fixed = {*program.weights} - state - {update.name for update in program.updates}
    uses = operation_uses(program.operations)
    made = {name: o for o in program.operations for name in targets(o)}
    changed: dict[Operation, tuple[Operation, ...]] = {}
    buffers = dict(program.buffers)
    for operation in program.operations:
        norm = _norm(operation, program, uses, made, fixed)
        if norm is not None:
            changed |= _moved(norm, buffers)
    if not changed:
        return program
    operations = (new for old in program.operations for new in changed.get(old, (old,)))
    return remove_dead_code(with_operations(replace(program, buffers=buffers), operations))


def _norm(
    rows: Operation,
    program: Program,
    uses: Uses[Operation],
    made: Mapping[str, Operation],
    fixed: set[str],
) -> Norm | None:
    """The operation as a norm whose only readers are products of one kernel."""
    if not isinstance(rows, Pointwise) or rows.target in program.results:
        return None
    if rows.index != tuple(map(Int.of, rows.axes)) or not rows.axes:
        return None
    products = _products(rows, program, uses)
    if not products:
        return None
    last, operators = rows.axes[-1], operator_count(rows)
    if operators > MOST_OPS:
        return None
    parts = _parts(rows.value, last, products[0].operand)
    if parts is None or parts[0] is None or parts[1] is None:
        return None
    factor, scale = parts[0], _whole(parts[1], made)
    if not _is_loads(factor, last, fixed):
        return None
    summed = {load.buffer for load in walk((scale,)) if isinstance(load, Load)}
    statistic = made.get(next(iter(summed), ""))
    if len(summed) != 1 or not isinstance(statistic, Reduction) or not _is_short(scale):
        return None
    if not _is_read_by(rows, statistic, program, uses):
        return None
    if not _fits(statistic, factor, products[0], rows):
        return None
    return Norm(rows, statistic, products, factor, scale)


def _products(rows: Pointwise, program: Program, uses: Uses[Operation]) -> tuple[Matmul, ...]:
    """The products that read all of the rows, if nothing else reads them; a kernel can pair two."""
    found = list[Matmul]()
    for reader in uses.readers.get(rows.target, ()):
        if not isinstance(reader, Matmul) or not isinstance(reader.lhs, Load):
            return ()
        plain = can_pair(reader) and has_weight(reader, program)
        if not plain or reader.operand not in WIDE_RANGES:
            return ()
        if any(program.buffers[name].unfusable for name in (rows.target, reader.target)):
            return ()
        found.append(reader)
    if not found or len(found) > 2 or not _has_rows(found[0], rows):
        return ()
    first = found[0]
    for other in found[1:]:
        axes = ((other.m, first.m), (other.n, first.n), (other.k, first.k))
        if not all(known_equal(one.extent, its.extent) for one, its in axes):
            return ()
        binding = {one: Int.of(its) for one, its in axes}
        if Rewriter(binding)(other.lhs) is not first.lhs or other.operand is not first.operand:
            return ()
    return tuple(found)


def _has_rows(product: Matmul, rows: Pointwise) -> bool:
    """True if the left factor's element [m, k] is that of row m: the rows' axes, flattened."""
    found, wanted = _places(rows, product), delinearize(rows.axes[:-1], _row(product))
    return found == wanted | {rows.axes[-1]: Int.of(product.k)}


def _row(product: Matmul) -> Int:
    """The row of a product; one alone is 0 wherever it is read."""
    return Int.of(0 if product.m.extent.constant == 1 else product.m)


def _places(rows: Pointwise, product: Matmul) -> dict[Axis, Int]:
    """Where a product reads the rows: their axes in its own."""
    assert isinstance(product.lhs, Load)
    alone = {product.m: Int.of(0)} if product.m.extent.constant == 1 else {}
    index = (part.substitute(alone) for part in product.lhs.index)
    return dict(zip(rows.axes, index, strict=True))


def _parts(value: Value, last: Axis, dtype: DType) -> tuple[Value | None, Value | None] | None:
    """(factors along the last axis, the others), without roundings to ``dtype``; None: neither."""
    if last not in axes_of((value,)):
        return None, value
    if isinstance(value, Load):
        return value, None
    if not isinstance(value, Apply):
        return None
    if ROUNDINGS.get(value.op) is dtype:
        return _parts(value.args[0], last, dtype)
    if value.op not in ("mul", "div"):
        return None
    one, other = (_parts(arg, last, dtype) for arg in value.args)
    if one is None or other is None:
        return None
    if value.op == "mul":
        return _times(one[0], other[0]), _times(one[1], other[1])
    if other[0] is not None or other[1] is None:
        return None
    above = one[1] if one[1] is not None else Const(1.0, value.dtype)
    return one[0], Apply("div", (above, other[1]), value.dtype)


def _times(one: Value | None, other: Value | None) -> Value | None:
    if one is None or other is None:
        return other if one is None else one
    return Apply("mul", (one, other), one.dtype)


def _whole(scale: Value, made: Mapping[str, Operation]) -> Value:
    """The scale with what was computed for each row alone in place."""

    def inlined(load: Load) -> Value | None:
        writer = made.get(load.buffer)
        if not isinstance(writer, Pointwise) or writer.index != tuple(map(Int.of, writer.axes)):
            return None
        return Rewriter(dict(zip(writer.axes, load.index, strict=True)))(writer.value)

    return Rewriter({}, inlined)(scale)


def _is_loads(factor: Value, last: Axis, fixed: set[str]) -> bool:
    """True for one element of a row, times elements of fixed weights along it, in float32."""
    loads = [one for one in walk((factor,)) if isinstance(one, Load)]
    rows = [one for one in loads if one.buffer not in fixed]
    if len(rows) != 1 or any(one.dtype is not DType.FLOAT32 for one in loads):
        return False
    return all(
        not indirect_values(one.index) and axes_in(one.index) <= {last}
        for one in loads
        if one is not rows[0]
    ) and not indirect_values(rows[0].index)


def _is_short(value: Value) -> bool:
    """True for a few operators on constants and elements at known addresses."""
    parts = walk((value,))
    loads = [one for one in parts if isinstance(one, Load)]
    if any(indirect_values(one.index) for one in loads):
        return False
    is_plain = all(isinstance(one, (Apply, Const, Load)) for one in parts)
    return is_plain and sum(isinstance(one, Apply) for one in parts) <= MOST_OPS


def _is_read_by(
    rows: Pointwise, statistic: Reduction, program: Program, uses: Uses[Operation]
) -> bool:
    """True if what reads the statistic is the norm, or computed for it alone."""
    for reader in uses.readers.get(statistic.targets[0], ()):
        if reader is rows:
            continue
        if not isinstance(reader, Pointwise) or reader.target in program.results:
            return False
        if any(one is not rows for one in uses.readers.get(reader.target, ())):
            return False
    return statistic.targets[0] not in program.results


def _fits(statistic: Reduction, factor: Value, product: Matmul, rows: Pointwise) -> bool:
    """True for a plain sum over the elements of each row, which the product reads too."""
    (value, *others), inner = statistic.args, statistic.inner
    depth = product.k.extent.constant
    if statistic.kind != "sum" or others or len(inner) != 1 or depth is None:
        return False
    if depth > LONGEST_ROW or not known_equal(inner[0].extent, product.k.extent):
        return False
    if not known_equal(points(statistic.axes), product.m.extent):
        return False
    if value.dtype is not DType.FLOAT32 or not _is_short(value):
        return False
    moved = row_loads(statistic, product)
    return bool(moved) and moved <= {*walk((Rewriter(_places(rows, product))(factor),))}


def row_loads(statistic: Reduction, product: Matmul) -> set[Value]:
    """What a sum over rows loads, with the product's axes m and k."""
    moved = Rewriter(row_binding(statistic, product))
    return {moved(one) for one in walk(statistic.args) if isinstance(one, Load)}


def row_binding(statistic: Reduction, product: Matmul) -> dict[Axis, Int]:
    """The axes of a sum over rows, in the product's axes m and k."""
    return delinearize(statistic.axes, _row(product)) | {statistic.inner[0]: Int.of(product.k)}


def _moved(norm: Norm, buffers: dict[str, Buffer]) -> dict[Operation, tuple[Operation, ...]]:
    """What takes the place of each operation of a norm; declares buffers."""
    changed: dict[Operation, tuple[Operation, ...]] = {norm.rows: (), norm.statistic: ()}
    for number, product in enumerate(norm.products):
        places = _places(norm.rows, product)
        sums = free_name(f"{product.target}_unscaled", buffers)
        made = buffers[product.target]
        buffers[sums] = Buffer(sums, product.operand.accumulator, made.shape)
        wide = replace(product, target=sums, lhs=Rewriter(places)(norm.factor))
        m, n = (Axis(name, axis.extent) for name, axis in zip("mn", product.axes, strict=True))
        index = (Int.of(m), Int.of(n))
        at = Rewriter({product.m: Int.of(m)})
        scale = at(Rewriter(places)(norm.scale))
        value = Apply("mul", (Load(sums, index, product.operand.accumulator), scale), scale.dtype)
        finish = Pointwise(product.target, (m, n), value, index, norm.rows.origin)
        first = (norm.statistic,) if number == 0 else ()
        changed[product] = (wide, *first, finish)
    return changed
