"""Results that show a tensor at a place that data decide.

In eager ``y[i]`` with a 0-d tensor of integers is a view. Where ``y`` is changed in place, torch
takes a result that is such a view again from the new value, and finds no call that yields the
symbol for where it begins. Here such results are copies, made when forward returns:

    y[0] = 1              y[0] = 1
    return y[i]    ->     return y[i].clone()
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import fx
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.export.graph_signature import TensorArgument
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils import _pytree as pytree

from aotpack.trace.changes import aliased
from aotpack.trace.operators.copies import inserted

_ATEN = torch.ops.aten


@contextmanager
def copied_results(program: ExportedProgram) -> Iterator[None]:
    """Inside the block, results that show a tensor at such a place are copies."""
    (output,) = program.graph.find_nodes(op="output")
    results, specs = output.args, program.graph_signature.output_specs
    views = _views_at_data(program.graph)
    with program.graph.inserting_before(output):
        copies = {
            one: inserted(one, _ATEN.clone.default, one)
            for one in dict.fromkeys(pytree.tree_leaves(results))
            if one in views
        }
    names = {one.name: copy.name for one, copy in copies.items()}
    renamed = [(one, one.arg) for one in specs if copies and one.arg.name in names]
    for spec, argument in renamed:
        spec.arg = TensorArgument(name=names[argument.name])
    output.args = pytree.tree_map(lambda one: copies.get(one, one), results)
    try:
        yield
    finally:
        output.args = results
        for spec, argument in renamed:
            spec.arg = argument
        for copy in reversed(copies.values()):
            copy.graph.erase_node(copy)


def _views_at_data(graph: fx.Graph) -> set[fx.Node]:
    """The views by an index that data decide, and the views of these."""
    found: set[fx.Node] = set()
    for node in graph.nodes:
        if _is_at_data(node) or not found.isdisjoint(_shown(node)):
            found.add(node)
    return found


def _is_at_data(node: fx.Node) -> bool:
    index = node.args[2] if node.target is _ATEN.select.int else None
    return isinstance(index, fx.Node) and bool(free_unbacked_symbols(index.meta["val"]))


def _shown(node: fx.Node) -> list[fx.Node]:
    """The tensors of which a call may return views."""
    if not isinstance(node.target, OpOverload):
        return node.all_input_nodes if node.op == "call_function" else []
    values = [value for _, value in aliased(node)]
    return [one for one in pytree.tree_leaves(values) if isinstance(one, fx.Node)]
