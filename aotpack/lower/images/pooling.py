"""Pooling and resizing: reductions over windows, and nearest-neighbour reads."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.access import flatten_index
from aotpack.ir.ops.conditions import range_checks
from aotpack.ir.ops.reference import Array
from aotpack.ir.rewrite import as_index
from aotpack.ir.symbolic.facts import bounds
from aotpack.ir.symbolic.integers import LARGEST_SIZE, Int, ceil_div, maximum, minimum, product
from aotpack.ir.values import Value
from aotpack.lower.context import Context, Index, Shape
from aotpack.lower.elementwise.pointwise import result_dtype
from aotpack.lower.linalg.windows import Steps, spread
from aotpack.lower.registry import CannotLower, lowering
from aotpack.lower.reshape import unflatten_index
from aotpack.lower.values import apply, cast, constant, guarded, position, where
from aotpack.lower.views.view import emit_view
from aotpack.stages import Arg, Ref

_SMALL = 128
"""Rows and columns of a resized image up to which eager has a kernel of its own."""


def _register_max(dims: int) -> None:
    @lowering(f"aten.max_pool{dims}d.default", f"aten.max_pool{dims}d_with_indices.default")
    def max_pool(
        c: Context,
        self: Ref,
        kernel_size: Steps,
        stride: Steps = (),
        padding: Steps = (0,),
        dilation: Steps = (1,),
        ceil_mode: bool = False,
    ) -> None:
        kernel = spread(kernel_size, dims)
        steps = spread(stride or kernel, dims)
        pads, gaps = spread(padding, dims), spread(dilation, dims)

        def at(outer: Index, inner: Index) -> Index:
            window = zip(outer[-dims:], inner, steps, pads, gaps, strict=True)
            return tuple(o * s - p + r * g for o, r, s, p, g in window)

        plane = c.shape(self)[-dims:]
        _write_maximum(c, self, tuple(map(Int.of, kernel)), at, lambda outer: plane, gaps)


def _write_maximum(
    c: Context,
    self: Ref,
    kernel: Shape,
    at: Callable[[Index, Index], Index],
    ends: Callable[[Index], Index],
    gaps: Steps = (),
) -> None:
    """The largest element of each window and, for a second result, its index in the plane.

    That is the first of equals, but the last NaN. Where all are the lowest number it is the first
    that is no padding; ``gaps`` are the distances of neighbours in a window, 1 by default.
    """
    dims = len(kernel)
    plane = c.shape(self)[-dims:]
    lowest = _lowest(c.dtype(self))

    def args(outer: Index, inner: Index) -> tuple[Value, ...]:
        places = at(outer, inner)
        return (_element(c, self, outer[:-dims], places, ends(outer), lowest),)

    c.reduction((c.result(),), "max", kernel, args)
    if len(c.node.results) == 1:
        return
    shape = c.shape(c.result(1))
    first = c.temporary("argmax", DType.INT64, shape)
    c.reduction((first,), "argmax", kernel, args)
    last = _last_nan(c, shape, kernel, args) if c.dtype(self).is_float else None

    def place(index: Index) -> Value:
        flat = c.load(first, index)
        if last is not None:
            nan = cast(c.load(last, index), DType.INT64)
            flat = where(apply("ge", nan, 0), nan, flat)
        inner = unflatten_index(as_index(flat, product(kernel)), kernel)
        places = zip(at(index, inner), gaps or (1,) * dims, strict=True)
        inside = tuple(maximum(found, found % gap) for found, gap in places)
        return position(flatten_index(inside, plane))

    c.pointwise(c.result(1), place)


def _last_nan(
    c: Context,
    shape: Shape,
    kernel: Shape,
    args: Callable[[Index, Index], tuple[Value, ...]],
) -> Ref:
    """The place in each window of its last NaN, -1 where it has none."""
    is_short = bounds(product(kernel))[1] <= LARGEST_SIZE
    dtype = DType.INT32 if is_short else DType.INT64  # quicker on processors
    last = c.temporary("last_nan", dtype, shape)

    def place(outer: Index, inner: Index) -> tuple[Value, ...]:
        (element,) = args(outer, inner)
        flat = position(flatten_index(inner, kernel), dtype)
        return (where(apply("ne", element, element), flat, constant(-1, dtype)),)

    c.reduction((last,), "max", kernel, place)
    return last


def _lowest(dtype: DType) -> float:
    """The lower bound of the type's elements."""
    if dtype.is_float:
        return float("-inf")
    if not dtype.is_integer:
        raise CannotLower(f"{dtype} tensors are not accepted")
    return 0 if dtype.facts.kind == "uint" else -(1 << (dtype.facts.bits - 1))


def _element(
    c: Context, self: Ref, lead: Index, places: Index, plane: Shape, otherwise: float
) -> Value:
    conditions: list[Value] = []
    for found, size in zip(places, plane, strict=True):
        conditions += range_checks(found, 0, size)
    value = c.load(self, (*lead, *places))
    return guarded(conditions, value, constant(otherwise, value.dtype))


def _register_average(dims: int) -> None:
    @lowering(f"aten.avg_pool{dims}d.default")
    def avg_pool(
        c: Context,
        self: Ref,
        kernel_size: Steps,
        stride: Steps = (),
        padding: Steps = (0,),
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        kernel = spread(kernel_size, dims)
        steps, pads = spread(stride or kernel, dims), spread(padding, dims)
        plane = c.shape(self)[-dims:]

        def starts(outer: Index) -> Index:
            return tuple(o * s - p for o, s, p in zip(outer[-dims:], steps, pads, strict=True))

        def count(outer: Index) -> Int:
            if divisor_override is not None:
                return Int.of(divisor_override)
            lengths = []
            for start, k, size, p in zip(starts(outer), kernel, plane, pads, strict=True):
                end = minimum(start + k, size + p)
                if not count_include_pad:
                    start, end = maximum(start, 0), minimum(end, size)
                lengths.append(end - start)
            return product(lengths)

        def ends(outer: Index) -> Index:
            return plane

        _write_average(c, self, tuple(map(Int.of, kernel)), starts, ends, count)


def _register_adaptive(dims: int) -> None:
    @lowering(f"aten.adaptive_avg_pool{dims}d.default", f"aten._adaptive_avg_pool{dims}d.default")
    def adaptive_avg_pool(c: Context, self: Ref, output_size: Arg) -> None:
        windows = _adaptive(c, self, dims)

        def count(outer: Index) -> Int:
            lengths = zip(windows.starts(outer), windows.ends(outer), strict=True)
            return product(b - a for a, b in lengths)

        _write_average(c, self, windows.longest, windows.starts, windows.ends, count)

    @lowering(f"aten.adaptive_max_pool{dims}d.default")
    def adaptive_max_pool(c: Context, self: Ref, output_size: Arg) -> None:
        windows = _adaptive(c, self, dims)

        def at(outer: Index, inner: Index) -> Index:
            return tuple(s + r for s, r in zip(windows.starts(outer), inner, strict=True))

        _write_maximum(c, self, windows.longest, at, windows.ends)


@dataclass(frozen=True, slots=True)
class Windows:
    """The starts and ends of the windows of adaptive pooling, and the longest window."""

    starts: Callable[[Index], Index]
    ends: Callable[[Index], Index]
    longest: Shape


def _adaptive(c: Context, self: Ref, dims: int) -> Windows:
    """Window o is [o*in//out, ceil((o+1)*in/out)); no window is read where there is none."""
    plane = c.shape(self)[-dims:]
    result = [Int.of(1) if n.constant == 0 else n for n in c.shape(c.result())[-dims:]]

    def starts(outer: Index) -> Index:
        sizes = zip(outer[-dims:], plane, result, strict=True)
        return tuple(o * size // n for o, size, n in sizes)

    def ends(outer: Index) -> Index:
        sizes = zip(outer[-dims:], plane, result, strict=True)
        return tuple(ceil_div((o + 1) * size, n) for o, size, n in sizes)

    longest = tuple(_longest_window(size, n) for size, n in zip(plane, result, strict=True))
    return Windows(starts, ends, longest)


def _longest_window(size: Int, windows: Int) -> Int:
    exact = (size % windows).constant == 0
    return size // windows if exact else ceil_div(size, windows) + 1


def _write_average(
    c: Context,
    self: Ref,
    kernel: Shape,
    starts: Callable[[Index], Index],
    ends: Callable[[Index], Index],
    count: Callable[[Index], Int],
) -> None:
    """The sum of the elements in each window before its end, divided by ``count``."""
    wide = result_dtype(c).accumulator
    divide = "div" if wide.is_float else "truncdiv"
    total = c.temporary("sum", wide, c.shape(c.result()))
    dims = len(kernel)

    def args(outer: Index, inner: Index) -> tuple[Value, ...]:
        places = tuple(s + r for s, r in zip(starts(outer), inner, strict=True))
        return (cast(_element(c, self, outer[:-dims], places, ends(outer), 0), wide),)

    def value(index: Index) -> Value:
        return apply(divide, c.load(total, index), position(count(index), wide))

    c.reduction((total,), "sum", kernel, args)
    c.pointwise(c.result(), value)


def _register_nearest(dims: int) -> None:
    @lowering(f"aten.upsample_nearest{dims}d.vec", f"aten.upsample_nearest{dims}d.default")
    def upsample_nearest(c: Context, input: Ref, output_size: Arg, *scales: Arg) -> None:
        """Output o reads input ``floor(o * step)``, rounded as in eager's kernel."""
        plane, result = c.shape(input)[-dims:], c.shape(c.result())[-dims:]
        given = scales[0] if len(scales) == 1 and isinstance(scales[0], tuple) else scales
        factors = tuple(given or ())
        factors = factors if any(factors) else (None,) * dims
        dtype = DType.FLOAT64 if c.dtype(input) is DType.FLOAT64 else DType.FLOAT32
        is_small = constant(False, DType.BOOL)
        if dims == 2:
            is_small = apply("le", position(result[0] + result[1]), _SMALL)
        sizes = zip(plane, result, factors, strict=True)
        axes = [_Nearest(size, count, f, dtype, is_small) for size, count, f in sizes]

        def mapped(index: Index) -> Index:
            places = zip(axes, index[-dims:], strict=True)
            return (*index[:-dims], *(one.read(out) for one, out in places))

        emit_view(c, input, mapped)


@dataclass(frozen=True, slots=True)
class _Nearest:
    """A dimension of ``count`` elements, each read from the nearest of ``size``.

    The kernel of small images counts in float32, and copies and doubles whatever the factor is.
    """

    size: Int
    count: Int
    factor: object
    dtype: DType
    is_small: Value

    def read(self, out: Int) -> Int:
        """The element that is read."""
        exact = out * self.size // self.count
        if self._is_exact():
            return exact
        found = where(self.is_small, self._rounded(out, DType.FLOAT32), self._rounded(out))
        same, twice = (apply("eq", position(self.count), n * self.size) for n in (1, 2))
        is_own = apply("logical_and", self.is_small, apply("logical_or", same, twice))
        if isinstance(self.factor, float):
            found = where(is_own, position(exact), found)
        return as_index(found, self.size)

    def _rounded(self, out: Int, dtype: DType | None = None) -> Value:
        dtype = dtype or self.dtype
        if isinstance(self.factor, float):
            step = constant(1.0 / self.factor, dtype)
        else:
            step = apply("div", position(self.size, dtype), position(self.count, dtype))
        at = cast(apply("mul", position(out, dtype), step), DType.FLOAT32)
        whole = cast(apply("floor", at), DType.INT64)
        return apply("maximum", apply("minimum", whole, position(self.size - 1)), 0)

    def _is_exact(self) -> bool:
        """True where whole numbers give the same as rounded ones."""
        is_even = (self.count % self.size).constant == 0
        times = (self.count // self.size).constant if is_even else None
        is_small, is_large = (self.is_small == constant(one, DType.BOOL) for one in (True, False))
        if times in (1, 2) and is_small:
            return True
        if times is not None and self.factor in (None, float(times)) and times.bit_count() == 1:
            return True
        size, count = self.size.constant, self.count.constant
        if size is None or count is None:
            return False
        rounded = [self.dtype] * (not is_small) + [DType.FLOAT32] * (not is_large)
        exact = np.arange(count) * size // count
        return all(np.array_equal(self._read(size, count, one), exact) for one in rounded)

    def _read(self, size: int, count: int, dtype: DType) -> Array:
        """The element that is read for each output, as the numbers of a type are rounded."""
        kind = np.float32 if dtype is DType.FLOAT32 else np.float64
        step = kind(1 / self.factor if isinstance(self.factor, float) else kind(size) / kind(count))
        at = np.multiply(np.arange(count), step, dtype=kind).astype(np.float32)
        return np.minimum(np.floor(at).astype(np.int64), size - 1)


for _dims in (1, 2, 3):
    _register_max(_dims)
    _register_average(_dims)
    _register_adaptive(_dims)
    _register_nearest(_dims)
