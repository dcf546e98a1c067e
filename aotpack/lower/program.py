"""The table of contents of lowering: one graph node after the other, all refusals at once.

Rows S:A3, H12, P2, H1, H8, H10, H11, C:G22.
"""

from aotpack.errors import UnsupportedError
from aotpack.lower import (  # noqa: F401  (each registers the lowerings of its family)
    activation,
    arithmetic,
    attention,
    bags,
    bessel,
    chebyshev,
    choose,
    control,
    convert,
    convolution,
    create,
    distance,
    floats,
    gamma,
    gather,
    histogram,
    index_put,
    join,
    matmul,
    nonzero,
    norm,
    patches,
    pointwise,
    pooling,
    predicate,
    random,
    rearrange,
    reduction,
    resample,
    scan,
    scatter,
    search,
    segments,
    softmax,
    sort,
    special,
    spread,
    strided,
    view,
)
from aotpack.lower.builder import Builder
from aotpack.lower.calls import lower_calls
from aotpack.lower.registry import LOWERINGS
from aotpack.stages import Graph, GraphNode, Lowered, Traced, every_node


def lower(traced: Traced) -> Lowered:
    """Turn the graph's operator calls into loop operations over buffers, each written once."""
    graph = traced.graph
    builder = Builder(graph)
    lower_calls(builder, graph.nodes)
    if builder.refused:
        raise UnsupportedError(_refusal(graph, builder.refused))
    return Lowered(graph.signature, graph.weights, traced.golden, builder.finish())


def _refusal(graph: Graph, refused: list[tuple[GraphNode, str]]) -> str:
    """Every refused call once for each kind and reason, with the user's lines."""
    kinds: dict[tuple[str, str], list[GraphNode]] = {}
    for node, reason in refused:
        kinds.setdefault((node.op, reason), []).append(node)
    calls = sum(1 for _ in every_node(graph.nodes))
    head = (
        f"lowering {graph.signature.name!r}: {len(refused)} of {calls} operator calls "
        f"cannot be lowered ({len(LOWERINGS)} operators can):"
    )
    lines = [head]
    for (operator, reason), nodes in kinds.items():
        count = "1 call" if len(nodes) == 1 else f"{len(nodes)} calls"
        lines.append(f"  {operator} ({count}): {reason}")
        places = dict.fromkeys(str(node.source) if node.source else node.name for node in nodes)
        lines += [f"    {place}" for place in places]
    lines.append("Rewrite these lines of the model with supported operators.")
    return "\n".join(lines)
