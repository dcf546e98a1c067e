"""What a run of the program costs, estimated from shapes before anything runs.

The estimate depends on the program alone, so that builds are equal on all machines. Dynamic sizes
are those of the example inputs.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from aotpack.trace.golden.pieces import bytes_held
from aotpack.trace.operators.control_flow.control import MAP, SCAN, part_of

_OPERATIONS, _BYTES, _CALLS = 2e10, 2e9, 5e3  # a second of two cores, in float64
_PRODUCTS = frozenset(
    """addbmm addmm addmv baddbmm bmm conv1d conv2d conv3d conv_transpose1d conv_transpose2d
    conv_transpose3d convolution dot linear matmul mm mv scaled_dot_product_attention
    _grouped_mm _scaled_mm""".split()
)


@dataclass(frozen=True, slots=True)
class Cost:
    """Operations of products, bytes that operators read and write, bytes held at once, calls.

    Bytes are those of float64 if ``wide``, else those of the types.
    """

    operations: float
    moved: float
    held: float
    calls: int = 0

    @property
    def seconds(self) -> float:
        return self.operations / _OPERATIONS + self.moved / _BYTES + self.calls / _CALLS


def cost_of(module: fx.GraphModule, *, wide: bool) -> Cost:
    """The cost of all operators; those of a body as often as its slices say, or once."""
    operations = moved = held = most = 0.0
    calls = 0
    last = _last_uses(module)
    alive: dict[fx.Node, float] = {}
    for node in module.graph.nodes:
        size = _size(node, wide=wide)
        if node.op == "call_function":
            read = sum(_size(one, wide=wide) for one in node.all_input_nodes)
            inner = [cost_of(part, wide=wide) for part in _parts(node)]
            turns = _turns(node)
            calls += 1 + turns * sum(one.calls for one in inner)
            operations += _products(node) + turns * sum(one.operations for one in inner)
            moved += read + size + turns * sum(one.moved for one in inner)
            widened = sum(
                bytes_held(node, one, _size(one, wide=True))
                for one in node.all_input_nodes
                if one.op == "placeholder"
            )
            most = max(most, held + size + (widened if wide else 0.0))
            most = max([most, *(held + one.held for one in inner)])
        if not _is_view(node) and node.op != "placeholder":
            alive[node] = size
            held += size
        for one in last.get(node, ()):
            held -= alive.pop(one, 0.0)
    return Cost(operations, moved, max(most, held), calls)


def _last_uses(module: fx.GraphModule) -> dict[fx.Node, list[fx.Node]]:
    """For each node the values that nothing after it uses; a view uses what it shows."""
    last: dict[fx.Node, fx.Node] = {}
    shown: dict[fx.Node, fx.Node] = {}
    for node in module.graph.nodes:
        for one in node.all_input_nodes:
            last[shown.get(one, one)] = node
        if _is_view(node) and node.all_input_nodes:
            base = node.all_input_nodes[0]
            shown[node] = shown.get(base, base)
    ends: dict[fx.Node, list[fx.Node]] = {}
    for value, node in last.items():
        ends.setdefault(node, []).append(value)
    return ends


def _is_view(node: fx.Node) -> bool:
    return not isinstance(node.target, torch._ops.OpOverload) or bool(node.target.is_view)


def _parts(node: fx.Node) -> Iterable[fx.GraphModule]:
    """The graphs that an operator of control flow takes."""
    named = [one for one in node.all_input_nodes if one.op == "get_attr"]
    return [part for part in map(part_of, named) if isinstance(part, fx.GraphModule)]


def _turns(node: fx.Node) -> int:
    """How often the parts of an operator run, as far as shapes tell."""
    if node.target not in (MAP, SCAN):
        return 1
    slices: Any = node.args[1 if node.target is MAP else 2]
    return _number(slices[0].meta["val"].shape[0])


def _size(node: fx.Node, *, wide: bool) -> float:
    tensors = [v for v in pytree.tree_leaves(node.meta.get("val")) if isinstance(v, torch.Tensor)]
    return float(
        sum(
            _count(one) * (8 if wide and one.is_floating_point() else one.element_size())
            for one in tensors
        )
    )


def _count(tensor: torch.Tensor) -> int:
    return math.prod(map(_number, tensor.shape))


def _number(size: Any) -> int:
    """A size; that of the example inputs if it is dynamic."""
    if isinstance(size, int):
        return size
    hint = getattr(size.node, "hint", None)
    return 1 if hint is None else int(hint)


def _products(node: fx.Node) -> float:
    """The operations of a product: two for each pair of factors."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return 0.0
    name = node.target._schema.name.partition("::")[2]
    own = node.meta.get("val")
    if name not in _PRODUCTS or not isinstance(own, torch.Tensor):
        return 0.0
    left, right = (node.args[place].meta["val"] for place in _factors(name))  # type: ignore[union-attr]
    if "conv" in name:
        return 2.0 * _count(own) * _count(right) / max(1, _number(right.shape[0]))
    if name == "scaled_dot_product_attention":
        return 4.0 * _count(left) * _number(right.shape[-2])
    return 2.0 * _count(own) * _number(left.shape[-1])


def _factors(name: str) -> tuple[int, int]:
    """The places of the operands that are multiplied."""
    return (1, 2) if name in ("addbmm", "addmm", "addmv", "baddbmm") else (0, 1)
