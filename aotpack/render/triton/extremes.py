"""The reductions that find positions, in Triton.

Combining pairs of (value, position) is expensive. In a loop, a block and the lanes of a thread,
values are reduced first, and positions only among the elements that equal the extreme.
"""

from dataclasses import replace

from aotpack.ir.ops.extremes import NEIGHBOURS
from aotpack.render.triton.contexts import ExtremeContext
from aotpack.render.triton.monoid import DeviceFunction, TritonMonoid

TEMPLATE = "device_extremes.py.jinja"


def indexed(name: str, *, largest: bool, latest: bool, with_value: bool) -> TritonMonoid:
    """The extreme element's position; of equals the first, or the latest."""
    extremum = "max" if largest else "min"
    return TritonMonoid(
        name=name,
        lift=("{0}", "{index}"),
        combine=(
            _function("combine", "by_position", name, extremum, ">")
            if latest
            else _function("combine", "later", name, extremum)
        ),
        finalise=("{0}", "{1}") if with_value else ("{1}",),
        group=None if latest else _function("group", "first", name, extremum),
        across=None if latest else _function("across", "", name, extremum),
    )


def near(extremum: str) -> TritonMonoid:
    """The extreme, and the first of its group of aligned neighbours."""
    name = f"near_{extremum}"
    return replace(
        indexed(name, largest=extremum == "max", latest=False, with_value=True),
        finalise=("{0}", f"({{1}} // {NEIGHBOURS} * {NEIGHBOURS})"),
        group=_function("group", "near", name, extremum),
        most_neighbours=NEIGHBOURS,
    )


def placed(extremum: str) -> TritonMonoid:
    """The position given with the extreme, the least of those given with equals."""
    name = f"placed_{extremum}"
    return replace(
        indexed(name, largest=extremum == "max", latest=False, with_value=False),
        combine=_function("combine", "by_position", name, extremum, "<"),
        group=None,
    )


def _function(part: str, way: str, name: str, extremum: str, tie: str = "") -> DeviceFunction:
    """A function of a monoid, by a macro that says how; all but combinations reduce values."""
    context = ExtremeContext(name, extremum, ">" if extremum == "max" else "<", tie)
    macro = f"{part}_{way}" if way else part
    calls = () if part == "combine" else (extremum,)
    return DeviceFunction(f"{part}_{name}", TEMPLATE, macro, context, calls)
