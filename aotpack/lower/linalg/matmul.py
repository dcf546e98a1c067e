"""Matrix products: a Matmul into the accumulator's type, and a Pointwise epilogue.

Leading dimensions that only the left factor has are flattened into m. Products with a vector, of
integers and of float64 are reductions: tensor cores do not apply.
"""

from collections.abc import Callable

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.access import flatten_index
from aotpack.ir.operations import Matmul
from aotpack.ir.symbolic.integers import Int, product
from aotpack.ir.values import Value
from aotpack.lower.context import Context, Index, Scalar, is_empty, points
from aotpack.lower.elementwise.pointwise import result_dtype
from aotpack.lower.registry import CannotLower, lowering
from aotpack.lower.reshape import unflatten_index
from aotpack.lower.values import apply, cast
from aotpack.stages import Ref

Factor = Callable[[Index, Int, Int], Value]  # (batch, m, k) or (batch, k, n) -> value
TENSOR_CORE_TYPES = (DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32)


def emit_product(
    c: Context, target: Ref, operand: DType, depth: Int, lhs: Factor, rhs: Factor
) -> None:
    """``target[*batch, m, n] = sum over k < depth of lhs * rhs``.

    8-bit floats are multiplied as bfloat16, which represents all of them.
    """
    operand = DType.BFLOAT16 if operand.is_float8 else operand
    if operand in TENSOR_CORE_TYPES and not is_empty((depth, *c.shape(target))):
        *batch, m, n = c.axes("i", c.shape(target))
        (k,) = c.axes("r", (depth,))
        place = points(tuple(batch))
        left = lhs(place, Int.of(m), Int.of(k))
        right = rhs(place, Int.of(k), Int.of(n))
        name = c.computed(target)
        c.builder.append(Matmul(name, tuple(batch), m, n, k, left, right, operand, c.origin))
        return

    def term(outer: Index, inner: Index) -> tuple[Value, ...]:
        *batch, m, n = outer
        left = cast(lhs(tuple(batch), m, inner[0]), operand.accumulator)
        right = cast(rhs(tuple(batch), inner[0], n), operand.accumulator)
        return (apply("mul", left, right),)

    c.reduction((target,), "sum", (depth,), term)


def _rows_times(c: Context, lhs: Ref, depth: Int, rhs: Factor, bias: Ref | None) -> None:
    """``lhs[..., k] * rhs[k, n] + bias[n]``, with all leading dimensions as rows."""
    lead = c.shape(lhs)[:-1]
    columns = c.shape(c.result())[-1]
    operand = c.dtype(lhs)
    stores = bias is None and _stores(operand, result_dtype(c))
    direct = len(lead) == 1 and stores
    narrow = result_dtype(c) if stores else operand.accumulator
    shape = (product(lead), columns)
    target = c.result() if direct else c.temporary("product", narrow, shape)

    def left(batch: Index, m: Int, k: Int) -> Value:
        return c.load(lhs, (*unflatten_index(m, lead), k) if lead else (k,))

    emit_product(c, target, operand, depth, left, rhs)
    if direct:
        return

    def value(index: Index) -> Value:
        row = flatten_index(index[:-1], lead)
        total = c.load(target, (row, index[-1]))
        if bias is None:
            return total
        return apply("add", total, cast(c.broadcast(bias, index), total.dtype))

    c.pointwise(c.result(), value)


def _stores(operand: DType, result: DType) -> bool:
    """Integer products are summed as int64, those of 8-bit floats as float32."""
    return result is DType.INT64 or (operand.is_float and not operand.is_float8)


def stored_type(operand: DType, result: DType) -> DType:
    """The storage type of a product that becomes a result unchanged."""
    return result if _stores(operand, result) else operand.accumulator


@lowering("aten.linear.default")
def linear(c: Context, input: Ref, weight: Ref, bias: Ref | None = None) -> None:
    depth = c.shape(input)[-1]
    if c.rank(weight) == 1:
        _dot(c, input, weight)
        return
    _rows_times(c, input, depth, lambda batch, k, n: c.load(weight, (n, k)), bias)


@lowering("aten.mm.default", "aten._int_mm.default")
def mm(c: Context, self: Ref, mat2: Ref) -> None:
    depth = c.shape(self)[-1]
    _rows_times(c, self, depth, lambda batch, k, n: c.load(mat2, (k, n)), None)


@lowering("aten.mv.default", "aten.dot.default", "aten.vdot.default")
def _dot(c: Context, self: Ref, other: Ref) -> None:
    """``sum over k of self[..., k] * other[k]``."""
    _vector_product(
        c,
        c.shape(other)[0],
        lambda index, k: c.load(self, (*index, k)),
        lambda index, k: c.load(other, (k,)),
    )


def _vector_product(
    c: Context,
    depth: Int,
    lhs: Callable[[Index, Int], Value],
    rhs: Callable[[Index, Int], Value],
) -> None:
    """A reduction over k of products, in the accumulator's type."""
    wide = result_dtype(c).accumulator

    def term(outer: Index, inner: Index) -> tuple[Value, ...]:
        return (apply("mul", cast(lhs(outer, inner[0]), wide), cast(rhs(outer, inner[0]), wide)),)

    if wide is result_dtype(c).compute:
        c.reduction((c.result(),), "sum", (depth,), term)
        return
    total = c.temporary("sum", wide, c.shape(c.result()))
    c.reduction((total,), "sum", (depth,), term)
    c.pointwise(c.result(), lambda index: c.load(total, index))


@lowering("aten.matmul.default", "aten.bmm.default", "aten.linalg_matmul.default")
def matmul(c: Context, self: Ref, other: Ref) -> None:
    """Leading dimensions broadcast; a vector on either side loses its dimension."""
    depth = c.shape(self)[-1]
    if c.rank(other) == 1:
        _dot(c, self, other)
    elif c.rank(self) == 1:
        _vector_product(
            c,
            depth,
            lambda index, k: c.load(self, (k,)),
            lambda index, k: c.load(other, (*index[:-1], k, index[-1])),
        )
    elif c.rank(other) == 2:
        mm(c, self, other)
    elif _stores(c.dtype(self), result_dtype(c)):
        _batched(c, self, other, c.result())
    else:
        wide = _batched(c, self, other, None)
        c.pointwise(c.result(), lambda index: c.load(wide, index))


def _batched(c: Context, self: Ref, other: Ref, target: Ref | None) -> Ref:
    """The batched product, into ``target`` or else into a new tensor of the accumulator's type."""
    operand = c.dtype(self)
    shape = c.shape(c.result())
    into = target or c.temporary("product", operand.accumulator, shape)

    def left(batch: Index, m: Int, k: Int) -> Value:
        return c.broadcast(self, (*batch, m, k))

    def right(batch: Index, k: Int, n: Int) -> Value:
        return c.broadcast(other, (*batch, k, n))

    emit_product(c, into, operand, c.shape(self)[-1], left, right)
    return into


@lowering("aten.addmm.default", "aten.baddbmm.default", "aten.addmv.default")
def addmm(
    c: Context, self: Ref, mat1: Ref, mat2: Ref, *, beta: Scalar = 1, alpha: Scalar = 1
) -> None:
    """``beta * self + alpha * mat1 @ mat2``; ``self`` is not read where beta is 0."""
    _write_sum(c, self, _product_for_sum(c, mat1, mat2), beta, alpha)


@lowering("aten._scaled_mm.default")
def scaled_mm(
    c: Context,
    self: Ref,
    mat2: Ref,
    scale_a: Ref,
    scale_b: Ref,
    bias: Ref | None = None,
    scale_result: Ref | None = None,
    out_dtype: DType | None = None,
    use_fast_accum: bool = False,
) -> None:
    """``(self @ mat2) * scale_a * scale_b + bias``; scales for a tensor, or each row or column."""
    rows, columns = c.shape(c.result())
    _check_scale(c, "scale_a", scale_a, (rows, Int.of(1)))
    _check_scale(c, "scale_b", scale_b, (Int.of(1), columns))
    if scale_result is not None:
        raise CannotLower("scale_result is not accepted; scale what comes out")
    total = c.temporary("product", DType.FLOAT32, (rows, columns))

    def left(batch: Index, m: Int, k: Int) -> Value:
        return c.load(self, (m, k))

    def right(batch: Index, k: Int, n: Int) -> Value:
        return c.load(mat2, (k, n))

    def scaled(index: Index) -> Value:
        found = apply("mul", c.load(total, index), c.broadcast(scale_a, index))
        found = apply("mul", found, c.broadcast(scale_b, index))
        return found if bias is None else apply("add", found, c.broadcast(bias, index))

    emit_product(c, total, c.dtype(self), c.shape(self)[-1], left, right)
    c.pointwise(c.result(), scaled)


def _check_scale(c: Context, name: str, scale: Ref, whole: Index) -> None:
    """One number, or one for each row or column."""
    dtype, shape = c.dtype(scale), c.shape(scale)
    is_one = len(shape) <= 2 and product(shape).constant == 1
    if dtype is not DType.FLOAT32 or not (is_one or shape == whole):
        raise CannotLower(
            f"{name} is {dtype}[{', '.join(map(str, shape))}]; accepted are float32, one number or "
            f"[{', '.join(map(str, whole))}]"
        )


def _write_sum(c: Context, self: Ref, total: Ref, beta: Scalar, alpha: Scalar) -> None:
    """``beta * self + alpha * total``; integers wrap to the result's type at the end."""

    def value(index: Index) -> Value:
        scaled = c.load(total, index)
        scaled = scaled if alpha == 1 else apply("mul", scaled, alpha)
        if beta == 0:
            return scaled
        added = cast(c.broadcast(self, index), scaled.dtype)
        return apply("add", scaled, added if beta == 1 else apply("mul", added, beta))

    c.pointwise(c.result(), value)


def _product_for_sum(c: Context, mat1: Ref, mat2: Ref) -> Ref:
    if c.rank(mat2) > 1:
        return _batched(c, mat1, mat2, None)
    total = c.temporary("product", c.dtype(mat1).accumulator, c.shape(c.result()))

    wide = c.dtype(mat1).accumulator

    def term(outer: Index, inner: Index) -> tuple[Value, ...]:
        left, right = c.load(mat1, (*outer, *inner)), c.load(mat2, inner)
        return (apply("mul", cast(left, wide), cast(right, wide)),)

    c.reduction((total,), "sum", (c.shape(mat2)[0],), term)
    return total


@lowering("aten.addbmm.default")
def addbmm(
    c: Context, self: Ref, batch1: Ref, batch2: Ref, *, beta: Scalar = 1, alpha: Scalar = 1
) -> None:
    """``beta * self + alpha * sum over b of batch1[b] @ batch2[b]``: one product, b and k deep."""
    batches, _, depth = c.shape(batch1)
    operand = c.dtype(batch1)
    total = c.temporary("product", operand.accumulator, c.shape(c.result()))

    def left(batch: Index, m: Int, k: Int) -> Value:
        b, rest = unflatten_index(k, (batches, depth))
        return c.load(batch1, (b, m, rest))

    def right(batch: Index, k: Int, n: Int) -> Value:
        b, rest = unflatten_index(k, (batches, depth))
        return c.load(batch2, (b, rest, n))

    emit_product(c, total, operand, batches * depth, left, right)
    _write_sum(c, self, total, beta, alpha)


@lowering("aten._trilinear.default")
def trilinear(
    c: Context,
    i1: Ref,
    i2: Ref,
    i3: Ref,
    expand1: tuple[int, ...],
    expand2: tuple[int, ...],
    expand3: tuple[int, ...],
    sumdim: tuple[int, ...],
    unroll_dim: int = 1,
) -> None:
    """The product of three tensors, each with new dimensions at its ``expand``, summed."""
    factors = tuple(zip((i1, i2, i3), (expand1, expand2, expand3), strict=True))
    rank = c.rank(i1) + len(expand1)
    sizes = [Int.of(1)] * rank
    for ref, expand in factors:
        own = [dim for dim in range(rank) if dim not in expand]
        for dim, size in zip(own, c.shape(ref), strict=True):
            sizes[dim] = size if sizes[dim].constant == 1 else sizes[dim]
    wide = result_dtype(c).accumulator

    def term(outer: Index, inner: Index) -> tuple[Value, ...]:
        rest, over = iter(outer), iter(inner)
        place = [next(over) if dim in sumdim else next(rest) for dim in range(rank)]
        values = [
            cast(c.load(ref, tuple(i for d, i in enumerate(place) if d not in expand)), wide)
            for ref, expand in factors
        ]
        return (apply("mul", apply("mul", values[0], values[1]), values[2]),)

    total = c.temporary("sum", wide, c.shape(c.result()))
    c.reduction((total,), "sum", tuple(sizes[dim] for dim in sorted(sumdim)), term)
    c.pointwise(c.result(), lambda index: c.load(total, index))


@lowering("aten.outer.default", "aten.ger.default")
def outer(c: Context, self: Ref, vec2: Ref) -> None:
    def value(index: Index) -> Value:
        common = result_dtype(c)
        left, right = c.load(self, index[:1]), c.load(vec2, index[1:])
        op = "logical_and" if common is DType.BOOL else "mul"
        return apply(op, cast(left, common), cast(right, common))

    c.pointwise(c.result(), value)
