"""A call with complex tensors -> a graph of other calls, by its formula or torch's own."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import fx
from torch._decomp import decomposition_table
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from aotpack.errors import UnsupportedError
from aotpack.trace.complex_numbers.formulas import FORMULAS

_NO_OPERANDS = (
    "branches and loops take no complex tensors; give them torch.view_as_real(z), and call "
    "torch.view_as_complex inside"
)
_NO_FORMULA = (
    "it has no formula for complex numbers: compute it with real and imaginary parts "
    "(torch.view_as_real); --fallback torch takes no complex numbers"
)
_LINE = ("stack_trace", "nn_module_stack")


def expanded(node: fx.Node) -> fx.Graph:
    """The calls that a call stands for, which are others or none.

    The placeholders are the tensors and sizes of ``node.all_input_nodes``, in their order.
    """
    given = node.all_input_nodes
    if any("val" not in one.meta for one in given):  # branches and bodies
        raise UnsupportedError(_NO_OPERANDS)
    target: Any = node.target
    formula = FORMULAS.get(str(target), target)

    def calls(*values: Any) -> Any:
        places = dict(zip(given, values, strict=True))
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), places.__getitem__)
        return formula(*args, **kwargs)

    leaf = next(one for one in pytree.tree_leaves(node.meta["val"]) if _is_tensor(one))
    table = {} if formula is not target else _own_table(target)
    with leaf.fake_mode, torch.no_grad():
        values = [_plain(one.meta["val"]) for one in given]
        try:
            made = make_fx(calls, tracing_mode="symbolic", decomposition_table=table)(*values)
        except (RuntimeError, TypeError) as error:  # of torch's own decomposition
            raise UnsupportedError(_NO_FORMULA) from error
    graph = made.graph
    if formula is target and any(one.target is target for one in graph.nodes):
        raise UnsupportedError(_NO_FORMULA)
    graph.eliminate_dead_code()
    for one in graph.nodes:
        one.meta.update({key: node.meta[key] for key in _LINE if key in node.meta})
    return graph


def results(graph: fx.Graph) -> Iterator[fx.Node]:
    """What an expanded graph returns: one tensor, or several."""
    (output,) = (node for node in graph.nodes if node.op == "output")
    return iter(pytree.tree_leaves(output.args[0], is_leaf=lambda x: isinstance(x, fx.Node)))


def _own_table(target: Any) -> dict[Any, Any]:
    """torch's decomposition of the operator, and of no other."""
    return {target: decomposition_table[target]} if target in decomposition_table else {}


def _plain(value: Any) -> Any:
    """A tensor as its pairs are: views that turn signs are resolved."""
    return value.resolve_conj().resolve_neg() if _is_tensor(value) else value


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)
