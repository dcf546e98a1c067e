"""Changes in place of tensors that do not lie row-major.

torch's functionalisation makes what the operator without underscore gives the new value. Some of
these (``masked_fill``, ``cumsum``, ``scatter``, ``tril``) give a row-major result, whatever the
layout of their operand. The tensor's later views are those of its old layout, which then are not
possible or show something else. Here such a result is copied into the tensor, which keeps its
layout.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from aotpack.trace.operators.copies import inserted
from aotpack.trace.strides import known_numbers

_ATEN = torch.ops.aten


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
