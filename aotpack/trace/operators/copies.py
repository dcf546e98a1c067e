"""Copies into whole tensors of other types or shapes.

torch's functionalisation makes the source of ``buffer.copy_(source)`` the new value as it is. Here
the source is converted and expanded first, as eager does.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import fx
from torch.export import ExportedProgram

_ATEN = torch.ops.aten


@contextmanager
def converted_copies(program: ExportedProgram) -> Iterator[None]:
    """Inside the block, sources of copies have the type and shape of their destinations."""
    graphs = [m for m in program.graph_module.modules() if isinstance(m, fx.GraphModule)]
    copies = [
        (node, node.args)
        for module in graphs
        for node in module.graph.nodes
        if node.target is _ATEN.copy_.default
    ]
    added = [new for node, _ in copies for new in _convert(node)]
    try:
        yield
    finally:
        for node, args in copies:
            node.args = args
        for new in reversed(added):
            new.graph.erase_node(new)


def _convert(node: fx.Node) -> list[fx.Node]:
    """Insert what the source of a copy needs; the new nodes in order."""
    destination, source = node.args[:2]
    if not isinstance(destination, fx.Node) or not isinstance(source, fx.Node):
        return []
    wanted, given = destination.meta["val"], source.meta["val"]
    added: list[fx.Node] = []
    with node.graph.inserting_before(node):
        if given.dtype != wanted.dtype:
            source = node.graph.call_function(_ATEN.to.dtype, (source, wanted.dtype))
            given = given.to(wanted.dtype)
            source.meta["val"] = given
            added.append(source)
        if tuple(given.shape) != tuple(wanted.shape):
            source = node.graph.call_function(_ATEN.expand_as.default, (source, destination))
            source.meta["val"] = given.expand_as(wanted)
            added.append(source)
    if added:
        node.args = (destination, source, *node.args[2:])
        for new in added:
            new.meta |= {key: node.meta[key] for key in ("stack_trace",) if key in node.meta}
    return added
