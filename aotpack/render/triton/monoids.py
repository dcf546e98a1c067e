"""The reductions in Triton: texts that lift elements to states, combine and finalise states."""

from collections.abc import Mapping

from aotpack.render.emit.texts import INTEGERS, LOG2_E, NUMBERS, on
from aotpack.render.triton.extremes import indexed, near, placed
from aotpack.render.triton.monoid import TritonMonoid, combination, grouping, merging

_EXTREMUM = "tl.{0}(a, b, propagate_nan=tl.PropagateNan.ALL)".format


def _simple(name: str, text: str, block: Mapping[str, str] = {}) -> TritonMonoid:
    """A monoid whose state is an element."""
    return TritonMonoid(
        name=name,
        lift=("{0}",),
        combine=combination(name, "a, b", f"return {text}"),
        finalise=("{0}",),
        block=block,
    )


def _simple_monoids() -> list[TritonMonoid]:
    """Those with a ``block``; ``tl.max`` and ``tl.min`` lose NaN, so floats go by pairs."""
    return [
        _simple("sum", "a + b", on(NUMBERS, "tl.sum({0}, {axis})")),
        _simple("prod", "a * b"),
        _simple("max", _EXTREMUM("maximum"), on(INTEGERS, "tl.max({0}, {axis})")),
        _simple("min", _EXTREMUM("minimum"), on(INTEGERS, "tl.min({0}, {axis})")),
        _simple("any", "a | b", {"bool": "(tl.max({0}.to(tl.int32), {axis}) != 0)"}),
        _simple("all", "a & b", {"bool": "(tl.min({0}.to(tl.int32), {axis}) != 0)"}),
        _simple("xor_sum", "a ^ b", on(INTEGERS, "tl.xor_sum({0}, {axis})")),
    ]


def _welford() -> TritonMonoid:
    return TritonMonoid(
        name="welford",
        lift=("{0}", "tl.full({0}.shape, 0, {type})", "tl.full({0}.shape, 1, {type})"),
        combine=combination(
            "welford",
            "a0, a1, a2, b0, b1, b2",
            "weight = a2 + b2",
            "share = tl.where(weight == 0.0, 0.0, b2 / weight)",
            "delta = b0 - a0",
            "return a0 + delta * share, a1 + b1 + delta * delta * a2 * share, weight",
        ),
        finalise=("{0}", "{1}"),
        group=grouping(
            "welford",
            "size: tl.constexpr = elements.shape[along]",
            "mean = tl.sum(elements, along) * (1.0 / size)",
            "rest = elements - tl.expand_dims(mean, along)",
            "weight = tl.full(mean.shape, size, mean.dtype)",
            "return mean, tl.sum(rest * rest, along), weight",
        ),
        merge=merging(
            "welford",
            "a0, a1, a2",
            "mean = tl.sum(a0 * (a2 / total), along)",
            "delta = a0 - tl.expand_dims(mean, along)",
            "weight = tl.full(mean.shape, total, mean.dtype)",
            "return mean, tl.sum(a1 + a2 * delta * delta, along), weight",
        ),
    )


def _exponential(below: str, result: str) -> tuple[str, ...]:
    """An exponential where results that flush to zero are negligible beside the maximum's 1."""
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


def _exponential_sum(name: str, *finalise: str) -> TritonMonoid:
    return TritonMonoid(
        name=name,
        lift=("{0}", "tl.where({0} == {0}, 1.0, {0})"),
        combine=combination(
            name,
            "a0, a1, b0, b1",
            "top = tl.maximum(a0, b0, propagate_nan=tl.PropagateNan.ALL)",
            "below = tl.where(a0 == b0, 0.0, -tl.abs(a0 - b0))",
            *_exponential("below", "shrink"),
            "return top, tl.where(a0 > b0, a1 + b1 * shrink, a1 * shrink + b1)",
        ),
        finalise=finalise,
        group=grouping(name, *_GROUPED_EXPONENTIALS),
        merge=merging(name, "a0, a1", *_MERGED_EXPONENTIALS),
        uses=("max",),
    )


TRITON_MONOIDS: Mapping[str, TritonMonoid] = {
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
        _exponential_sum("softmax", "{0}", 'tl.where({0} == float("inf"), float("nan"), {1})'),
        _exponential_sum("logsumexp", "{0} + libdevice.log({1})"),
    ]
}
