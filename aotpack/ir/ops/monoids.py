"""The reductions: an identity, how an element becomes a state, how states combine, what comes out.

Each part exists twice: as a numpy function, and as Triton text. A schedule (one block, a loop, two
kernels) needs nothing else to know about a kind, so every schedule works for every kind.
"""

from collections.abc import Callable, Mapping

import numpy as np

from aotpack.ir.ops.extremes import indexed, near, placed
from aotpack.ir.ops.monoid import Monoid, Number, States, group, merge, source
from aotpack.ir.ops.reference import Array

LOG2_E = 1.4426950408889634


def _simple(
    name: str,
    identity: Number | str,
    combine: Callable[[Array, Array], Array],
    text: str,
    block: Mapping[str, str],
    kinds: tuple[str, ...] = ("float", "int", "uint"),
) -> Monoid:
    """A monoid whose state is an element."""
    return Monoid(
        name=name,
        states=(None,),
        results=(None,),
        identity=(identity,),
        lift=lambda element, index: (element,),
        combine=lambda a, b: (combine(a[0], b[0]),),
        finalise=lambda states: states,
        lift_triton=("{0}",),
        combine_triton=source(name, "a, b", f"return {text}"),
        finalise_triton=("{0}",),
        block_triton=block,
        kinds=kinds,
    )


def _simple_monoids() -> list[Monoid]:
    numbers, integers = ("float", "int", "uint"), ("int", "uint")
    extremum = "tl.{0}(a, b, propagate_nan=tl.PropagateNan.ALL)".format
    blocks = {  # tl.max and tl.min lose NaN, so floats go by pairs
        "sum": dict.fromkeys(numbers, "tl.sum({0}, {axis})"),
        "max": dict.fromkeys(integers, "tl.max({0}, {axis})"),
        "min": dict.fromkeys(integers, "tl.min({0}, {axis})"),
        "any": {"bool": "(tl.max({0}.to(tl.int32), {axis}) != 0)"},
        "all": {"bool": "(tl.min({0}.to(tl.int32), {axis}) != 0)"},
        "xor_sum": dict.fromkeys(integers, "tl.xor_sum({0}, {axis})"),
    }
    return [
        _simple("sum", 0, np.add, "a + b", blocks["sum"]),
        _simple("prod", 1, np.multiply, "a * b", {}),
        _simple("max", "low", np.maximum, extremum("maximum"), blocks["max"]),
        _simple("min", "high", np.minimum, extremum("minimum"), blocks["min"]),
        _simple("any", False, np.logical_or, "a | b", blocks["any"], ("bool",)),
        _simple("all", True, np.logical_and, "a & b", blocks["all"], ("bool",)),
        _simple("xor_sum", 0, np.bitwise_xor, "a ^ b", blocks["xor_sum"], integers),
    ]


def _combine_welford(a: States, b: States) -> States:
    weight = a[2] + b[2]
    share = b[2] / np.where(weight == 0, 1, weight).astype(weight.dtype)
    delta = b[0] - a[0]
    return a[0] + delta * share, a[1] + b[1] + delta * delta * a[2] * share, weight


def _welford() -> Monoid:
    """Mean and sum of squared differences from it, stable for any mean."""
    return Monoid(
        name="welford",
        states=(None, None, None),
        results=(None, None),
        identity=(0, 0, 0),
        lift=lambda element, index: (element, np.zeros_like(element), np.ones_like(element)),
        combine=_combine_welford,
        finalise=lambda states: states[:2],
        lift_triton=("{0}", "tl.full({0}.shape, 0, {type})", "tl.full({0}.shape, 1, {type})"),
        combine_triton=source(
            "welford",
            "a0, a1, a2, b0, b1, b2",
            "weight = a2 + b2",
            "share = tl.where(weight == 0.0, 0.0, b2 / weight)",
            "delta = b0 - a0",
            "return a0 + delta * share, a1 + b1 + delta * delta * a2 * share, weight",
        ),
        finalise_triton=("{0}", "{1}"),
        group_triton=group(
            "welford",
            "size: tl.constexpr = elements.shape[along]",
            "mean = tl.sum(elements, along) * (1.0 / size)",
            "rest = elements - tl.expand_dims(mean, along)",
            "weight = tl.full(mean.shape, size, mean.dtype)",
            "return mean, tl.sum(rest * rest, along), weight",
        ),
        merge_triton=merge(
            "welford",
            "a0, a1, a2",
            "mean = tl.sum(a0 * (a2 / total), along)",
            "delta = a0 - tl.expand_dims(mean, along)",
            "weight = tl.full(mean.shape, total, mean.dtype)",
            "return mean, tl.sum(a1 + a2 * delta * delta, along), weight",
        ),
        kinds=("float",),
    )


def _combine_logsumexp(a: States, b: States) -> States:
    top = np.maximum(a[0], b[0])

    def scaled(states: States) -> Array:
        equal = states[0] == top
        return states[1] * np.where(equal, 1, np.exp(np.where(equal, 0, states[0] - top)))

    total = scaled(a) + scaled(b)
    return top, total.astype(top.dtype)


def _pair(states: States) -> States:
    top, total = states
    return top, np.where(top == np.inf, np.nan, total).astype(total.dtype)


def _exponential(below: str, result: str) -> tuple[str, ...]:
    """What float32 flushes to zero does not count beside the maximum's 1."""
    return (
        f"if {below}.dtype == tl.float64:",
        f"    {result} = tl.exp({below})",
        "else:",
        f"    {result} = tl.exp2({below} * {LOG2_E})",
    )


_BASE = 'base = tl.where(tl.abs(top) == float("inf"), 0.0, top)'
_GROUPED_EXPONENTIALS = (
    "top = tl.reduce(elements, along, combine_max)",
    _BASE,
    "below = elements - tl.expand_dims(base, along)",
    *_exponential("below", "shares"),
    "return top, tl.sum(shares, along)",
)
_MERGED_EXPONENTIALS = (
    "top = tl.reduce(a0, along, combine_max)",
    _BASE,
    "below = a0 - tl.expand_dims(base, along)",
    *_exponential("below", "shrink"),
    "return top, tl.sum(a1 * shrink, along)",
)


def _exponential_sum(name: str) -> Monoid:
    """The maximum and the sum of exponentials of distances from it, in one walk, without overflow.

    "softmax" gives both (below an infinite maximum there is no sum), "logsumexp" the logarithm of
    the sum of exponentials itself.
    """
    is_pair = name == "softmax"
    return Monoid(
        name=name,
        states=(None, None),
        results=(None, None) if is_pair else (None,),
        identity=("low", 0),
        lift=lambda element, index: (element, np.ones_like(element)),
        combine=_combine_logsumexp,
        finalise=_pair if is_pair else (lambda s: (s[0] + np.log(s[1]),)),
        lift_triton=("{0}", "tl.where({0} == {0}, 1.0, {0})"),
        combine_triton=source(
            name,
            "a0, a1, b0, b1",
            "top = tl.maximum(a0, b0, propagate_nan=tl.PropagateNan.ALL)",
            "below = tl.where(a0 == b0, 0.0, -tl.abs(a0 - b0))",
            *_exponential("below", "shrink"),
            "return top, tl.where(a0 > b0, a1 + b1 * shrink, a1 * shrink + b1)",
        ),
        finalise_triton=(
            ("{0}", 'tl.where({0} == float("inf"), float("nan"), {1})')
            if is_pair
            else ("{0} + libdevice.log({1})",)
        ),
        group_triton=group(name, *_GROUPED_EXPONENTIALS),
        merge_triton=merge(name, "a0, a1", *_MERGED_EXPONENTIALS),
        across_uses=("max",),
        kinds=("float",),
    )


MONOIDS: dict[str, Monoid] = {
    monoid.name: monoid
    for monoid in [
        *_simple_monoids(),
        indexed("argmax", largest=True, latest=False, with_value=False),
        indexed("argmin", largest=False, latest=False, with_value=False),
        indexed("first_max", largest=True, latest=False, with_value=True),
        indexed("first_min", largest=False, latest=False, with_value=True),
        near("max"),
        near("min"),
        placed("max"),
        placed("min"),
        indexed("cummax", largest=True, latest=True, with_value=True),
        indexed("cummin", largest=False, latest=True, with_value=True),
        _welford(),
        _exponential_sum("softmax"),
        _exponential_sum("logsumexp"),
    ]
}
