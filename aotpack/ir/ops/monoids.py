"""The table of reductions: the monoid of each kind, in numpy.

Schedules (one block, a loop, two kernels) use only the monoid, so every schedule works for every
kind. The texts of each target language are in ``render/*/monoids.py``.
"""

from collections.abc import Callable

import numpy as np

from aotpack.ir.ops.extremes import indexed, near, placed
from aotpack.ir.ops.monoid import Monoid, Number, States
from aotpack.ir.ops.reference import Array


def _simple(
    name: str,
    identity: Number | str,
    combine: Callable[[Array, Array], Array],
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
        kinds=kinds,
    )


def _simple_monoids() -> list[Monoid]:
    return [
        _simple("sum", 0, np.add),
        _simple("prod", 1, np.multiply),
        _simple("max", "low", np.maximum),
        _simple("min", "high", np.minimum),
        _simple("any", False, np.logical_or, ("bool",)),
        _simple("all", True, np.logical_and, ("bool",)),
        _simple("xor_sum", 0, np.bitwise_xor, ("int", "uint")),
    ]


def _combine_welford(a: States, b: States) -> States:
    weight = a[2] + b[2]
    share = b[2] / np.where(weight == 0, 1, weight).astype(weight.dtype)
    delta = b[0] - a[0]
    return a[0] + delta * share, a[1] + b[1] + delta * (delta * a[2] * share), weight


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


def _exponential_sum(name: str) -> Monoid:
    """The maximum and the sum of exp(x - maximum), in one pass, without overflow.

    "softmax" gives both (the sum is NaN below an infinite maximum), "logsumexp" the logarithm of
    the sum of exp(x).
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
