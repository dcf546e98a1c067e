"""Positions that sizes alone decide, as those of ``torch.arange(n)`` in a table of 512 rows.

Where they leave the table for an admitted size, eager raises: such a package is not built. Of
numbers in steps of one, both ends of a range tell it; what operators make of them is computed for
sizes near the table's.
"""

import itertools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import fx

from aotpack.errors import UnsupportedError
from aotpack.ir.symbolic.integers import Int, Var, product
from aotpack.trace.operators.position_rules import Inside

_Convert = Callable[[Any], Int]
_Leaves = Callable[[tuple[int, ...]], bool]
_MOST_CORNERS = 4  # sizes whose ends are combined
_MOST_CASES, _MOST_NODES, _MOST_ELEMENTS = 64, 64, 2**16
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


def check_known_positions(rule: Inside, convert: _Convert) -> None:
    """UnsupportedError if positions are known, and for some sizes one is not below the size."""
    if not isinstance(rule.tensor, fx.Node):
        return
    found, rows = _numbers(rule.tensor, convert), convert(rule.size)
    if found is None:
        _check_computed(rule, rows, convert)
        return
    parts = (found.number, found.largest, rows)
    sizes = _sizes_of(parts)
    if sizes is None:
        return

    def leaves_it(values: tuple[int, ...]) -> bool:
        given = {one.name: value for one, value in zip(sizes, values, strict=True)}
        number, largest, most = (part.evaluate(given) for part in parts)
        return bool(number > 0 and largest >= most)

    corners = itertools.product(*((one.low, one.high) for one in sizes))
    if (case := next(filter(leaves_it, corners), None)) is not None:
        raise _leaving(f"go up to {found.largest}, of {rows} rows", sizes, case, leaves_it)


def _check_computed(rule: Inside, rows: Int, convert: _Convert) -> None:
    """The same for what operators compute of sizes."""
    nodes = _of_sizes(rule.tensor)
    if nodes is None:
        return
    low, shapes = convert(rule.low), [_elements(node, convert) for node in nodes]
    numbers = [convert(one.meta["val"]) for node in nodes for one in _numbers_of(node)]
    sizes = _sizes_of([rows, low, *shapes, *numbers])
    if not sizes:
        return

    def leaves_it(values: tuple[int, ...]) -> bool:
        given = {one.name: value for one, value in zip(sizes, values, strict=True)}
        if any(one.evaluate(given) > _MOST_ELEMENTS for one in shapes):
            return False
        try:
            found = _computed(nodes, given, convert)
        except (RuntimeError, IndexError, ValueError):  # sizes that an operator refuses
            return False
        is_inside = (found >= low.evaluate(given)) & (found < rows.evaluate(given))
        return not bool(is_inside.all())

    tried = itertools.product(*(_near(one, rows) for one in sizes))
    case = next(filter(leaves_it, itertools.islice(tried, _MOST_CASES)), None)
    if case is not None:
        raise _leaving(f"leave {rows} rows", sizes, case, leaves_it)


def _sizes_of(parts: Sequence[Int]) -> list[Var] | None:
    """The sizes of which integers are made; None if there are others, or too many."""
    leaves = dict.fromkeys(leaf for part in parts for leaf in part.leaves())
    sizes = [leaf for leaf in leaves if isinstance(leaf, Var)]
    return None if len(sizes) != len(leaves) or len(sizes) > _MOST_CORNERS else sizes


def _near(size: Var, rows: Int) -> list[int]:
    """Sizes at the ends, and near those whose positions fill a table."""
    most = rows.constant or 1
    near = (most // 2 + 1, most - 1, most, most + 1, 2 * most + 1, 4 * most + 3)
    return sorted({n for n in (size.low, *near, size.high) if size.low <= n <= size.high})


def _of_sizes(node: fx.Node) -> list[fx.Node] | None:
    """The operators that compute a tensor from sizes, in order; None if data do."""
    found = dict[fx.Node, None]()
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if one in found:
            continue
        if len(found) == _MOST_NODES or not _is_computed(one):
            return None
        found[one] = None
        waiting += [given for given in one.all_input_nodes if not _is_number(given)]
    return [one for one in node.graph.nodes if one in found]


def _is_computed(node: fx.Node) -> bool:
    """True for a call of an operator that draws no numbers, and for one of its results."""
    if not isinstance(node.meta.get("val"), (torch.Tensor, tuple, list)):
        return False
    if not isinstance(node.target, torch._ops.OpOverload):
        return node.target is operator.getitem
    return torch.Tag.nondeterministic_seeded not in node.target.tags


def _is_number(node: fx.Node) -> bool:
    return isinstance(node.meta.get("val"), (torch.SymInt, int))


def _numbers_of(node: fx.Node) -> Iterator[fx.Node]:
    return (one for one in node.all_input_nodes if _is_number(one))


def _elements(node: fx.Node, convert: _Convert) -> Int:
    """Those of its result, or of the first."""
    value = node.meta["val"]
    first = value if isinstance(value, torch.Tensor) else value[0]
    return product(map(convert, first.shape))


def _computed(
    nodes: Sequence[fx.Node], sizes: Mapping[str, int], convert: _Convert
) -> torch.Tensor:
    """What the last of the operators gives for sizes."""
    found: dict[fx.Node, Any] = {}

    def value(one: fx.Node) -> Any:
        return convert(one.meta["val"]).evaluate(sizes) if _is_number(one) else found[one]

    for node in nodes:
        args, kwargs = fx.map_arg((node.args, node.kwargs), value)
        found[node] = node.target(*args, **kwargs)  # type: ignore[operator]
    result: torch.Tensor = found[nodes[-1]]
    return result


def _leaving(
    how: str, sizes: Sequence[Var], case: tuple[int, ...], leaves_it: _Leaves
) -> UnsupportedError:
    shown = ", ".join(f"{one.name} = {value}" for one, value in zip(sizes, case, strict=True))
    advice = "Declare narrower ranges"
    if len(sizes) == 1:
        most = _most(sizes[0], case[0], leaves_it)
        advice = f"Declare max={most} for {sizes[0].name}" if most else advice
    return UnsupportedError(
        f"its positions {how}: eager raises IndexError where {shown}. {advice}, or give it more "
        "rows"
    )


def _most(size: Var, case: int, leaves_it: _Leaves) -> int | None:
    """The largest size up to which none leaves, where one does and larger ones do."""
    low, high = size.low, case
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
