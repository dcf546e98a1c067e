"""The entry of lowering: lowers the graph nodes in order and reports all refusals at once.

Importing a family registers its lowerings.
"""

from collections.abc import Iterator

from aotpack.errors import UnsupportedError
from aotpack.lower import control
from aotpack.lower.builder import Builder
from aotpack.lower.calls import lower_calls
from aotpack.lower.elementwise import (
    activation,
    arithmetic,
    assertion,
    choose,
    complex_pairs,
    convert,
    create,
    floats,
    pointwise,
    predicate,
    random,
)
from aotpack.lower.fourier import operators
from aotpack.lower.images import antialias, pooling, resample
from aotpack.lower.indexing import (
    counted,
    embedding_bag,
    gather,
    histogram,
    index_put,
    nonzero,
    repeats,
    scatter,
    search,
    segments,
)
from aotpack.lower.linalg import attention, convolution, distance, grouped_mm, matmul, patches
from aotpack.lower.reductions import norm, reduction, scan, softmax, sort, variance_norms
from aotpack.lower.registry import LOWERINGS
from aotpack.lower.repeats import body_calls
from aotpack.lower.repeats.repeats import with_repeats
from aotpack.lower.special import (
    bessel,
    chebyshev,
    functions,
    gamma,
    incomplete_gamma,
    orthogonal,
    zeta,
)
from aotpack.lower.views import concat, rearrange, strided, view
from aotpack.stages import Graph, GraphNode, Lowered, Traced, every_node


def lower(
    traced: Traced,
    *,
    through_torch: bool = False,
    is_strict: bool = False,
    repeat_layers: bool = False,
) -> Lowered:
    """Turn the graph's operator calls into loop operations over buffers, each written once.

    With ``through_torch`` calls without a lowering become calls of torch, where possible. With
    ``is_strict`` each 16-bit result is rounded for whatever reads it. With ``repeat_layers``
    repeated layers become calls of one body.
    """
    graph, lines = with_repeats(traced.graph) if repeat_layers else (traced.graph, ())
    builder = Builder(graph)
    builder.through_torch, builder.is_strict = through_torch, is_strict
    lower_calls(builder, graph.nodes)
    if builder.refused:
        raise UnsupportedError(_refusal(graph, builder.refused, through_torch=through_torch))
    program = builder.finish()
    fallbacks = tuple(_listed(builder.fallbacks, "; "))
    weights = (*graph.weights, *builder.tables.values())
    return Lowered(graph.signature, weights, traced.golden, program, fallbacks, lines)


def _refusal(
    graph: Graph, refused: list[tuple[GraphNode, str]], *, through_torch: bool = False
) -> str:
    """Every refused call once for each kind and reason, with the user's lines."""
    calls = sum(1 for _ in every_node(graph.nodes))
    head = (
        f"lowering {graph.signature.name!r}: {len(refused)} of {calls} operator calls "
        f"cannot be lowered ({len(LOWERINGS)} operators can):"
    )
    kinds = (f"  {kind}" for kind in _listed(refused, "\n    "))
    other = ', or build with --fallback torch (fallback="torch"): then the package needs torch.'
    advice = (
        "Rewrite these lines of the model with supported operators"
        f"{'; --fallback torch does not take them.' if through_torch else other}"
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
