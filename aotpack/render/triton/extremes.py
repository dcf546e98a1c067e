"""The reductions that find positions, in Triton.

Combining pairs of (value, position) is expensive. In a loop, a block and the lanes of a thread,
values are reduced first, and positions only among the elements that equal the extreme.
"""

from dataclasses import replace

from aotpack.ir.ops.extremes import NEIGHBOURS
from aotpack.render.triton.monoid import TritonMonoid, combination, jit_function


def indexed(name: str, *, largest: bool, latest: bool, with_value: bool) -> TritonMonoid:
    """The position of the extreme element: the first of equals, or the last."""
    sign = ">" if largest else "<"
    extremum = "max" if largest else "min"
    return TritonMonoid(
        name=name,
        lift=("{0}", "{index}"),
        combine=_by_position(name, sign, ">") if latest else _later(name, sign),
        finalise=("{0}", "{1}") if with_value else ("{1}",),
        group="" if latest else _first_extreme(name, extremum),
        across="" if latest else _across(name, extremum),
        uses=(extremum,),
    )


def near(extremum: str) -> TritonMonoid:
    """The extreme, and the first of its group of aligned neighbours."""
    name = f"near_{extremum}"
    return replace(
        indexed(name, largest=extremum == "max", latest=False, with_value=True),
        finalise=("{0}", f"({{1}} // {NEIGHBOURS} * {NEIGHBOURS})"),
        group=_first_near(name, extremum),
        most_neighbours=NEIGHBOURS,
    )


def placed(extremum: str) -> TritonMonoid:
    """The position given with the extreme, the least of those given with equals."""
    name, is_max = f"placed_{extremum}", extremum == "max"
    return replace(
        indexed(name, largest=is_max, latest=False, with_value=False),
        combine=_by_position(name, ">" if is_max else "<", "<"),
        group="",
    )


def _by_position(name: str, sign: str, tie: str) -> str:
    """Of equals the one whose position is smaller or larger, as ``tie`` says."""
    return combination(
        name,
        "a0, a1, b0, b1",
        "equal = (a0 == b0) | ((a0 != a0) & (b0 != b0))",
        f"beyond = (a0 {sign} b0) | ((a0 != a0) & (b0 == b0))",
        f"take = beyond | (equal & (a1 {tie} b1))",
        "return tl.where(take, a0, b0), tl.where(take, a1, b1)",
    )


def _across(name: str, extremum: str) -> str:
    """NaN is the extreme wherever it is, and equal to no element: so NaNs count as found."""
    return jit_function(
        f"across_{name}",
        "a0, a1, axis: tl.constexpr",
        f"extreme = tl.reduce(a0, axis, combine_{extremum})",
        "whole = extreme if axis == 0 else tl.expand_dims(extreme, axis)",
        "found = (a0 == whole) | (a0 != a0)",
        "last: tl.constexpr = 2**31 - 1 if a1.dtype == tl.int32 else 2**63 - 1",
        "return extreme, tl.min(tl.where(found, a1, last), axis)",
    )


def _first_extreme(name: str, extremum: str) -> str:
    """As ``_across``, over the steps and neighbours of each lane."""
    return jit_function(
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
    """As ``_first_extreme``, but gives the first neighbour of the group with the extreme."""
    return jit_function(
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
    """Of equals the earlier state stays, and so does NaN."""
    return combination(
        name,
        "a0, a1, b0, b1",
        f"take = (a0 == a0) & ((b0 {sign} a0) | (b0 != b0))",
        "return tl.where(take, b0, a0), tl.where(take, b1, a1)",
    )
