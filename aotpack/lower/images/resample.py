"""interpolate (linear, cubic) and grid_sample: reads between elements.

The position along a dimension is a float; its taps are integer positions with weights. Positions
are computed in the operand's compute type, as in eager.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from aotpack.ir.dtypes import DType
from aotpack.ir.rewrite import as_index
from aotpack.ir.symbolic.integers import Int
from aotpack.ir.values import Value
from aotpack.lower.context import Context, Index, Shape
from aotpack.lower.elementwise.pointwise import result_dtype
from aotpack.lower.registry import CannotLower, lowering
from aotpack.lower.values import apply, cast, constant, position, where
from aotpack.stages import Arg, Ref

Resize = Callable[[Context, Ref, bool, Sequence[float | None]], None]
"""What resizes a tensor: with corners aligned or not, and a factor or None for each dimension."""

CUBIC = -0.75  # torch's free parameter of the cubic convolution kernel


@dataclass(frozen=True, slots=True)
class Tap:
    """An integer position along one dimension, as an int64 value, and its weight."""

    place: Value
    weight: Value


# --- taps ---------------------------------------------------------------------------------------


def linear_taps(source: Value, step: Value | int = 1) -> tuple[Tap, ...]:
    """Both neighbours, ``step`` from each other."""
    low = apply("floor", source)
    share = apply("sub", source, low)
    first = cast(low, DType.INT64)
    rest = apply("sub", constant(1, source.dtype), share)
    return Tap(first, rest), Tap(apply("add", first, step), share)


def cubic_taps(source: Value) -> tuple[Tap, ...]:
    """Two neighbours on either side."""
    low = apply("floor", source)
    t = apply("sub", source, low)
    first = cast(low, DType.INT64)
    rest = apply("sub", constant(1, source.dtype), t)
    weights = (_outer_weight(t, rest), _inner_weight(t, rest), _inner_weight(rest, t))
    shares = (*weights, _outer_weight(rest, t))
    return tuple(Tap(apply("add", first, k - 1), share) for k, share in enumerate(shares))


def _inner_weight(x: Value, rest: Value) -> Value:
    """``(a + 2) x**3 - (a + 3) x**2 + 1`` at a distance x up to 1; ``rest`` is 1 - x.

    The product form keeps the relative accuracy of the weight; torch's sums cancel.
    """
    slope = apply("sub", constant(1, x.dtype), apply("mul", x, CUBIC + 2))
    return apply("mul", rest, apply("add", apply("mul", x, slope), 1.0))


def _outer_weight(beyond: Value, rest: Value) -> Value:
    """``a x**3 - 5 a x**2 + 8 a x - 4 a`` at x = 1 + ``beyond`` = 2 - ``rest``."""
    return apply("mul", apply("mul", beyond, CUBIC), apply("square", rest))


def _bounded(place: Value, size: Int) -> Value:
    return apply("maximum", apply("minimum", place, position(size - 1)), 0)


def _weighted_sum(
    taps: Sequence[Sequence[Tap]], element: Callable[[tuple[Value, ...]], Value]
) -> Value:
    """The elements at all combinations of taps; inner dimensions are summed first."""

    def along(dim: int, places: tuple[Value, ...]) -> Value:
        if dim == len(taps):
            return element(places)
        parts = [
            apply("mul", along(dim + 1, (*places, tap.place)), tap.weight) for tap in taps[dim]
        ]
        total = parts[0]
        for part in parts[1:]:
            total = apply("add", total, part)
        return total

    return along(0, ())


# --- resizing -----------------------------------------------------------------------------------


def step_of(
    size: Int, count: Int, align: bool, factor: float | None, dtype: DType, *, copies: bool = True
) -> Value:
    """The step in the source for one step of the result.

    What ``copies`` takes as many elements as there are one by one, whatever the factor is.
    """
    if align:
        whole = position(size - 1, dtype)
        gaps = apply("maximum", position(count - 1, dtype), 1.0)
        return where(apply("gt", position(count), 1), apply("div", whole, gaps), 0.0)
    if factor is not None and factor > 0:
        step = constant(1.0 / factor, dtype)
        return where(_copies(size, count), 1.0, step) if copies and _may_copy(factor) else step
    return apply("div", position(size, dtype), position(count, dtype))


def _may_copy(factor: float | None) -> bool:
    """Whether there may be as many elements as there are: others give fewer, or twice as many."""
    return factor is None or factor <= 0 or 1 < factor < 2


def _copies(size: Int, count: Int) -> Value:
    return apply("eq", position(count), size)


def _linear_taps(
    out: Int, size: Int, count: Int, source: Value, factor: float | None
) -> tuple[Tap, ...]:
    """Both neighbours; the same one twice where elements are copied, as eager has it.

    So an infinity, which becomes NaN, spreads to no neighbour.
    """
    if (count - size).constant == 0:
        return tuple(Tap(position(out), constant(n, source.dtype)) for n in (1, 0))
    may_copy = (count - size).constant is None and _may_copy(factor)
    return linear_taps(source, where(_copies(size, count), position(0), 1) if may_copy else 1)


def _source(out: Int, scale: Value, align: bool, *, clamped: bool) -> Value:
    step = position(out, scale.dtype)
    if align:
        return apply("mul", step, scale)
    found = apply("sub", apply("mul", apply("add", step, 0.5), scale), 0.5)
    return apply("maximum", found, 0.0) if clamped else found


def _resize(
    c: Context, input: Ref, align: bool, factors: Sequence[float | None], *, cubic: bool
) -> None:
    dtype = c.dtype(input)
    if not dtype.is_float:
        raise CannotLower(f"{dtype} tensors are not accepted; float types are")
    dims = len(factors)
    plane, result = c.shape(input)[-dims:], c.shape(c.result())[-dims:]

    def value(index: Index) -> Value:
        taps = []
        for out, size, count, factor in zip(index[-dims:], plane, result, factors, strict=True):
            scale = step_of(size, count, align, factor, dtype, copies=not cubic)
            source = _source(out, scale, align, clamped=not cubic)
            linear = partial(_linear_taps, out, size, count, factor=factor)
            taps.append(cubic_taps(source) if cubic else linear(source))

        def element(places: tuple[Value, ...]) -> Value:
            found = zip(places, plane, strict=True)
            where_ = tuple(as_index(_bounded(place, size), size) for place, size in found)
            return c.load(input, (*index[:-dims], *where_))

        return _weighted_sum(taps, element)

    c.pointwise(c.result(), value)


def register_resize(operator: str, dims: int, resize: Resize) -> None:
    """Register the two overloads of a resizing of the last ``dims`` dimensions."""

    @lowering(f"{operator}.default")
    def sizes(
        c: Context, self: Ref, output_size: Arg, align_corners: bool, *scales: float | None
    ) -> None:
        missing = dims - len(scales)  # torch omits trailing None
        resize(c, self, align_corners, (*scales, *(None,) * missing))

    @lowering(f"{operator}.vec")
    def vector(
        c: Context,
        input: Ref,
        output_size: Arg,
        align_corners: bool,
        scale_factors: tuple[float, ...] | None = None,
    ) -> None:
        resize(c, input, align_corners, scale_factors or (None,) * dims)


register_resize("aten.upsample_linear1d", 1, partial(_resize, cubic=False))
register_resize("aten.upsample_bilinear2d", 2, partial(_resize, cubic=False))
register_resize("aten.upsample_trilinear3d", 3, partial(_resize, cubic=False))
register_resize("aten.upsample_bicubic2d", 2, partial(_resize, cubic=True))


# --- grids --------------------------------------------------------------------------------------

BILINEAR, NEAREST, BICUBIC = range(3)
ZEROS, BORDER, REFLECTION = range(3)


@lowering("aten.grid_sampler_2d.default", "aten.grid_sampler_3d.default")
def grid_sampler(
    c: Context,
    input: Ref,
    grid: Ref,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
) -> None:
    """Grid points are (x, y) or (x, y, z) in [-1, 1], for each element of the result's plane."""
    dims = c.rank(input) - 2
    plane = c.shape(input)[-dims:]
    wide = result_dtype(c).compute
    if interpolation_mode == BICUBIC and dims != 2:
        raise CannotLower("cubic sampling is accepted of two-dimensional planes alone")

    def padded(coordinate: Value, size: Int) -> Value:
        return _padded(coordinate, size, padding_mode, align_corners)

    def value(index: Index) -> Value:
        item, channel, *place = index
        taps = []
        for dim, size in enumerate(plane):
            raw = c.load(grid, (item, *place, Int.of(dims - 1 - dim)))
            source = _unnormalized(cast(raw, wide), size, align_corners)
            taps.append(_grid_taps(source, size, interpolation_mode, padded))
        read = partial(_grid_element, c, input, (item, channel), plane)
        return _weighted_sum(taps, read)

    c.pointwise(c.result(), value)


def _grid_taps(
    source: Value, size: Int, mode: int, padded: Callable[[Value, Int], Value]
) -> tuple[Tap, ...]:
    """Cubic taps are padded one by one; for other modes the position is padded."""
    one = constant(1, source.dtype)
    if mode == NEAREST:
        return (Tap(cast(apply("round", padded(source, size)), DType.INT64), one),)
    if mode == BILINEAR:
        return linear_taps(padded(source, size))
    low = apply("floor", source)
    moved = [padded(apply("add", low, float(k - 1)), size) for k in range(4)]
    found = zip(moved, cubic_taps(source), strict=True)
    return tuple(Tap(cast(place, DType.INT64), tap.weight) for place, tap in found)


def _grid_element(
    c: Context, input: Ref, lead: Index, plane: Shape, places: tuple[Value, ...]
) -> Value:
    """The element, or 0 outside the plane."""
    bounded = [_bounded(place, size) for place, size in zip(places, plane, strict=True)]
    where_ = tuple(as_index(place, size) for place, size in zip(bounded, plane, strict=True))
    found = c.load(input, (*lead, *where_))
    for place, inside in zip(places, bounded, strict=True):
        found = where(apply("eq", place, inside), found, constant(0, found.dtype))
    return found


def _unnormalized(coordinate: Value, size: Int, align: bool) -> Value:
    """From [-1, 1] to positions: -1 and 1 are the outer elements' centres, or their edges."""
    moved = apply("add", coordinate, 1.0)
    if align:
        return apply("mul", apply("mul", moved, 0.5), position(size - 1, moved.dtype))
    scaled = apply("mul", moved, position(size, moved.dtype))
    return apply("mul", apply("sub", scaled, 1.0), 0.5)


def _padded(coordinate: Value, size: Int, mode: int, align: bool) -> Value:
    """A position inside of the plane; that of a NaN is 0, as torch has it."""
    if mode == ZEROS:
        return coordinate
    if mode == REFLECTION:
        low, high = (Int.of(0), 2 * (size - 1)) if align else (Int.of(-1), 2 * size - 1)
        coordinate = _reflected(coordinate, low, high)
    last = position(size - 1, coordinate.dtype)
    inside = apply("minimum", apply("maximum", coordinate, 0.0), last)
    return where(apply("isnan", coordinate), constant(0, coordinate.dtype), inside)


def _reflected(coordinate: Value, twice_low: Int, twice_high: Int) -> Value:
    """Reflect a coordinate between two bounds, which are given doubled."""
    if (twice_high - twice_low).constant == 0:
        return apply("mul", position(0, coordinate.dtype), coordinate)
    low = apply("mul", position(twice_low, coordinate.dtype), 0.5)
    span = apply("mul", position(twice_high - twice_low, coordinate.dtype), 0.5)
    distance = apply("abs", apply("sub", coordinate, low))
    extra = apply("fmod", distance, span)
    flips = apply("floor", apply("div", distance, span))
    odd = apply("ne", apply("fmod", flips, 2.0), 0.0)
    back = apply("add", apply("sub", span, extra), low)
    return where(odd, back, apply("add", extra, low))
