"""The first operator of an exported program whose value its graph computes otherwise.

Each node of the graph tells the exported node that it was made from. The last one of those whose
result has the type and shape of the exported node's gives its value.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram

from aotpack.stages import Signature
from aotpack.trace.agreement.departure import Departure
from aotpack.trace.agreement.values import difference, shown
from aotpack.trace.eager import in_program_order, run_exported
from aotpack.trace.golden.reference import Eager, in_order_of_results, results_of
from aotpack.trace.operators.control_flow.control import Turns
from aotpack.trace.operators.random.seeds import Example
from aotpack.trace.source import source_of

_MOST_BYTES = 2**30


def departure(
    exported: ExportedProgram,
    program: ExportedProgram,
    example: Example,
    signature: Signature,
    place: int,
) -> Departure | None:
    """The operator to blame; else the one that the departing result, by place, comes from."""
    nodes = {node.name: node for node in exported.graph.nodes}
    wanted, compared = _Kept(exported.graph_module), _Compared(program.graph_module)
    try:
        run_exported(exported, example, signature, wanted)
        compared.wanted = wanted.values
        results_of(program, in_program_order(exported, *example), compared)
    except Exception:  # values too large to keep, or without a type on this machine
        compared.how.clear()
    for name in wanted.values:
        how = compared.how.get(name)
        if how:
            return Departure(str(nodes[name].target), source_of(nodes[name]), how)
    (outputs,) = program.graph.output_node().args
    blamed = nodes.get(_origin(in_order_of_results(program, outputs)[place]))
    if blamed is None or blamed.op != "call_function":
        return None
    return Departure(str(blamed.target), source_of(blamed), "makes the result")


class _Kept(fx.Interpreter):
    """Keeps clones of the tensors that operators return, by the name of the node."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.extra_traceback = False
        self.values: dict[str, torch.Tensor] = {}
        self._bytes = 0

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        if n.op == "call_function" and isinstance(result, torch.Tensor):
            self._bytes += result.numel() * result.element_size()
            if self._bytes > _MOST_BYTES:
                raise MemoryError("the results of all operators are too large to keep")
            self.values[n.name] = result.clone()
        return result


class _Compared(Eager):
    """Compares values with the wanted ones of the nodes that theirs were made from."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module, None, Turns())
        self.wanted: dict[str, torch.Tensor] = {}
        self.how: dict[str, str | None] = {}

    def run_node(self, n: fx.Node) -> Any:
        result, name = super().run_node(n), _origin(n)
        wanted = self.wanted.get(name)
        if wanted is not None and shown(wanted) == shown(result):
            self.how[name] = difference(wanted, result)
        return result


def _origin(node: fx.Node) -> str:
    """The name of the exported node that a node was made from."""
    sources: Sequence[Any] = node.meta.get("from_node") or ()
    name = ""
    while sources:
        name, sources = sources[-1].name, sources[-1].from_node
    return name
