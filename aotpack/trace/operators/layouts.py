"""Changes in place of tensors that do not lie row-major.

torch's functionalisation makes what the operator without underscore gives the new value. Some of
these (``masked_fill``, ``cumsum``, ``scatter``, ``tril``) give a row-major result, whatever the
layout of their operand. The tensor's later views are those of its old layout, which then are not
possible or show something else. Here such a result is copied into the tensor, which keeps its
layout.

Of results of branches torch takes strides that are products of sizes alone; here those too that
differ from such for tensors without elements. Views of the shape that a tensor has are the tensor.
"""

import importlib
import math
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import has_free_unbacked_symbols
from torch.utils import _pytree as pytree
from torch.utils._sympy.functions import Max

from aotpack.trace.operators.copies import inserted
from aotpack.trace.operators.modes import patched
from aotpack.trace.strides import expression_of, known_numbers

_ATEN = torch.ops.aten
_VIEW = _ATEN.view.default


@contextmanager
def kept_layouts(program: ExportedProgram) -> Iterator[None]:
    """Inside the block, operators that would lose a layout are followed by copies."""
    graphs = [m.graph for m in program.graph_module.modules() if isinstance(m, fx.GraphModule)]
    changed = [
        (node, node.target, node.args, node.kwargs, functional)
        for graph in graphs
        for node in graph.nodes
        if (functional := _losing(node)) is not None
    ]
    added = [_copy_result(node, functional) for node, *_, functional in changed]
    try:
        yield
    finally:
        for node, target, args, kwargs, _ in changed:
            node.target, node.args, node.kwargs = target, args, kwargs
        for new in reversed(added):
            new.graph.erase_node(new)


def _copy_result(node: fx.Node, functional: Callable[..., Any]) -> fx.Node:
    """Make an operator in place a copy of its result without change, which is inserted."""
    changed = node.args[0]
    with node.graph.inserting_before(node):
        new = inserted(node, functional, *node.args, **node.kwargs)
    if "val" in node.meta:
        new.meta["val"] = node.meta["val"]
    node.target, node.args, node.kwargs = _ATEN.copy_.default, (changed, new), {}
    return new


def _losing(node: fx.Node) -> Callable[..., Any] | None:
    """The operator without change, if its result has another layout than what is changed."""
    functional = _functional(node.target)
    if functional is None or not node.args or not isinstance(node.args[0], fx.Node):
        return None
    changed = node.args[0].meta.get("val")
    if not isinstance(changed, torch.Tensor) or not _is_permuted(changed):
        return None
    try:
        with FakeTensorMode():
            args, kwargs = pytree.tree_map(_example, (node.args, dict(node.kwargs)))
            result = functional(*args, **kwargs)
    except Exception:
        return None
    is_same = isinstance(result, torch.Tensor) and _order(result) == _order(args[0])
    return None if is_same else functional


def _functional(target: Any) -> Callable[..., Any] | None:
    """The operator that returns what this one writes to its first operand."""
    if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten":
        return None
    if torch.Tag.inplace_view in target.tags:  # which writes nothing
        return None
    name, overload = target._schema.name.partition("::")[2], target._overloadname
    if not name.endswith("_") or name.endswith("__") or target is _ATEN.copy_.default:
        return None
    packet = getattr(_ATEN, name.removesuffix("_"), None)
    found: Callable[..., Any] | None = getattr(packet, overload, None)
    return found


def _is_permuted(tensor: torch.Tensor) -> bool:
    """True for a tensor without gaps that does not lie row-major."""
    shape, strides = known_numbers(tensor.shape), known_numbers(tensor.stride())
    if shape is None or strides is None or 0 in shape:
        return False
    parts = sorted((stride, size) for size, stride in zip(shape, strides, strict=True) if size > 1)
    expected = [math.prod(size for _, size in parts[:n]) for n in range(len(parts))]
    in_order = [stride for size, stride in zip(shape, strides, strict=True) if size > 1]
    return [stride for stride, _ in parts] == expected and in_order != sorted(in_order)[::-1]


def _order(tensor: torch.Tensor) -> tuple[int, ...]:
    """The strides of the dimensions that have any."""
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return tuple(stride for size, stride in pairs if size > 1)


def _example(value: Any) -> Any:
    """The value of a node at the sizes of the example; other values unchanged."""
    known = value.meta.get("val") if isinstance(value, fx.Node) else value
    if isinstance(known, torch.Tensor):
        shape, strides = known_numbers(known.shape), known_numbers(known.stride())
        assert shape is not None and strides is not None
        return torch.empty_strided(shape, strides, dtype=known.dtype, device=known.device)
    if isinstance(known, torch.SymInt):
        return (known_numbers([known]) or (0,))[0]
    return known


@contextmanager
def plain_views(program: ExportedProgram) -> Iterator[None]:
    """Inside the block, views of the shape that a tensor has are the tensor."""
    views = replace_plain_views(program)
    try:
        yield
    finally:
        for node, args, value in views:
            node.target, node.args, node.meta["val"] = _VIEW, args, value


def replace_plain_views(program: ExportedProgram) -> list[tuple[fx.Node, Any, Any]]:
    """Replace views of the shape that a tensor has, in place; these, with arguments and values.

    torch writes such a one for each assignment to a slice, without leading dimensions of one
    element. Where data decide a size, or two sizes of inputs a slice, it asks whether the tensor is
    contiguous, which nobody knows. Where the result is expanded to these dimensions again, they
    are kept: a tensor is copied to itself only in its own strides.
    """
    graphs = [m.graph for m in program.graph_module.modules() if isinstance(m, fx.GraphModule)]
    nodes = [n for one in graphs for n in one.find_nodes(op="call_function", target=_VIEW)]
    found = [(node, node.args, _leading_ones(node)) for node in nodes]
    views = [(node, args, ones) for node, args, ones in found if ones is not None]
    replaced = [(node, args, node.meta["val"]) for node, args, _ in views]
    for node, (tensor, *_), ones in views:
        if not ones or _is_expanded_again(node, tensor):
            node.target, node.args = _ATEN.alias.default, (tensor,)
            node.meta["val"] = tensor.meta["val"]
        else:
            node.target, node.args = _ATEN.squeeze.dims, (tensor, [*range(ones)])
    return replaced


def _is_expanded_again(view: fx.Node, tensor: fx.Node) -> bool:
    """True for a view that is only expanded, to as many dimensions as the tensor has or more."""
    return all(
        user.target is _ATEN.expand.default and user.meta["val"].dim() >= tensor.meta["val"].dim()
        for user in view.users
    )


def _leading_ones(node: fx.Node) -> int | None:
    """How many leading dimensions of one element are all that a view leaves out; else None.

    None too for a view all of whose sizes follow from those of inputs.
    """
    (tensor, *_) = node.args
    pair = tensor.meta.get("val") if isinstance(tensor, fx.Node) else None, node.meta.get("val")
    match pair:
        case torch.Tensor(shape=given), torch.Tensor(shape=made):
            sizes, wanted = ([*map(expression_of, shape)] for shape in (given, made))
            ones = len(sizes) - len(wanted)
            is_open = any(map(has_free_unbacked_symbols, given))
            return ones if is_open and ones >= 0 and sizes == [1] * ones + wanted else None
    return None


@contextmanager
def merged_results() -> Iterator[None]:
    """Inside the block, branches may return tensors with computed sizes, as ``n - 1``.

    torch writes ``Max(1, n - 1)`` for a stride behind a size ``n - 1``, and does not find the size
    in it. Where the two differ the tensor has no elements, and its strides mean nothing. To merge
    results torch asks which strides are larger, which is the same for results of one layout.
    """

    def merging(before: Callable[..., Any]) -> Callable[..., Any]:
        def merged(first: Any, second: Any, mode: FakeTensorMode) -> Any:
            one, other = _by_sizes(first, mode), _by_sizes(second, mode)
            return _made(one, mode) if _are_alike(one, other) else before(one, other, mode)

        return merged

    branches = importlib.import_module("torch._higher_order_ops.cond")
    with patched(branches, "_merge_output", merging):
        yield


def _by_sizes(value: Any, mode: FakeTensorMode) -> Any:
    """A result of a branch with strides that are products of its sizes."""
    if not isinstance(value, torch.Tensor) or not _is_plain(value):
        return value
    sizes = {*map(expression_of, value.shape)}
    strides = [_without_maximum(stride, sizes) for stride in value.stride()]
    if all(one is two for one, two in zip(strides, value.stride(), strict=True)):
        return value
    return _made(value, mode, strides)


def _made(value: torch.Tensor, mode: FakeTensorMode, strides: Any = None) -> torch.Tensor:
    """A new tensor like another, at the same place in its memory, with its strides or others."""
    strides = value.stride() if strides is None else strides
    how: dict[str, Any] = {"dtype": value.dtype, "device": value.device}
    offset = value.storage_offset()
    with mode:
        if isinstance(offset, int) and offset == 0:
            return torch.empty_strided(value.shape, strides, **how)
        last = sum((size - 1) * stride for size, stride in zip(value.shape, strides, strict=True))
        return torch.empty(offset + last + 1, **how).as_strided(value.shape, strides, offset)


def _is_plain(value: torch.Tensor) -> bool:
    """True for a tensor with strides, of its own values."""
    return value.layout is torch.strided and not value.is_quantized and not value.is_conj()


def _are_alike(first: Any, second: Any) -> bool:
    """True for tensors of one type and layout.

    Where data decide a size, both have it of an operand: each branch names its own ones anew.
    """
    if not (isinstance(first, torch.Tensor) and isinstance(second, torch.Tensor)):
        return False
    if not (_is_plain(first) and _is_plain(second)) or first.dim() != second.dim():
        return False
    of_one_type = (first.dtype, first.device) == (second.dtype, second.device)
    return of_one_type and _numbers(first) == _numbers(second)


def _numbers(value: torch.Tensor) -> list[Any]:
    """Sizes, strides and the place of the first element, of which nothing is asked."""
    return [*map(expression_of, (*value.shape, *value.stride(), value.storage_offset()))]


def _without_maximum(stride: Any, sizes: Collection[Any]) -> Any:
    """``n - 1`` of ``Max(1, n - 1)``, if the first is a size of the tensor and the second none."""
    if not isinstance(stride, torch.SymInt) or not stride.node.expr.has(Max):
        return stride

    def is_of_none(one: Any) -> bool:
        is_maximum = isinstance(one, Max) and len(one.args) == 2 and 1 in one.args
        return is_maximum and one not in sizes and _other_than_one(one) in sizes

    plain = stride.node.expr.replace(is_of_none, _other_than_one)
    return stride.node.shape_env.create_symintnode(plain, hint=None)


def _other_than_one(maximum: Any) -> Any:
    return next(part for part in maximum.args if part != 1)
