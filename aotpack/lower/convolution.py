"""Convolutions as direct sums over input channels and kernel positions, of any dimension."""

from dataclasses import dataclass

from aotpack.ir.integers import Int
from aotpack.ir.nodes import Value
from aotpack.lower.context import Context, Index
from aotpack.lower.pointwise import result_dtype
from aotpack.lower.registry import lowering
from aotpack.lower.values import apply, cast, constant, guarded, inside, position
from aotpack.stages import Ref

Steps = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Geometry:
    """How output positions, kernel positions and input positions belong together."""

    stride: Steps
    padding: Steps
    dilation: Steps
    groups: int
    transposed: bool


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
    """The output's shape holds what ``output_padding`` says."""
    dims = c.rank(weight) - 2
    geometry = Geometry(
        spread(stride, dims), spread(padding, dims), spread(dilation, dims), groups, transposed
    )
    _convolve(c, input, weight, bias, geometry)


def spread(steps: Steps | int, dims: int) -> Steps:
    """One number for each dimension, from one for all or one for each."""
    given = steps if isinstance(steps, tuple) else (steps,)
    return given * dims if len(given) == 1 else given


def _convolve(c: Context, input: Ref, weight: Ref, bias: Ref | None, geometry: Geometry) -> None:
    wide = result_dtype(c).accumulator
    kernel = c.shape(weight)[2:]
    batched = c.rank(input) == len(kernel) + 2
    own_channels = c.shape(input)[int(batched)] // geometry.groups
    total = c.result() if bias is None else c.temporary("sum", wide, c.shape(c.result()))

    def term(outer: Index, inner: Index) -> tuple[Value, ...]:
        place = outer if batched else (Int.of(0), *outer)
        value = _term(c, input, weight, geometry, place, inner, own_channels, batched)
        return (value,)

    c.reduction((total,), "sum", (own_channels, *kernel), term)
    if bias is None:
        return

    def biased(index: Index) -> Value:
        added = c.load(bias, index[int(batched) : int(batched) + 1])
        return apply("add", c.load(total, index), cast(added, wide))

    c.pointwise(c.result(), biased)


def _term(
    c: Context,
    input: Ref,
    weight: Ref,
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
    conditions: list[Value] = []
    positions = []
    sizes = c.shape(input)[1 + int(batched) :]
    for dim, (out, offset, size) in enumerate(zip(spatial, offsets, sizes, strict=True)):
        found, needed = _input_position(geometry, dim, out, offset, size)
        positions.append(found)
        conditions += needed
    lead = (item,) if batched else ()
    element = c.load(input, (*lead, source_channel, *positions))
    factor = (
        (source_channel, out_channel % per_group, *offsets)
        if geometry.transposed
        else (out_channel, channel, *offsets)
    )
    wide = result_dtype(c).accumulator
    product = apply("mul", cast(element, wide), cast(c.load(weight, factor), wide))
    return guarded(conditions, product, constant(0, wide))


def _input_position(
    geometry: Geometry, dim: int, out: Int, offset: Int, size: Int
) -> tuple[Int, list[Value]]:
    """Where the input is read along one dimension, and what must hold for it to be inside."""
    stride, padding = geometry.stride[dim], geometry.padding[dim]
    reach = offset * geometry.dilation[dim]
    if not geometry.transposed:
        found = out * stride - padding + reach
        return found, inside(found, 0, size)
    shifted = out + padding - reach
    found = shifted // stride
    conditions = inside(found, 0, size)
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
