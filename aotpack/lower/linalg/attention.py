"""Attention as one template operation over [batch, head, query, key]."""

import math
from dataclasses import replace

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.access import flatten_index
from aotpack.ir.operations import Attention
from aotpack.ir.symbolic.integers import Axis, Int, product
from aotpack.ir.values import Value
from aotpack.lower.context import Context, Index, Shape, is_empty
from aotpack.lower.linalg.matmul import TENSOR_CORE_TYPES
from aotpack.lower.registry import CannotLower, lowering
from aotpack.lower.reshape import unflatten_index
from aotpack.lower.values import cast, constant
from aotpack.stages import Ref


@lowering("aten.scaled_dot_product_attention.default")
def scaled_dot_product_attention(
    c: Context,
    query: Ref,
    key: Ref,
    value: Ref,
    attn_mask: Ref | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> None:
    """Leading dimensions but the last are the batch; they and the mask's may broadcast."""
    operand = c.dtype(query)
    if dropout_p > 0:
        raise CannotLower("dropout is on; call model.eval() before the build")
    if operand not in TENSOR_CORE_TYPES:
        raise CannotLower(f"{operand} queries are not accepted; float16, bfloat16 and float32 are")
    factor = _scale(c, query) if scale is None else float(scale)
    shape = c.shape(c.result())
    if is_empty((*shape, *c.shape(key))):
        c.pointwise(c.result(), lambda index: constant(0, operand))
        return
    axes = _Axes(c, query, key, shape)
    direct = len(shape) == 4
    target = c.result() if direct else c.temporary("heads", operand, axes.shape)
    operation = _attention(c, target, axes, (query, key, value), factor, enable_gqa)
    mask, bias = _mask_and_bias(c, attn_mask, axes)
    c.builder.append(replace(operation, causal=is_causal, mask=mask, bias=bias))
    if not direct:
        c.pointwise(c.result(), lambda index: c.load(target, axes.packed(index)))


def _attention(
    c: Context,
    target: Ref,
    axes: "_Axes",
    factors: tuple[Ref, Ref, Ref],
    scale: float,
    shared: bool,
) -> Attention:
    """The operation without masks; with grouped queries several heads share a key head."""

    def row(ref: Ref, position: Axis, column: Axis) -> Value:
        place = axes.place
        if shared and place and c.rank(ref) > 2:
            group = axes.head.extent // c.shape(ref)[-3]
            place = (*place[:-1], place[-1] // group)
        return c.broadcast(ref, (*place, Int.of(position), Int.of(column)))

    query, key, value = factors
    return Attention(
        target=c.computed(target),
        batch=axes.batch,
        head=axes.head,
        i=axes.i,
        j=axes.j,
        d=axes.d,
        e=axes.e,
        query=row(query, axes.i, axes.d),
        key=row(key, axes.j, axes.d),
        value=row(value, axes.j, axes.e),
        scale=scale,
        causal=False,
        bias=None,
        mask=None,
        operand=c.dtype(query),
        origin=c.origin,
    )


class _Axes:
    """The axes of the operation, and the leading index of its tensors."""

    def __init__(self, c: Context, query: Ref, key: Ref, shape: Shape) -> None:
        self.lead = shape[:-2]
        heads = self.lead[-1] if self.lead else Int.of(1)
        self.shape = (product(self.lead[:-1]), heads, *shape[-2:])
        self.batch, self.head, self.i, self.e = c.axes("i", self.shape)
        self.j, self.d = c.axes("r", (c.shape(key)[-2], c.shape(query)[-1]))
        before = unflatten_index(Int.of(self.batch), self.lead[:-1])
        self.place: Index = (*before, Int.of(self.head)) if self.lead else ()

    def packed(self, index: Index) -> Index:
        """The index in the 4-d tensor of an element of the result."""
        if not self.lead:
            return (Int.of(0), Int.of(0), *index)
        return (flatten_index(index[:-3], self.lead[:-1]), *index[-3:])


def _scale(c: Context, query: Ref) -> float:
    depth = c.shape(query)[-1]
    if depth.constant is None:
        raise CannotLower(f"the head size {depth} is not a constant, so give the scale")
    return 1.0 / math.sqrt(max(1, depth.constant))


def _mask_and_bias(
    c: Context, attn_mask: Ref | None, axes: _Axes
) -> tuple[Value | None, Value | None]:
    """A bool mask selects keys; a float mask is a bias, added to the logits."""
    if attn_mask is None:
        return None, None
    loaded = c.broadcast(attn_mask, (*axes.place, Int.of(axes.i), Int.of(axes.j)))
    if c.dtype(attn_mask) is DType.BOOL:
        return loaded, None
    return None, cast(loaded, DType.FLOAT32)
