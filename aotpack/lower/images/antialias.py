"""Antialiased resizing of planes: a result is a weighted mean of the source pixels it covers.

Along each dimension, result i has its centre at (i + 1/2) scale in the source; it is the mean of
the positions within ``support`` of it, weighted by a filter as wide as the step (one position at
least). Dimensions are resized one after the other, the last first. (P. Heckbert,
"Fundamentals of texture mapping and image warping", 1989; the cubic is Keys', 1981, with a = -1/2;
C. Duchon, "Lanczos filtering in one and two dimensions", 1979.)
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from aotpack.ir.dtypes import DType
from aotpack.ir.rewrite import as_index
from aotpack.ir.symbolic.integers import Int
from aotpack.ir.values import Value
from aotpack.lower.context import Context, Index, is_empty
from aotpack.lower.images.resample import register_resize, step_of
from aotpack.lower.registry import CannotLower
from aotpack.lower.values import apply, cast, constant, guarded, position, where
from aotpack.lower.views.view import replaced
from aotpack.stages import Ref

Filter = Callable[[Value], Value]
CUBIC = -0.5


def _triangle(x: Value) -> Value:
    """``1 - |x|`` up to 1."""
    return apply("maximum", apply("sub", constant(1, x.dtype), apply("abs", x)), 0.0)


def _cubic(x: Value) -> Value:
    """Keys' convolution kernel, 0 from 2 on."""
    size = apply("abs", x)
    square = apply("square", size)
    inner = apply("sub", apply("mul", size, CUBIC + 2), CUBIC + 3)
    inner = apply("add", apply("mul", inner, square), 1.0)
    outer = apply("mul", apply("sub", size, 5.0), size)
    outer = apply("mul", apply("sub", apply("mul", apply("add", outer, 8.0), size), 4.0), CUBIC)
    far = where(apply("lt", size, 2.0), outer, constant(0, x.dtype))
    return where(apply("lt", size, 1.0), inner, far)


def _lanczos(x: Value) -> Value:
    """``sinc(x) sinc(x / 3)``, 0 from 3 on."""
    angle = apply("mul", x, math.pi)
    third = apply("div", angle, 3.0)
    waves = apply("mul", apply("sin", angle), apply("sin", third))
    weight = apply("div", waves, apply("mul", angle, third))
    near = where(apply("lt", apply("abs", x), 3.0), weight, constant(0, x.dtype))
    return where(apply("eq", x, 0.0), constant(1, x.dtype), near)


def _most_taps(size: Int, count: Int, align: bool, factor: float | None, reach: float) -> Int:
    """The most positions in the window of a result."""
    if not align and factor is not None and factor > 0:
        step = 1.0 / factor
    elif size.constant is None or count.constant is None:
        return _dynamic_taps(size, count, align, reach)
    elif align:
        step = (size.constant - 1) / max(count.constant - 1, 1)
    else:
        step = size.constant / count.constant
    return Int.of(2 * math.ceil(reach * max(step, 1.0)) + 1)


def _dynamic_taps(size: Int, count: Int, align: bool, reach: float) -> Int:
    """As many as a whole step has, of dynamic sizes."""
    if count.constant is None:
        raise CannotLower(
            f"a dimension goes from {size} to {count} elements; accepted are constant sizes of "
            "results, a scale factor with corners that are not aligned, or antialias=False"
        )
    steps = max(count.constant - 1, 1) if align else count.constant
    return ((size + steps - 1) // steps) * (2 * math.ceil(reach)) + 1


@dataclass(frozen=True, slots=True)
class _Windows:
    """The windows along a dimension of ``size`` elements, of at most ``most`` positions."""

    size: Int
    step: Value
    reach: float
    most: Int
    form: Filter

    def at(self, out: Int) -> tuple[Value, Value, Value]:
        """The centre of a window, its first position, and the one after its last."""
        wide = self.step.dtype
        support = apply("mul", apply("maximum", self.step, 1.0), self.reach)
        centre = apply("mul", self.step, apply("add", position(out, wide), 0.5))
        low = cast(apply("add", apply("sub", centre, support), 0.5), DType.INT64)
        high = cast(apply("add", apply("add", centre, support), 0.5), DType.INT64)
        return centre, apply("maximum", low, 0), apply("minimum", high, position(self.size))

    def weight(self, out: Int, tap: Int) -> Value:
        """The weight of one position, before normalisation."""
        wide = self.step.dtype
        centre, low, high = self.at(out)
        place = apply("add", low, position(tap))
        distance = apply("add", apply("sub", cast(place, wide), centre), 0.5)
        inverse = apply("reciprocal", apply("maximum", self.step, 1.0))
        weight = self.form(apply("mul", distance, inverse))
        return where(apply("lt", place, high), weight, constant(0, wide))


def _weight_table(c: Context, count: Int, windows: _Windows) -> Ref:
    """The table of normalised weights for each result."""
    wide, most = windows.step.dtype, windows.most
    total = c.temporary("total", wide, (count,))
    c.reduction((total,), "sum", (most,), lambda at, tap: (windows.weight(at[0], tap[0]),))
    weights = c.temporary("share", wide, (count, most))
    c.pointwise(weights, lambda at: apply("div", windows.weight(*at), c.load(total, at[:1])))
    return weights


def _resized(c: Context, source: Ref, dim: int, count: Int, windows: _Windows) -> Ref:
    """The tensor with one dimension resized, in the compute type."""
    wide, size = windows.step.dtype, windows.size
    weights = _weight_table(c, count, windows)
    result = c.temporary("resized", wide, replaced(c.shape(source), dim, count))

    def term(at: Index, tap: Index) -> tuple[Value, ...]:
        _, low, high = windows.at(at[dim])
        place = apply("add", low, position(tap[0]))
        within = as_index(apply("minimum", place, apply("sub", position(size), 1)), size)
        element = c.load(source, replaced(at, dim, within))
        inside = apply("lt", place, high)  # positions outside have no influence, even NaN
        used = guarded([inside], cast(element, wide), constant(0, wide))
        return (apply("mul", used, c.load(weights, (at[dim], tap[0]))),)

    c.reduction((result,), "sum", (windows.most,), term)
    return result


def _resize(
    c: Context,
    input: Ref,
    align: bool,
    factors: Sequence[float | None],
    *,
    reach: float,
    form: Filter,
) -> None:
    dtype = c.dtype(input)
    if not dtype.is_float:
        raise CannotLower(f"{dtype} tensors are not accepted; float types are")
    found, shape = input, c.shape(c.result())
    for dim in (3, 2) if not is_empty(shape) else ():
        size, count, factor = c.shape(input)[dim], shape[dim], factors[dim - 2]
        most = _most_taps(size, count, align, factor, reach)
        step = step_of(size, count, align, factor, dtype)
        found = _resized(c, found, dim, count, _Windows(size, step, reach, most, form))
    c.pointwise(c.result(), lambda index: c.load(found, index))


register_resize("aten._upsample_bilinear2d_aa", 2, partial(_resize, reach=1.0, form=_triangle))
register_resize("aten._upsample_bicubic2d_aa", 2, partial(_resize, reach=2.0, form=_cubic))
register_resize("aten._upsample_lanczos2d_aa", 2, partial(_resize, reach=3.0, form=_lanczos))
