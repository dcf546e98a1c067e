"""The reductions in Triton: texts that lift elements to states, combine and finalise states."""

from collections.abc import Mapping

from aotpack.render.emit.texts import INTEGERS, LOG2_E, NUMBERS, on
from aotpack.render.triton.contexts import ExponentialContext, SimpleContext
from aotpack.render.triton.extremes import indexed, near, placed
from aotpack.render.triton.monoid import DeviceFunction, TritonMonoid

TEMPLATE = "device_monoids.py.jinja"
ADD_PAIRS = DeviceFunction("add_pairs", TEMPLATE, "add_pairs")
_EXTREMUM = "tl.{0}(a, b, propagate_nan=tl.PropagateNan.ALL)".format


def _simple(name: str, result: str, block: Mapping[str, str] = {}) -> TritonMonoid:
    """A monoid whose state is an element."""
    return TritonMonoid(
        name=name,
        lift=("{0}",),
        combine=DeviceFunction(f"combine_{name}", TEMPLATE, "combine", SimpleContext(name, result)),
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
    combine, group, merge = (
        DeviceFunction(name, TEMPLATE, name)
        for name in ("combine_welford", "group_welford", "merge_welford")
    )
    return TritonMonoid(
        name="welford",
        lift=("{0}", "tl.full({0}.shape, 0, {type})", "tl.full({0}.shape, 1, {type})"),
        combine=combine,
        finalise=("{0}", "{1}"),
        group=group,
        merge=merge,
        counts=True,
    )


def _exponential_sum(name: str, *finalise: str) -> TritonMonoid:
    context = ExponentialContext(name, LOG2_E)

    def function(part: str, *calls: str) -> DeviceFunction:
        return DeviceFunction(f"{part}_{name}", TEMPLATE, f"{part}_exponentials", context, calls)

    return TritonMonoid(
        name=name,
        lift=("{0}", "tl.where({0} == {0}, 1.0, {0})"),
        combine=function("combine"),
        finalise=finalise,
        group=function("group", "max"),
        merge=function("merge", "max"),
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
