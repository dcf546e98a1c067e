"""Normalisations: statistics by one reduction, in float32 or float64, then elementwise."""

from aotpack.ir.dtypes import DType
from aotpack.ir.symbolic.integers import Int
from aotpack.ir.values import Value
from aotpack.lower.context import Context, Index, Scalar, Shape
from aotpack.lower.reductions.reduction import Reduced, count_of, over
from aotpack.lower.reductions.variance_norms import elements_of, statistics, write_mean
from aotpack.lower.registry import CannotLower, lowering
from aotpack.lower.values import apply, cast, constant
from aotpack.stages import Ref

EPSILON = {DType.FLOAT32: 2.0**-23, DType.FLOAT64: 2.0**-52}


@lowering("aten.layer_norm.default")
def layer_norm(
    c: Context,
    input: Ref,
    normalized_shape: tuple[Scalar, ...],
    weight: Ref | None = None,
    bias: Ref | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> None:
    _write_layer_norm(c, input, len(normalized_shape), weight, bias, eps, keepdim=False)


@lowering("aten.native_layer_norm.default")
def native_layer_norm(
    c: Context,
    input: Ref,
    normalized_shape: tuple[Scalar, ...],
    weight: Ref | None,
    bias: Ref | None,
    eps: float,
) -> None:
    """Also returns the statistics, with reduced dimensions of size 1."""
    count = len(normalized_shape)
    reduced, mean, m2 = _write_layer_norm(c, input, count, weight, bias, eps, keepdim=True)
    write_mean(c, c.result(1), mean, reduced, elements_of(c, input, reduced))
    c.pointwise(c.result(2), lambda index: _inverse_deviation(c, m2, index, reduced, eps))


def _write_layer_norm(
    c: Context,
    input: Ref,
    count: int,
    weight: Ref | None,
    bias: Ref | None,
    eps: float,
    *,
    keepdim: bool,
) -> tuple[Reduced, Ref, Ref]:
    """Write the first result, over the last ``count`` dimensions; returns mean and spread."""
    reduced = _trailing(c, input, count, keepdim)
    mean, m2 = statistics(
        c, input, reduced, c.shape(c.result(1)) if keepdim else _outer(c, input, reduced)
    )

    def value(index: Index) -> Value:
        kept = reduced.kept(index)
        distance = apply("sub", c.load(input, index), c.load(mean, kept))
        scaled = apply("mul", distance, _inverse_deviation(c, m2, kept, reduced, eps))
        return _affine(c, scaled, weight, bias, index)

    c.pointwise(c.result(), value)
    return reduced, mean, m2


def _trailing(c: Context, ref: Ref, count: int, keepdim: bool = False) -> Reduced:
    rank = c.rank(ref)
    return over(c, ref, tuple(range(rank - count, rank)), keepdim)


def _outer(c: Context, ref: Ref, reduced: Reduced) -> Shape:
    return reduced.kept(c.shape(ref))


def _inverse_deviation(c: Context, m2: Ref, kept: Index, reduced: Reduced, eps: float) -> Value:
    spread = c.load(m2, kept)
    variance = apply("div", spread, count_of(reduced, spread.dtype))
    return apply("rsqrt", apply("add", variance, eps))


def _affine(c: Context, x: Value, weight: Ref | None, bias: Ref | None, index: Index) -> Value:
    """``x * weight + bias``, both optional, broadcast along leading dimensions."""
    if weight is not None:
        x = apply("mul", x, cast(c.broadcast(weight, index), x.dtype))
    if bias is not None:
        x = apply("add", x, cast(c.broadcast(bias, index), x.dtype))
    return x


@lowering("aten.rms_norm.default", "aten._fused_rms_norm.default")
def rms_norm(
    c: Context,
    input: Ref,
    normalized_shape: tuple[Scalar, ...],
    weight: Ref | None = None,
    eps: float | None = None,
) -> None:
    """``eps`` defaults to that of the compute type. A second result is the inverse RMS."""
    fused = len(c.node.results) == 2
    reduced = _trailing(c, input, len(normalized_shape), keepdim=fused)
    wide = c.dtype(input).compute
    squares = c.temporary(
        "squares", wide, reduced.kept(c.shape(input)) if not fused else c.shape(c.result(1))
    )
    epsilon = EPSILON[wide] if eps is None else eps

    def square(outer: Index, inner: Index) -> tuple[Value, ...]:
        return (apply("square", c.load(input, reduced.source(outer, inner))),)

    def scale(kept: Index) -> Value:
        mean = apply("div", c.load(squares, kept), count_of(reduced, wide))
        return apply("rsqrt", apply("add", mean, epsilon))

    def value(index: Index) -> Value:
        scaled = apply("mul", c.load(input, index), scale(reduced.kept(index)))
        return _affine(c, scaled, weight, None, index)

    c.reduction((squares,), "sum", reduced.inner, square)
    c.pointwise(c.result(), value)
    if fused:
        c.pointwise(c.result(1), scale)


@lowering("aten.group_norm.default")
def group_norm(
    c: Context,
    input: Ref,
    num_groups: int,
    weight: Ref | None = None,
    bias: Ref | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> None:
    """Channels are [groups, rest]; a group and all positions are reduced together."""
    shape = c.shape(input)
    rest = shape[1] // num_groups
    wide = c.dtype(input).compute
    stats = (shape[0], Int.of(num_groups))
    mean, m2 = c.temporary("mean", wide, stats), c.temporary("m2", wide, stats)
    reduced = Reduced((), 0, False, (rest, *shape[2:]))

    def element(outer: Index, inner: Index) -> tuple[Value, ...]:
        channel = outer[1] * rest + inner[0]
        return (c.load(input, (outer[0], channel, *inner[1:])),)

    def value(index: Index) -> Value:
        kept = (index[0], index[1] // rest)
        distance = apply("sub", c.load(input, index), c.load(mean, kept))
        scaled = apply("mul", distance, _inverse_deviation(c, m2, kept, reduced, eps))
        return _affine(c, scaled, weight, bias, index[1:2])

    c.reduction((mean, m2), "welford", reduced.inner, element)
    c.pointwise(c.result(), value)
    if len(c.node.results) == 3:
        write_mean(c, c.result(1), mean, reduced, element)
        c.pointwise(c.result(2), lambda index: _inverse_deviation(c, m2, index, reduced, eps))


@lowering("aten.native_group_norm.default")
def native_group_norm(
    c: Context,
    input: Ref,
    weight: Ref | None,
    bias: Ref | None,
    n: Scalar,
    channels: Scalar,
    positions: Scalar,
    group: int,
    eps: float,
) -> None:
    """Also returns mean and inverse deviation, [items, groups]."""
    group_norm(c, input, group, weight, bias, eps)


@lowering("aten.instance_norm.default")
def instance_norm(
    c: Context,
    input: Ref,
    weight: Ref | None,
    bias: Ref | None,
    running_mean: Ref | None,
    running_var: Ref | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
) -> None:
    if not use_input_stats:
        _normalize_channels(c, input, weight, bias, running_mean, running_var, eps)
        return
    reduced = over(c, input, tuple(range(2, c.rank(input))))
    mean, m2 = statistics(c, input, reduced, _outer(c, input, reduced))

    def value(index: Index) -> Value:
        kept = reduced.kept(index)
        distance = apply("sub", c.load(input, index), c.load(mean, kept))
        scaled = apply("mul", distance, _inverse_deviation(c, m2, kept, reduced, eps))
        return _affine(c, scaled, weight, bias, index[1:2])

    c.pointwise(c.result(), value)


@lowering("aten.batch_norm.default")
def batch_norm(
    c: Context,
    input: Ref,
    weight: Ref | None,
    bias: Ref | None,
    running_mean: Ref | None,
    running_var: Ref | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
) -> None:
    if training:
        raise CannotLower("batch norm is in training mode; call model.eval() before the build")
    _normalize_channels(c, input, weight, bias, running_mean, running_var, eps)


@lowering("aten._native_batch_norm_legit_no_training.default")
def batch_norm_no_training(
    c: Context,
    input: Ref,
    weight: Ref | None,
    bias: Ref | None,
    running_mean: Ref,
    running_var: Ref,
    momentum: float,
    eps: float,
) -> None:
    """Also returns the saved statistics, which are empty."""
    _normalize_channels(c, input, weight, bias, running_mean, running_var, eps)
    for output in (1, 2):
        c.pointwise(c.result(output), lambda index: constant(0, c.dtype(input)))


def _normalize_channels(
    c: Context,
    input: Ref,
    weight: Ref | None,
    bias: Ref | None,
    running_mean: Ref | None,
    running_var: Ref | None,
    eps: float,
) -> None:
    """Normalise with stored statistics of each channel; their factor is apart, for it is fixed."""
    if running_mean is None or running_var is None:
        raise CannotLower("without running statistics it depends on the batch")
    wide = c.dtype(input).compute
    factor = c.temporary("factor", wide, c.shape(running_var))

    def scale(channel: Index) -> Value:
        variance = cast(c.load(running_var, channel), wide)
        return _affine(c, apply("rsqrt", apply("add", variance, eps)), weight, None, channel)

    def value(index: Index) -> Value:
        channel = index[1:2]
        distance = apply("sub", c.load(input, index), cast(c.load(running_mean, channel), wide))
        scaled = apply("mul", distance, c.load(factor, channel))
        return _affine(c, scaled, None, bias, channel)

    c.pointwise(factor, scale)
    c.pointwise(c.result(), value)
