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
from aotpack.lower.context import Context
from aotpack.lower.foreign import lower_launch
from aotpack.lower.registry import LOWERINGS, CannotLower, bind, handler_of
from aotpack.stages import Graph, GraphNode, Lowered, Traced


def lower(traced: Traced) -> Lowered:
    """Turn the graph's operator calls into loop operations over buffers, each written once."""
    graph = traced.graph
    builder = Builder(graph)
    refused = []
    for node in graph.nodes:
        builder.declare_results(node)
        try:
            _lower_node(Context(builder, node))
        except CannotLower as refusal:
            refused.append((node, str(refusal)))
    if refused:
        raise UnsupportedError(_refusal(graph, refused))
    return Lowered(graph.signature, graph.weights, traced.golden, builder.finish())


def _lower_node(context: Context) -> None:
    node = context.node
    if node.kernel is not None:
        lower_launch(context, node.kernel)
        return
    handler = handler_of(node.op)
    bound = bind(handler, node.args, dict(node.kwargs), leading=1)
    handler(context, *bound.args, **bound.kwargs)


def _refusal(graph: Graph, refused: list[tuple[GraphNode, str]]) -> str:
    """Every refused call once for each kind and reason, with the user's lines."""
    kinds: dict[tuple[str, str], list[GraphNode]] = {}
    for node, reason in refused:
        kinds.setdefault((node.op, reason), []).append(node)
    head = (
        f"lowering {graph.signature.name!r}: {len(refused)} of {len(graph.nodes)} operator calls "
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
