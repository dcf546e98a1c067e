"""The table of contents of lowering: one graph node after the other, all refusals at once.
"""

from collections.abc import Iterator

from aotpack.errors import UnsupportedError
from aotpack.lower.builder import Builder
from aotpack.lower.calls import lower_calls
from aotpack.lower.elementwise import (  # noqa: F401  (each registers the lowerings of its family)
    activation,
    arithmetic,
    assertion,
    choose,
    convert,
    create,
    floats,
    pointwise,
    predicate,
    random,
)
from aotpack.lower.registry import LOWERINGS
from aotpack.stages import Graph, GraphNode, Lowered, Traced, every_node


def lower(traced: Traced, *, through_torch: bool = False) -> Lowered:
    """Turn the graph's operator calls into loop operations over buffers, each written once.

    ``through_torch``: what cannot be lowered becomes a call of torch, where that can be.
    """
    graph = traced.graph
    builder = Builder(graph)
    builder.through_torch = through_torch
    lower_calls(builder, graph.nodes)
    if builder.refused:
        raise UnsupportedError(_refusal(graph, builder.refused))
    program = builder.finish()
    fallen = tuple(_listed(builder.fallen, "; "))
    return Lowered(graph.signature, graph.weights, traced.golden, program, fallen)


def _refusal(graph: Graph, refused: list[tuple[GraphNode, str]]) -> str:
    """Every refused call once for each kind and reason, with the user's lines."""
    calls = sum(1 for _ in every_node(graph.nodes))
    head = (
        f"lowering {graph.signature.name!r}: {len(refused)} of {calls} operator calls "
        f"cannot be lowered ({len(LOWERINGS)} operators can):"
    )
    kinds = (f"  {kind}" for kind in _listed(refused, "\n    "))
    advice = (
        "Rewrite these lines of the model with supported operators, or build with "
        '--fallback torch (fallback="torch"): then the package needs torch.'
    )
    return "\n".join([head, *kinds, advice])


def _listed(calls: list[tuple[GraphNode, str]], between: str) -> Iterator[str]:
    """Each kind of call and reason once, with the user's lines behind it."""
    kinds: dict[tuple[str, str], list[GraphNode]] = {}
    for node, reason in calls:
        kinds.setdefault((node.op, reason), []).append(node)
    for (operator, reason), nodes in kinds.items():
        count = "1 call" if len(nodes) == 1 else f"{len(nodes)} calls"
        places = dict.fromkeys(str(node.source) if node.source else node.name for node in nodes)
        yield between.join([f"{operator} ({count}): {reason}", *places])
