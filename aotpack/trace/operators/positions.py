"""Arguments that are positions or counts, and what eager accepts: for ``--check-indices``."""

import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import guard_or_false, statically_known_true

from aotpack.trace.operators.position_rules import Begins, Inside, Ordered, Rule, Total

_Arguments: TypeAlias = Mapping[str, Any]
_Finder: TypeAlias = Callable[[_Arguments], Iterator[Rule]]

_KEEPING = frozenset(
    f"aten.{name}"
    for name in """
    _local_scalar_dense _to_copy _unsafe_view add alias atleast_1d broadcast_to cat chunk clone
    contiguous detach expand expand_as flatten item mT moveaxis movedim mul narrow numpy_T permute
    positive ravel repeat reshape reshape_as select slice split split_with_sizes squeeze stack sub
    swapaxes swapdims t tensor_split to transpose unflatten unsqueeze view view_as
    """.split()
)  # positions of an argument in another shape, or at an offset


_MOVING = ("aten.add", "aten.mul", "aten.sub")


def rules_of(node: fx.Node) -> list[Rule]:
    """The rules for a call's arguments; none for calls that are not checked."""
    find = _FINDERS.get(_name(node))
    if find is None or not isinstance(node.target, torch._ops.OpOverload):
        return []
    arguments = arguments_of(node)
    if str(node.target) == "aten.masked_scatter.default":
        arguments["shape"] = node.meta["val"].shape
    return list(find(arguments))


def placeholders_behind(rule: Rule) -> Iterator[fx.Node]:
    """The placeholders whose elements the positions of a rule are, whatever a caller gives.

    What another operator computes, such as argmax or clamp, may be in range for all of them.
    """
    if not isinstance(rule, Inside):
        return
    nodes = [rule.tensor]
    for node in nodes:
        if node.target is operator.getitem or _name(node) in _KEEPING:
            nodes += [one for one in node.all_input_nodes if one not in nodes]
    is_moved = any(_name(node) in _MOVING for node in nodes)
    for node in nodes:
        if node.op == "placeholder" and (is_moved or not _has_only(rule, node.meta["val"])):
            yield node


def _name(node: fx.Node) -> str:
    """An operator without its overload."""
    return str(node.target).rpartition(".")[0]


def _has_only(rule: Inside, value: Any) -> bool:
    """True for a tensor of a type all of whose numbers are in range, as uint8 of 256 positions."""
    if not isinstance(value, torch.Tensor) or value.is_floating_point() or value.is_complex():
        return False
    ends = (0, 1) if value.dtype is torch.bool else _ends(value.dtype)
    return statically_known_true(ends[1] < rule.size) and statically_known_true(ends[0] >= rule.low)


def _ends(dtype: torch.dtype) -> tuple[int, int]:
    return torch.iinfo(dtype).min, torch.iinfo(dtype).max


def arguments_of(node: fx.Node) -> dict[str, Any]:
    """The arguments of an operator's call by name, those that are left out too."""
    assert isinstance(node.target, torch._ops.OpOverload)
    given = node.target._schema.arguments
    arguments = {one.name: one.default_value for one in given if one.has_default_value()}
    arguments |= dict(zip((one.name for one in given), node.args, strict=False))
    return arguments | node.kwargs


def _shape(node: Any) -> Any:
    return node.meta["val"].shape


def _along(*, from_end: bool = False) -> _Finder:
    """A tensor without dimensions has one position."""

    def find(given: _Arguments) -> Iterator[Rule]:
        shape = _shape(given["self"])
        size = shape[given["dim"]] if shape else 1
        yield Inside(given["index"], size, -size if from_end else 0)

    return find


def _number_along(given: _Arguments) -> Iterator[Rule]:
    """A number that is data."""
    if isinstance(given["index"], fx.Node):
        yield from _along(from_end=True)(given)


def _rows(given: _Arguments) -> Iterator[Rule]:
    yield Inside(given["indices"], _shape(given["weight"])[0])


def _rows_of_itself(given: _Arguments) -> Iterator[Rule]:
    size = _shape(given["self"])[0]
    yield Inside(given["indices"], size, -size)


def _bags(given: _Arguments) -> Iterator[Rule]:
    """Offsets that torch counted itself, for bags of one size, are right."""
    yield from _rows(given)
    offsets = given["offsets"]
    if str(offsets.target) != "aten.arange.start_step":
        yield from _consecutive(offsets, _shape(given["indices"])[0])
        yield Begins(offsets)


def _consecutive(offsets: fx.Node, size: Any) -> Iterator[Rule]:
    """Offsets into ``size`` elements."""
    yield Inside(offsets, size + 1)
    yield Ordered(offsets)


def _segments(given: _Arguments) -> Iterator[Rule]:
    size = _shape(given["data"])[given["axis"]]
    lengths, offsets = given["lengths"], given["offsets"]
    if offsets is not None:
        yield from _consecutive(offsets, size)
    elif lengths is not None:
        yield Inside(lengths, size + 1)
        yield Total(lengths, size, is_exact=not given["unsafe"])


def _taken_by_mask(given: _Arguments) -> Iterator[Rule]:
    source = given["source"].meta["val"].numel()
    yield Total(given["mask"], source, is_exact=False, expanded=given["shape"])


def _elements(given: _Arguments) -> Iterator[Rule]:
    """Positions in the whole tensor."""
    size = given["self"].meta["val"].numel()
    yield Inside(given["index"], size, -size)


def _dimensions(given: _Arguments) -> Iterator[Rule]:
    """A tensor for each dimension, or None; masks are no positions."""
    for size, index in zip(_shape(given["self"]), given["indices"], strict=False):
        if index is not None and index.meta["val"].dtype not in (torch.bool, torch.uint8):
            yield Inside(index, size, -size)


def _put(given: _Arguments) -> Iterator[Rule]:
    """A mask chooses as many places as there are values, unless one value goes to all of them.

    Of a counted number of values nobody knows that.
    """
    yield from _dimensions(given)
    used = [one for one in given["indices"] if one is not None]
    masks = [one for one in used if one.meta["val"].dtype in (torch.bool, torch.uint8)]
    if len(used) != 1 or not masks:
        return
    chosen, values = _shape(masks[0]), _shape(given["values"])
    behind = len(_shape(given["self"])) - given["indices"].index(masks[0]) - len(chosen)
    if len(values) > behind and guard_or_false(values[-1 - behind] != 1):
        yield Total(masks[0], values[-1 - behind], expanded=chosen)


def _classes(given: _Arguments) -> Iterator[Rule]:
    yield Inside(given["self"], given["num_classes"])


def _unpooled(given: _Arguments) -> Iterator[Rule]:
    """Positions in one image of the result."""
    size = 1
    for one in given["output_size"]:
        size = size * (one.meta["val"] if isinstance(one, fx.Node) else one)
    yield Inside(given["indices"], size)


def _sorter(given: _Arguments) -> Iterator[Rule]:
    if given["sorter"] is not None:
        yield Inside(given["sorter"], _shape(given["sorted_sequence"])[-1])


_FINDERS: dict[str, _Finder] = {
    "aten.embedding": _rows,
    "aten.embedding_renorm": _rows_of_itself,
    "aten.masked_scatter": _taken_by_mask,
    "aten.one_hot": _classes,
    "aten.searchsorted": _sorter,
    "aten.segment_reduce": _segments,
    **dict.fromkeys(("aten.take", "aten.put"), _elements),
    **dict.fromkeys(("aten.select", "aten.select_scatter"), _number_along),
    **dict.fromkeys(("aten.max_unpool2d", "aten.max_unpool3d"), _unpooled),
    "aten.index": _dimensions,
    **dict.fromkeys(("aten.index_put", "aten._unsafe_index_put"), _put),
    **dict.fromkeys(
        ("aten.embedding_bag", "aten._embedding_bag", "aten._embedding_bag_forward_only"), _bags
    ),
    "aten.index_fill": _along(from_end=True),
    **dict.fromkeys(
        (
            *("aten.gather", "aten.index_select", "aten.index_add", "aten.index_copy"),
            *("aten.index_reduce", "aten.scatter", "aten.scatter_add", "aten.scatter_reduce"),
        ),
        _along(),
    ),
}
