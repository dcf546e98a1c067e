"""Convolutions of any dimension: implicit GEMM, whose left factor is read through the window.

    y[n, c, p] = sum over k of x[n, window(p, k)] * w[c, k],   k = (kernel position, input channel)

With many channels they are the inner digit of k: a step of the sum then reads one kernel position,
and neighbours where channels are innermost in memory. Few channels are the outer digit. Depthwise
convolutions, integers and float64 are direct sums: their products are too thin for tiles, or tensor
cores cannot compute them. Transposed convolutions are products by phases.
"""

from collections.abc import Callable

from aotpack.ir.kernels.access import flatten_index
from aotpack.ir.operations import Pointwise
from aotpack.ir.ops.conditions import range_checks
from aotpack.ir.symbolic.facts import known_le
from aotpack.ir.symbolic.integers import Int, product
from aotpack.ir.values import Value
from aotpack.lower.context import Context, Index, is_empty, points
from aotpack.lower.elementwise.pointwise import result_dtype
from aotpack.lower.linalg.conv_transpose import phased_convolution
from aotpack.lower.linalg.matmul import TENSOR_CORE_TYPES, emit_product, stored_type
from aotpack.lower.linalg.windows import (
    Geometry,
    Steps,
    group_axes,
    has_inner_channels,
    spread,
    window_element,
    write_channels,
)
from aotpack.lower.registry import lowering
from aotpack.lower.reshape import unflatten_index
from aotpack.lower.values import apply, cast, constant, guarded, position
from aotpack.stages import Ref

FEW = 8  # channels of a group, whose products GPUs compute as sums


@lowering("aten.convolution.default")
def convolution(
    c: Context,
    input: Ref,
    weight: Ref,
    bias: Ref | None,
    stride: Steps,
    padding: Steps,
    dilation: Steps,
    transposed: bool,
    output_padding: Steps,
    groups: int,
) -> None:
    """``output_padding`` is already part of the output's shape."""
    dims = c.rank(weight) - 2
    geometry = Geometry(
        spread(stride, dims), spread(padding, dims), spread(dilation, dims), groups, transposed
    )
    _convolve(c, input, weight, bias, geometry)


def _convolve(c: Context, input: Ref, weight: Ref, bias: Ref | None, geometry: Geometry) -> None:
    if not _is_product(c, input, weight, geometry):
        _as_sum(c, input, weight, bias, geometry)
    elif geometry.transposed:
        phased_convolution(c, input, weight, bias, geometry)
    else:
        _as_product(c, input, weight, bias, geometry)


def _is_product(c: Context, input: Ref, weight: Ref, geometry: Geometry) -> bool:
    """True if matrix tiles have enough work, and phases have a kernel of constant size."""
    shapes = (*c.shape(c.result()), *c.shape(weight))
    depthwise = _is_depthwise(c, weight, geometry)
    fits = c.dtype(input) in TENSOR_CORE_TYPES and not is_empty(shapes)
    known = all(size.constant is not None for size in c.shape(weight)[2:])
    return fits and not depthwise and (known or not geometry.transposed)


def _as_product(c: Context, input: Ref, weight: Ref, bias: Ref | None, geometry: Geometry) -> None:
    """A product for each group, with rows for items and output positions, then a gather."""
    batched = c.rank(input) == c.rank(weight)
    result = c.shape(c.result())
    items = result[:1] if batched else ()
    rows = (*items, *result[1 + len(items) :])
    per_group = result[len(items)] // geometry.groups
    channels, *kernel = c.shape(weight)[1:]
    groups = group_axes(geometry)
    operand = c.dtype(input)
    shape = (*groups, product(rows), per_group)
    kept = operand.accumulator if bias is not None else stored_type(operand, result_dtype(c))
    total = c.temporary("product", kept, shape)
    is_lean = geometry.groups > 1 and known_le(per_group, FEW) and known_le(channels, FEW)
    is_moved = (has_inner_channels(channels) or is_lean) and product(kernel).constant != 1
    factor = _reordered(c, weight) if is_moved else weight

    def left(group: Index, m: Int, k: Int) -> Value:
        channel, *offsets = window_element(k, channels, tuple(kernel))
        place = unflatten_index(m, rows)
        source = flatten_index((*group, channel), (*groups, channels))
        conditions, element = _element(c, input, geometry, place, source, tuple(offsets))
        return guarded(conditions, element, constant(0, operand))

    def right(group: Index, k: Int, n: Int) -> Value:
        out = flatten_index((*group, n), (*groups, per_group))
        return c.load(factor, (out, *window_element(k, channels, tuple(kernel))))

    def read(item: Index, group: Index, own: Int, place: Index) -> Value:
        return c.load(total, (*group, flatten_index((*item, *place), rows), own))

    emit_product(c, total, operand, product((channels, *kernel)), left, right)
    write_channels(c, bias, groups, [(size,) for size in rows[len(items) :]], read)


def _reordered(c: Context, weight: Ref) -> Ref:
    """A copy of the weight, in the memory order that its product reads it in."""
    copy = c.temporary("weight", c.dtype(weight), c.shape(weight), unfusable=True)
    c.pointwise(copy, lambda index: c.load(weight, index))
    return copy


def _as_sum(c: Context, input: Ref, weight: Ref, bias: Ref | None, geometry: Geometry) -> None:
    """A sum for each output, with channels as the last axis of the loops: lanes go along them."""
    wide = result_dtype(c).accumulator
    kernel = c.shape(weight)[2:]
    batched = c.rank(input) == len(kernel) + 2
    items, (channels, *spatial) = c.shape(c.result())[: int(batched)], c.shape(c.result())[batched:]
    own_channels = c.shape(input)[int(batched)] // geometry.groups
    total = c.temporary("sum", wide, (*items, *spatial, channels))
    factor = _by_offset(c, weight) if _is_depthwise(c, weight, geometry) else None

    def term(outer: Index, inner: Index) -> tuple[Value, ...]:
        item = outer[:1] if batched else (Int.of(0),)
        place = (*item, outer[-1], *outer[int(batched) : -1])

        def of_weight(index: Index) -> Value:
            if factor is None:
                return c.load(weight, index)
            return c.load(factor, (*index[2:], index[1], index[0]))

        value = _term(c, input, of_weight, geometry, place, inner, own_channels, batched)
        return (value,)

    c.reduction((total,), "sum", (own_channels, *kernel), term)
    axes = c.axes("i", (*items, *spatial, channels))
    index = points(axes)
    value = c.load(total, index)
    if bias is not None:
        value = apply("add", value, cast(c.load(bias, index[-1:]), wide))
    place = (*index[: int(batched)], index[-1], *index[int(batched) : -1])
    stored = cast(value, c.dtype(c.result()))
    c.builder.append(Pointwise(c.computed(c.result()), axes, stored, place, c.origin))


def _is_depthwise(c: Context, weight: Ref, geometry: Geometry) -> bool:
    return geometry.groups > 1 and c.shape(weight)[1].constant == 1


def _by_offset(c: Context, weight: Ref) -> Ref:
    """A copy of a weight with channels innermost, as lanes along channels read it."""
    out, own, *kernel = c.shape(weight)
    copy = c.temporary("weight", c.dtype(weight), (*kernel, own, out), unfusable=True)
    c.pointwise(copy, lambda index: c.load(weight, (index[-1], index[-2], *index[:-2])))
    return copy


def _term(
    c: Context,
    input: Ref,
    weight: Callable[[Index], Value],
    geometry: Geometry,
    place: Index,
    inner: Index,
    own_channels: Int,
    batched: bool,
) -> Value:
    """The product of one input element and one weight; 0 outside the input."""
    item, out_channel, *spatial = place
    channel, *offsets = inner
    out_channels = c.shape(c.result())[int(batched)]
    per_group = out_channels // geometry.groups
    source_channel = out_channel // per_group * own_channels + channel
    lead = (item,) if batched else ()
    conditions, element = _element(
        c, input, geometry, (*lead, *spatial), source_channel, tuple(offsets)
    )
    factor = (
        (source_channel, out_channel % per_group, *offsets)
        if geometry.transposed
        else (out_channel, channel, *offsets)
    )
    wide = result_dtype(c).accumulator
    term = apply("mul", cast(element, wide), cast(weight(factor), wide))
    return guarded(conditions, term, constant(0, wide))


def _element(
    c: Context, input: Ref, geometry: Geometry, place: Index, channel: Int, offsets: Index
) -> tuple[list[Value], Value]:
    """The conditions for an input element to be inside, and the element."""
    lead = len(place) - len(offsets)
    conditions: list[Value] = []
    positions = []
    sizes = c.shape(input)[1 + lead :]
    for dim, (out, offset, size) in enumerate(zip(place[lead:], offsets, sizes, strict=True)):
        found, needed = _input_position(geometry, dim, out, offset, size)
        positions.append(found)
        conditions += needed
    return conditions, c.load(input, (*place[:lead], channel, *positions))


def _input_position(
    geometry: Geometry, dim: int, out: Int, offset: Int, size: Int
) -> tuple[Int, list[Value]]:
    """The input position along one dimension, and the conditions for it to be inside."""
    stride, padding = geometry.stride[dim], geometry.padding[dim]
    reach = offset * geometry.dilation[dim]
    if not geometry.transposed:
        found = out * stride - padding + reach
        return found, range_checks(found, 0, size)
    shifted = out + padding - reach
    found = shifted // stride
    conditions = range_checks(found, 0, size)
    if stride > 1:
        conditions.append(apply("eq", position(shifted % stride), 0))
    return found, conditions


@lowering("aten.conv1d.default", "aten.conv2d.default", "aten.conv3d.default")
@lowering("aten.conv1d.padding", "aten.conv2d.padding", "aten.conv3d.padding")
def convolution_nd(
    c: Context,
    input: Ref,
    weight: Ref,
    bias: Ref | None = None,
    stride: Steps | int = 1,
    padding: Steps | int | str = 0,
    dilation: Steps | int = 1,
    groups: int = 1,
) -> None:
    dims = c.rank(weight) - 2
    dilations = spread(dilation, dims)
    if padding == "valid":
        padding = 0
    if isinstance(padding, str):
        sizes = c.shape(weight)[2:]
        reaches = [d * (int(k) - 1) for d, k in zip(dilations, sizes, strict=True)]
        padding = tuple(reach // 2 for reach in reaches)
    geometry = Geometry(spread(stride, dims), spread(padding, dims), dilations, groups, False)
    _convolve(c, input, weight, bias, geometry)


@lowering(
    "aten.conv_transpose1d.default", "aten.conv_transpose2d.input", "aten.conv_transpose3d.input"
)
def transposed_convolution(
    c: Context,
    input: Ref,
    weight: Ref,
    bias: Ref | None = None,
    stride: Steps | int = 1,
    padding: Steps | int = 0,
    output_padding: Steps | int = 0,
    groups: int = 1,
    dilation: Steps | int = 1,
) -> None:
    dims = c.rank(weight) - 2
    geometry = Geometry(
        spread(stride, dims), spread(padding, dims), spread(dilation, dims), groups, True
    )
    _convolve(c, input, weight, bias, geometry)
