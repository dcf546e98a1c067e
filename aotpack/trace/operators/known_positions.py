"""Positions that sizes alone decide, as those of ``torch.arange(n)`` in a table of 512 rows.

Where they leave the table for an admitted size, eager raises: such a package is not built.
"""

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import fx

from aotpack.errors import UnsupportedError
from aotpack.ir.symbolic.integers import Int, Var

_Convert = Callable[[Any], Int]
_MOST_CORNERS = 4  # sizes whose ends are combined
_ATEN = torch.ops.aten
_ARANGES = (_ATEN.arange.default, _ATEN.arange.start, _ATEN.arange.start_step)
_SAME_NUMBERS = frozenset(
    f"aten.{name}"
    for name in """
    _to_copy _unsafe_view alias clone contiguous detach expand flatten permute reshape
    squeeze to transpose unsqueeze view
    """.split()
)  # an operator's tensor in another shape


class _Numbers(NamedTuple):
    """So many numbers in steps of one, the last of which is the largest."""

    number: Int
    largest: Int


def check_known_positions(positions: Any, size: Any, convert: _Convert) -> None:
    """UnsupportedError if ``positions`` are known, and for some sizes one is not below ``size``."""
    found = _numbers(positions, convert) if isinstance(positions, fx.Node) else None
    if found is None:
        return
    rows = convert(size)
    parts = (found.number, found.largest, rows)
    leaves = dict.fromkeys(leaf for part in parts for leaf in part.leaves())
    sizes = [leaf for leaf in leaves if isinstance(leaf, Var)]
    if len(sizes) != len(leaves) or len(sizes) > _MOST_CORNERS:
        return

    def leaves_it(values: tuple[int, ...]) -> bool:
        given = {one.name: value for one, value in zip(sizes, values, strict=True)}
        number, largest, most = (part.evaluate(given) for part in parts)
        return bool(number > 0 and largest >= most)

    corners = itertools.product(*((one.low, one.high) for one in sizes))
    case = next(filter(leaves_it, corners), None)
    if case is None:
        return
    shown = ", ".join(f"{one.name} = {value}" for one, value in zip(sizes, case, strict=True))
    advice = "Declare narrower ranges"
    if len(sizes) == 1:
        most = _most(sizes[0], leaves_it)
        advice = f"Declare max={most} for {sizes[0].name}" if most else advice
    raise UnsupportedError(
        f"its positions go up to {found.largest}, of {rows} rows: eager raises IndexError where "
        f"{shown}. {advice}, or give it more rows"
    )


def _most(size: Var, leaves_it: Callable[[tuple[int, ...]], bool]) -> int | None:
    """The largest size up to which none leaves, where larger ones do."""
    low, high = size.low, size.high
    if leaves_it((low,)):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if leaves_it((middle,)) else (middle, high)
    return low


def _numbers(node: fx.Node, convert: _Convert) -> _Numbers | None:
    """What is known of a tensor's elements."""
    if node.target in _ARANGES:
        return _range(node, convert)
    name = str(node.target).rpartition(".")[0]
    if name in _SAME_NUMBERS and isinstance(node.args[0], fx.Node):
        return _numbers(node.args[0], convert)
    if node.target in (_ATEN.add.Tensor, _ATEN.add.Scalar) and node.kwargs.get("alpha", 1) == 1:
        first, offset = node.args[:2]
        moved = offset.meta["val"] if isinstance(offset, fx.Node) else offset
        found = _numbers(first, convert) if isinstance(first, fx.Node) else None
        if found and isinstance(moved, (int, torch.SymInt)):
            return found._replace(largest=found.largest + convert(moved))
    return None


def _range(node: fx.Node, convert: _Convert) -> _Numbers | None:
    given = [one.meta["val"] if isinstance(one, fx.Node) else one for one in node.args]
    begin, end = (0, given[0]) if len(given) == 1 else given[:2]
    step = given[2] if len(given) > 2 else 1
    if step != 1 or not all(isinstance(one, (int, torch.SymInt)) for one in (begin, end)):
        return None
    return _Numbers(convert(end) - convert(begin), convert(end) - 1)
