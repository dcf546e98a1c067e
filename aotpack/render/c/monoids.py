"""The reductions in C: texts that lift elements to states, combine states, and finalise them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aotpack.ir.ops.extremes import NEIGHBOURS


@dataclass(frozen=True, slots=True)
class TwoPass:
    """A monoid as two reductions over elements in cache: quicker than combining states.

    ``first`` is a simple kind. ``middle`` turns its result ``{0}`` and the number of elements
    ``{count}`` into the operand ``{1}`` of ``second``, beside the element ``{0}``. The sum of
    ``second`` is ``{2}`` in ``states``.
    """

    first: str
    middle: str
    second: str
    states: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CMonoid:
    """Texts for one monoid. ``lift`` uses ``{0}`` (the element) and ``{index}`` (int64).

    ``combine`` gives the new states from the states ``a0``... and ``b0``..., after ``locals``;
    ``finalise`` uses ``{0}``... for the states. ``{type}`` and ``{dtype}`` are as in ``operators``,
    and ``{state}`` is the name of the first state's type.
    """

    lift: tuple[str, ...]
    combine: tuple[str, ...]
    finalise: tuple[str, ...]
    locals: tuple[str, ...] = ()
    passes: TwoPass | None = None


def _simple(text: str) -> CMonoid:
    return CMonoid(("{0}",), (text,), ("{0}",))


def _indexed(*, largest: bool, latest: bool, with_value: bool, near: int = 1) -> CMonoid:
    sign, tie = (">" if largest else "<"), (">" if latest else "<")
    place = "{1}" if near == 1 else f"{{1}} / {near} * {near}"
    return CMonoid(
        lift=("{0}", "{index}"),
        locals=(
            "const bool equal = (a0 == b0) | ((a0 != a0) & (b0 != b0));",
            f"const bool beyond = (a0 {sign} b0) | ((a0 != a0) & (b0 == b0));",
            f"const bool take = beyond | (equal & (a1 {tie} b1));",
        ),
        combine=("take ? a0 : b0", "take ? a1 : b1"),
        finalise=("{0}", place) if with_value else (place,),
    )


def _exponential_sum(*finalise: str) -> CMonoid:
    return CMonoid(
        lift=("{0}", "{0} == {0} ? 1 : {0}"),
        locals=(
            "const {type} top = (a0 > b0) | (a0 != a0) ? a0 : b0;",
            "const {type} a = a1 * (a0 == top ? 1 : aot_exp_{dtype}(a0 - top));",
            "const {type} b = b1 * (b0 == top ? 1 : aot_exp_{dtype}(b0 - top));",
        ),
        combine=("top", "a + b"),
        finalise=finalise,
        passes=TwoPass("max", "{0}", "{0} == {1} ? 1 : aot_exp_{dtype}({0} - {1})", ("{1}", "{2}")),
    )


C_MONOIDS: Mapping[str, CMonoid] = {
    "sum": _simple("aot_add_{state}(a0, b0)"),
    "prod": _simple("aot_mul_{state}(a0, b0)"),
    "max": _simple("(a0 > b0) | (a0 != a0) ? a0 : b0"),
    "min": _simple("(a0 < b0) | (a0 != a0) ? a0 : b0"),
    "any": _simple("a0 | b0"),
    "all": _simple("a0 & b0"),
    "xor_sum": _simple("a0 ^ b0"),
    "argmax": _indexed(largest=True, latest=False, with_value=False),
    "argmin": _indexed(largest=False, latest=False, with_value=False),
    "first_max": _indexed(largest=True, latest=False, with_value=True),
    "first_min": _indexed(largest=False, latest=False, with_value=True),
    "near_max": _indexed(largest=True, latest=False, with_value=True, near=NEIGHBOURS),
    "near_min": _indexed(largest=False, latest=False, with_value=True, near=NEIGHBOURS),
    "placed_max": _indexed(largest=True, latest=False, with_value=False),
    "placed_min": _indexed(largest=False, latest=False, with_value=False),
    "cummax": _indexed(largest=True, latest=True, with_value=True),
    "cummin": _indexed(largest=False, latest=True, with_value=True),
    "welford": CMonoid(
        lift=("{0}", "0", "1"),
        locals=(
            "const {type} weight = a2 + b2, share = weight == 0 ? 0 : b2 / weight;",
            "const {type} delta = b0 - a0;",
        ),
        combine=("a0 + delta * share", "a1 + b1 + delta * (delta * a2 * share)", "weight"),
        finalise=("{0}", "{1}"),
        passes=TwoPass(
            "sum",
            "{0} / ({type})aot_max({count}, 1)",
            "({0} - {1}) * ({0} - {1})",
            ("{1}", "{2}", "({type}){count}"),
        ),
    ),
    "logsumexp": _exponential_sum("{0} + aot_log_{dtype}({1})"),
    "softmax": _exponential_sum("{0}", "{0} == INFINITY ? NAN : {1}"),
}
