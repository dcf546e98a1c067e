"""Writes through windows: what no window covers keeps its value.

torch's functionalisation writes zeros there. Here the base is restored after each such write:

    t.unfold(0, 1, 2).neg_()   ->   saved = t.clone()
                                    t.unfold(0, 1, 2).neg_()
                                    t.copy_(t.where(covered, saved))
"""

import operator
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram

from aotpack.trace.operators.copies import inserted

_ATEN = torch.ops.aten
_UNFOLD = _ATEN.unfold.default


@contextmanager
def restored_bases(program: ExportedProgram) -> Iterator[None]:
    """Inside the block, writes through windows are followed by copies that restore the rest."""
    graphs = [m.graph for m in program.graph_module.modules() if isinstance(m, fx.GraphModule)]
    writes = [
        (node, window)
        for graph in graphs
        if graph.find_nodes(op="call_function", target=_UNFOLD)
        for node in graph.nodes
        for window in _written_windows(node)
    ]
    added = [new for node, window in writes for new in _restore(node, window)]
    try:
        yield
    finally:
        for new in reversed(added):
            new.graph.erase_node(new)


def _written_windows(node: fx.Node) -> list[fx.Node]:
    """The windows through which an operator writes; those nearest to the base come first."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or not target._schema.is_mutable:
        return []
    found = []
    for argument, given in zip(target._schema.arguments, node.args, strict=False):
        if argument.alias_info is not None and argument.alias_info.is_write:
            found += [one for one in _shown(given) if one.target is _UNFOLD]
    return found[::-1]


def _shown(value: Any) -> Iterator[fx.Node]:
    """A view, and what it is a view of."""
    while isinstance(value, fx.Node):
        yield value
        target = value.target
        is_same = target is operator.getitem or (
            isinstance(target, torch._ops.OpOverload)
            and (target.is_view or target._schema.is_mutable)
        )
        value = value.args[0] if is_same and value.args else None


def _restore(node: fx.Node, window: fx.Node) -> list[fx.Node]:
    """Insert what restores the base of a window; the new nodes in order."""
    base, dim, size, step = window.args
    assert isinstance(base, fx.Node) and isinstance(dim, int)
    known = base.meta["val"]
    if not known.dim():
        return []
    shape = [1] * known.dim()
    shape[dim] = -1
    made = _Inserter(node)
    with node.graph.inserting_before(node):
        saved = made.call(_ATEN.clone.default, base)
        length = known.shape[dim]
        if not isinstance(length, int):
            length = made.call(_ATEN.sym_size.int, base, dim)
        last = made.call(operator.sub, length, size)
        place = made.call(_ATEN.arange.default, length)
        rest = made.call(_ATEN.remainder.Scalar, place, step)
        inside = made.call(_ATEN.lt.Scalar, rest, size)
        whole = made.call(_ATEN.le.Scalar, made.call(_ATEN.sub.Tensor, place, rest), last)
        both = made.call(_ATEN.logical_and.default, inside, whole)
        covered = made.call(_ATEN.view.default, both, shape)
    with node.graph.inserting_after(node):
        restored = made.call(_ATEN.where.self, covered, base, saved)
    restored.meta["val"] = known
    with node.graph.inserting_after(restored):
        made.call(_ATEN.copy_.default, base, restored)
    return made.nodes


class _Inserter:
    """Inserts calls that belong to another one's line."""

    def __init__(self, owner: fx.Node) -> None:
        self.owner = owner
        self.nodes: list[fx.Node] = []

    def call(self, target: Any, *args: Any) -> fx.Node:
        new = inserted(self.owner, target, *args)
        self.nodes.append(new)
        return new
