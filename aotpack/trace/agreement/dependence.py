"""What depends on a node of an exported program, whose operators may change tensors in place."""

from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from aotpack.stages import Signature
from aotpack.trace.graph import is_returned


class Dependents:
    """The nodes that depend on those added; a tensor and its views count as one."""

    def __init__(self) -> None:
        self._memories: set[fx.Node] = set()

    def __contains__(self, value: Any) -> bool:
        return isinstance(value, fx.Node) and (
            _memory(value) in self._memories
            or any(_memory(one) in self._memories for one in value.all_input_nodes)
        )

    def add(self, root: fx.Node) -> None:
        """A node and whatever comes after it and reads it."""
        self._memories.add(_memory(root))
        node = root.next
        while node.op != "root":
            if node.op != "output" and node in self:
                self._memories.add(_memory(node))
            node = node.next

    def results(self, program: ExportedProgram, signature: Signature) -> list[bool]:
        """For each result, then each changed tensor, whether it depends on what was added."""
        (outputs,) = program.graph.output_node().args
        pairs = zip(outputs, program.graph_signature.output_specs, strict=True)
        returned = [value for value, spec in pairs if is_returned(spec)]
        given = _given(program, signature)
        return [value in self for value in (*returned, *map(given.get, signature.updates))]


def _memory(node: fx.Node) -> fx.Node:
    """The node whose memory another one shows: of a view or of a change in place, its operand."""
    target = node.target
    while isinstance(target, torch._ops.OpOverload) and (
        target.is_view or target._schema.is_mutable
    ):
        if not node.args or not isinstance(node.args[0], fx.Node):
            break
        node = node.args[0]
        target = node.target
    return node


def _given(program: ExportedProgram, signature: Signature) -> dict[str, fx.Node]:
    """The placeholders of weights and of input tensors, by name."""
    names = iter(signature.inputs)
    found = {}
    nodes = [node for node in program.graph.nodes if node.op == "placeholder"]
    for node, spec in zip(nodes, program.graph_signature.input_specs, strict=True):
        if spec.kind is not InputKind.USER_INPUT:
            found[spec.target or ""] = node
        elif isinstance(node.meta.get("val"), torch.Tensor):
            found[next(names).name] = node
    return found
