"""The reductions: an identity, how an element becomes a state, how states combine, what comes out.

Each part exists twice: as a numpy function, and as Triton text. A schedule (one block, a loop, two
kernels) needs nothing else to know about a kind, so every schedule works for every kind.

Rows S:B3-B7, B15-B17, C:G5-G9, G11, G14.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from aotpack.ir.dtypes import DType
from aotpack.ir.reference import Array

States: TypeAlias = tuple[Array, ...]
Number: TypeAlias = bool | int | float
LAST_INDEX = 2**63 - 1
NEIGHBOURS = 8  # of "near_max": as many 16-bit elements as the widest load has
LOG2_E = 1.4426950408889634


@dataclass(frozen=True, slots=True)
class Monoid:
    """A reduction of one value per element to ``outputs`` results.

    ``states`` and ``results`` name the types, "same" standing for the argument's; ``identity`` has
    one of "low", "high" (the ends of the type) or a number for each state. ``lift`` takes the
    element and its flat position in the reduced axes; with two ``inputs`` the second is the
    position. Texts: ``lift_triton`` uses ``{0}``, ``{index}`` (int64) and ``{type}`` (of the
    element), ``finalise_triton`` the states ``{0}``...; ``combine_triton`` is the source of
    ``combine_<name>(a0, ..., b0, ...)``, a jit function for blocks and for single pairs;
    ``block_triton`` reduces a block along ``{axis}`` better than ``tl.reduce``, for kinds of type
    it is there for. ``group_triton`` is the source of ``group_<name>(elements)``: the states of the
    rows of a tile with less work than lifting each element. It may call ``group_uses``'
    combinations. Kinds whose last state is the position of the first extreme (32 or 64 bits) have
    ``across_triton``, the source of ``across_<name>(a0, a1, axis)``: a reduction of states along a
    dimension, by value before positions are compared; and, if elements come in order,
    ``later_triton``, the source of ``later_<name>(a0, a1, b0, b1)``: a combination where all
    positions of b lie behind those of a; and their ``group_<name>(elements, start)`` takes a tile
    of (steps, lanes, neighbours) in the order of memory, for the state of each lane, with
    positions as if the first of its neighbours in the first step were at ``start``.
    """

    name: str
    states: tuple[DType | None, ...]
    results: tuple[DType | None, ...]
    identity: tuple[Number | str, ...]
    lift: Callable[[Array, Array], States]
    combine: Callable[[States, States], States]
    finalise: Callable[[States], States]
    lift_triton: tuple[str, ...]
    combine_triton: str
    finalise_triton: tuple[str, ...]
    block_triton: Mapping[str, str] = field(default_factory=dict)
    group_triton: str = ""
    group_uses: tuple[str, ...] = ()
    across_triton: str = ""
    later_triton: str = ""
    kinds: tuple[str, ...] = ("float", "int", "uint")
    inputs: int = 1

    @property
    def outputs(self) -> int:
        """The number of targets."""
        return len(self.results)

    @property
    def combine_name(self) -> str:
        """The name of the jit function in ``combine_triton``."""
        return f"combine_{self.name}"

    @property
    def group_name(self) -> str:
        """The name of the jit function in ``group_triton``."""
        return f"group_{self.name}"

    @property
    def across_name(self) -> str:
        """The name of the jit function in ``across_triton``."""
        return f"across_{self.name}"

    @property
    def later_name(self) -> str:
        """The name of the jit function in ``later_triton``."""
        return f"later_{self.name}"

    def accepts(self, dtype: DType) -> bool:
        """True when elements may have this type."""
        return dtype.facts.kind in self.kinds

    def state_dtypes(self, dtype: DType) -> tuple[DType, ...]:
        """The types of the states for elements of ``dtype``."""
        return tuple(own or dtype for own in self.states)

    def result_dtypes(self, dtype: DType) -> tuple[DType, ...]:
        """The types of the results for elements of ``dtype``, before they are stored."""
        return tuple(own or dtype for own in self.results)

    def identities(self, dtype: DType) -> tuple[Number, ...]:
        """The states of no element, as numbers of their types."""
        pairs = zip(self.identity, self.state_dtypes(dtype), strict=True)
        return tuple(_number(value, own) for value, own in pairs)

    def identity_triton(self, dtype: DType) -> tuple[str, ...]:
        """The states of no element, as Triton literals."""
        return tuple(map(literal, self.identities(dtype)))


def literal(value: Number) -> str:
    """A number as Triton text; infinities and NaN by name."""
    if isinstance(value, float) and not np.isfinite(value):
        return f'float("{value}")'
    return repr(value)


def _number(value: Number | str, dtype: DType) -> Number:
    if not isinstance(value, str):
        return float(value) if dtype.is_float else value
    if dtype.is_float:
        return -np.inf if value == "low" else np.inf
    limits = np.iinfo(dtype.facts.numpy or "")
    return int(limits.min if value == "low" else limits.max)


def _source(name: str, parameters: str, *lines: str) -> str:
    return _function(f"combine_{name}", parameters, *lines)


def _group(name: str, *lines: str) -> str:
    return _function(f"group_{name}", "elements", *lines)


def _function(name: str, parameters: str, *lines: str) -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return f"@triton.jit\ndef {name}({parameters}):\n{body}"


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
        combine_triton=_source(name, "a, b", f"return {text}"),
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


def _indexed(name: str, *, largest: bool, latest: bool, with_value: bool) -> Monoid:
    """The extreme element's position: NaN before numbers; of equals the first, or the latest."""
    sign = ">" if largest else "<"
    extremum = "max" if largest else "min"
    tie = ">" if latest else "<"

    def combine(a: States, b: States) -> States:
        a_nan, b_nan = a[0] != a[0], b[0] != b[0]
        beyond = a[0] > b[0] if largest else a[0] < b[0]
        earlier = a[1] > b[1] if latest else a[1] < b[1]
        take = (beyond & ~b_nan) | (a_nan & ~b_nan) | (((a[0] == b[0]) | (a_nan & b_nan)) & earlier)
        return np.where(take, a[0], b[0]), np.where(take, a[1], b[1])

    return Monoid(
        name=name,
        states=(None, DType.INT64),
        results=(None, DType.INT64) if with_value else (DType.INT64,),
        identity=("low" if largest else "high", -1 if latest else LAST_INDEX),
        lift=lambda element, index: (element, index),
        combine=combine,
        finalise=lambda states: states if with_value else states[1:],
        lift_triton=("{0}", "{index}"),
        combine_triton=_source(
            name,
            "a0, a1, b0, b1",
            "equal = (a0 == b0) | ((a0 != a0) & (b0 != b0))",
            f"beyond = (a0 {sign} b0) | ((a0 != a0) & (b0 == b0))",
            f"take = beyond | (equal & (a1 {tie} b1))",
            "return tl.where(take, a0, b0), tl.where(take, a1, b1)",
        ),
        finalise_triton=("{0}", "{1}") if with_value else ("{1}",),
        group_triton="" if latest else _first_extreme(name, extremum),
        group_uses=(extremum,),
        across_triton="" if latest else _across(name, extremum),
        later_triton="" if latest else _later(name, sign),
    )


def _across(name: str, extremum: str) -> str:
    """NaN is the extreme wherever it is, and equal to no element: so NaNs count as found."""
    return _function(
        f"across_{name}",
        "a0, a1, axis: tl.constexpr",
        f"extreme = tl.reduce(a0, axis, combine_{extremum})",
        "whole = extreme if axis == 0 else tl.expand_dims(extreme, axis)",
        "found = (a0 == whole) | (a0 != a0)",
        "last: tl.constexpr = 2**31 - 1 if a1.dtype == tl.int32 else 2**63 - 1",
        "return extreme, tl.min(tl.where(found, a1, last), axis)",
    )


def _first_extreme(name: str, extremum: str) -> str:
    """As ``_across``, for the steps and neighbours of each lane."""
    return _function(
        f"group_{name}",
        "elements, start",
        "steps: tl.constexpr = elements.shape[0]",
        "size: tl.constexpr = elements.shape[2]",
        "step: tl.constexpr = elements.shape[1] * size",
        f"extreme = tl.reduce(tl.reduce(elements, 2, combine_{extremum}), 0, combine_{extremum})",
        "found = (elements == extreme[None, :, None]) | (elements != elements)",
        "place = tl.arange(0, steps)[:, None, None] * step + tl.arange(0, size)[None, None, :]",
        "place = tl.where(found, place, steps * step)",
        "return extreme, start + tl.min(tl.min(place, 2), 0)",
    )


def _first_near(name: str, extremum: str) -> str:
    """As ``_first_extreme``, but for the first of the neighbours instead of the one among them."""
    return _function(
        f"group_{name}",
        "elements, start",
        "steps: tl.constexpr = elements.shape[0]",
        "step: tl.constexpr = elements.shape[1] * elements.shape[2]",
        f"near = tl.reduce(elements, 2, combine_{extremum})",
        f"extreme = tl.reduce(near, 0, combine_{extremum})",
        "found = (near == extreme[None, :]) | (near != near)",
        "place = tl.where(found, tl.arange(0, steps)[:, None] * step, steps * step)",
        "return extreme, start + tl.min(place, 0)",
    )


def _later(name: str, sign: str) -> str:
    """Of equals what came before stays, and so does NaN."""
    return _function(
        f"later_{name}",
        "a0, a1, b0, b1",
        f"take = (a0 == a0) & ((b0 {sign} a0) | (b0 != b0))",
        "return tl.where(take, b0, a0), tl.where(take, b1, a1)",
    )


def _near(extremum: str) -> Monoid:
    """The extreme, and the first of the aligned neighbours among which it is: less to compare."""
    name = f"near_{extremum}"
    first = _indexed(name, largest=extremum == "max", latest=False, with_value=True)
    return replace(
        first,
        finalise=lambda states: (states[0], states[1] - states[1] % NEIGHBOURS),
        finalise_triton=("{0}", f"({{1}} // {NEIGHBOURS} * {NEIGHBOURS})"),
        group_triton=_first_near(name, extremum),
    )


def _placed(extremum: str) -> Monoid:
    """The position given with the extreme, the least of those given with equals."""
    is_max = extremum == "max"
    plain = _indexed(f"placed_{extremum}", largest=is_max, latest=False, with_value=False)
    return replace(plain, inputs=2, group_triton="", later_triton="")


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
        combine_triton=_source(
            "welford",
            "a0, a1, a2, b0, b1, b2",
            "weight = a2 + b2",
            "share = tl.where(weight == 0.0, 0.0, b2 / weight)",
            "delta = b0 - a0",
            "return a0 + delta * share, a1 + b1 + delta * delta * a2 * share, weight",
        ),
        finalise_triton=("{0}", "{1}"),
        group_triton=_group(
            "welford",
            "size: tl.constexpr = elements.shape[1]",
            "mean = tl.sum(elements, 1) * (1.0 / size)",
            "rest = elements - mean[:, None]",
            "weight = tl.full(mean.shape, size, mean.dtype)",
            "return mean, tl.sum(rest * rest, 1), weight",
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


_EXPONENTIALS = (
    "top = tl.reduce(elements, 1, combine_max)",
    'base = tl.where(tl.abs(top) == float("inf"), 0.0, top)',
    "below = elements - base[:, None]",
    "if below.dtype == tl.float64:",
    "    shares = tl.exp(below)",
    "else:  # what this flushes to zero does not count beside the maximum's 1",
    f"    shares = tl.exp2(below * {LOG2_E})",
    "return top, tl.sum(shares, 1)",
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
        combine_triton=_source(
            name,
            "a0, a1, b0, b1",
            "top = tl.maximum(a0, b0, propagate_nan=tl.PropagateNan.ALL)",
            "shrink = tl.exp(tl.where(a0 == b0, 0.0, -tl.abs(a0 - b0)))",
            "return top, tl.where(a0 > b0, a1 + b1 * shrink, a1 * shrink + b1)",
        ),
        finalise_triton=(
            ("{0}", 'tl.where({0} == float("inf"), float("nan"), {1})')
            if is_pair
            else ("{0} + libdevice.log({1})",)
        ),
        group_triton=_group(name, *_EXPONENTIALS),
        group_uses=("max",),
        kinds=("float",),
    )


MONOIDS: dict[str, Monoid] = {
    monoid.name: monoid
    for monoid in [
        *_simple_monoids(),
        _indexed("argmax", largest=True, latest=False, with_value=False),
        _indexed("argmin", largest=False, latest=False, with_value=False),
        _indexed("first_max", largest=True, latest=False, with_value=True),
        _indexed("first_min", largest=False, latest=False, with_value=True),
        _near("max"),
        _near("min"),
        _placed("max"),
        _placed("min"),
        _indexed("cummax", largest=True, latest=True, with_value=True),
        _indexed("cummin", largest=False, latest=True, with_value=True),
        _welford(),
        _exponential_sum("softmax"),
        _exponential_sum("logsumexp"),
    ]
}
