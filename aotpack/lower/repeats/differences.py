"""Why no layers of a graph are calls of one body: where the most alike ones differ."""

from aotpack.ir.graph import arg_text
from aotpack.lower.repeats.nodes import has_product, is_counted, node_key
from aotpack.lower.repeats.periods import stretches
from aotpack.stages import Graph, GraphNode, Ref, TensorSpec

NONE = "no layers are calls of one body"


def difference(graph: Graph, specs: dict[Ref, TensorSpec]) -> str:
    """Where layers of the same operators differ."""
    if is_counted(graph.nodes):
        return f"{NONE}: data decide sizes of the model"
    nodes = graph.nodes
    for stretch in stretches([node.op for node in nodes], 2):
        first, second = (
            nodes[start : start + stretch.period]
            for start in (stretch.start, stretch.start + stretch.period)
        )
        if not has_product(first):
            continue
        for one, other in zip(first, second, strict=True):
            if node_key(one, specs) != node_key(other, specs):
                return f"{NONE}: {_told(one, other, specs)}"
        return f"{NONE}: none of the equal ones takes a result of the one before it"
    return f"{NONE}: no operators with a product among them follow themselves"


def _told(one: GraphNode, other: GraphNode, specs: dict[Ref, TensorSpec]) -> str:
    """How two nodes of one operator differ, and where they stand."""
    if one.bodies:
        found = f"{one.op} runs programs of its own"
    else:
        found = f"{_shown(one, specs)} in one is {_shown(other, specs)} in the next"
    return found + (f" ({other.source})" if other.source else "")


def _shown(node: GraphNode, specs: dict[Ref, TensorSpec]) -> str:
    """The call with types and shapes in place of tensors."""
    return f"{node.op}({', '.join(_argument(arg, specs) for arg in node.args)})"


def _argument(arg: object, specs: dict[Ref, TensorSpec]) -> str:
    if isinstance(arg, Ref):
        spec = specs[arg]
        return f"{spec.dtype}[{', '.join(map(str, spec.shape))}]"
    if isinstance(arg, tuple):
        return f"[{', '.join(_argument(part, specs) for part in arg)}]"
    return arg_text(arg)  # type: ignore[arg-type]
