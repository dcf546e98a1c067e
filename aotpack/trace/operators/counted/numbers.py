"""What calls demand of numbers that are computed from sizes.

Python's integers have no end and no number is divided by 0; numbers of a package have 64 bits. What
is stored in a narrower type must be one of its numbers: eager raises for another one.
"""

import operator
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import fx

from aotpack.ir.symbolic.integers import Int, minimum
from aotpack.trace.operators.counted.demand import Demand, is_some
from aotpack.trace.operators.positions import arguments_of
from aotpack.trace.sizes import Sizes

_CHOICES = ("where.Scalar", "where.ScalarSelf", "where.ScalarOther")
_LARGEST = 2**63 - 2  # a condition has numbers of 64 bits, and compares with one more
_SURE = 2**31  # a coefficient below it, and products of different sizes, leave 64 bits

_STORED = {
    **dict.fromkeys(("full.default", "full_like.default", "new_full.default"), ("fill_value",)),
    **dict.fromkeys(("fill.Scalar", "masked_fill.Scalar", "index_fill.int_Scalar"), ("value",)),
    **dict.fromkeys(("scatter.value", "scatter.value_reduce"), ("value",)),
    **dict.fromkeys(("clamp.default", "clip.default"), ("min", "max")),
    **{f"clamp_{end}.default": (end,) for end in ("min", "max")},
    **dict.fromkeys(_CHOICES, ("self", "other")),
    "scalar_tensor.default": ("s",),
}  # the arguments that become elements of the result, by operator


def demands_of_numbers(node: fx.Node, sizes: Sizes) -> Iterator[Demand]:
    """What a call demands of the numbers among its arguments."""
    if node.target is operator.truediv:
        for number in _integers(node.args, sizes):
            yield from _wide(number)
        for divisor in _integers(node.args[1:], sizes):
            yield Demand(1 - sizes.equal(divisor, Int.of(0)), f"{divisor} != 0")
    if not isinstance(node.target, torch._ops.OpOverload):
        return
    given, kinds = arguments_of(node), node.target._schema.arguments
    numbers = (given[one.name] for one in kinds if str(one.type) in ("number", "Tensor"))
    for number in _integers(numbers, sizes):
        yield from _wide(number)
    name = str(node.target).removeprefix("aten.")
    for number in _integers(map(given.get, _STORED.get(name, ())), sizes):
        yield from _kept(number, node.meta["val"].dtype, is_chosen=name in _CHOICES)


def _integers(arguments: Iterable[Any], sizes: Sizes) -> Iterator[Int]:
    """Those arguments that are computed from sizes; what data or a loop count is none."""
    for one in arguments:
        value = one.meta.get("val") if isinstance(one, fx.Node) else None
        if isinstance(value, torch.SymInt) and sizes.knows(value):
            yield sizes.convert(value)


def _wide(number: Int) -> Iterator[Demand]:
    """An integer of 64 bits. Tensors of several sizes have as many elements: those are right."""
    for monomial, coefficient in number.terms:
        if abs(coefficient) > _SURE or len({*monomial}) < len(monomial):
            yield replace(_between(number, -_LARGEST, _LARGEST), huge=True)
            return


def _kept(number: Int, dtype: torch.dtype, *, is_chosen: bool) -> Iterator[Demand]:
    """A number of the dtype; negative ones become unsigned, as in C, and a choice infinite."""
    if dtype is torch.float16 and is_chosen:
        return
    if dtype is torch.float16:
        yield _between(number, -65504, 65504)
    elif not dtype.is_floating_point and not dtype.is_complex and dtype is not torch.bool:
        info = torch.iinfo(dtype)
        yield _between(number, info.min or -info.max, info.max)


def _between(number: Int, low: int, high: int) -> Demand:
    """1 where ``low <= number <= high``, else 0."""
    left, right = (is_some(one) for one in (number - (low - 1), high + 1 - number))
    shown = ("-2**63", "2**63 - 1") if high == _LARGEST else (low, high)
    return Demand(minimum(left, right), f"{shown[0]} <= {number} <= {shown[1]}")
