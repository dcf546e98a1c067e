"""Operator calls one after the other: each goes to the lowering of its operator."""

from collections.abc import Iterable

from aotpack.lower.builder import Builder
from aotpack.lower.context import Context
from aotpack.lower.foreign import lower_launch
from aotpack.lower.registry import CannotLower, bind, handler_of
from aotpack.stages import GraphNode


def lower_calls(builder: Builder, nodes: Iterable[GraphNode]) -> None:
    """Append what the calls become; those that cannot be lowered are put in ``refused``."""
    for node in nodes:
        builder.declare_results(node)
        try:
            _lower(Context(builder, node))
        except CannotLower as refusal:
            builder.refused.append((node, str(refusal)))


def _lower(context: Context) -> None:
    node = context.node
    if node.kernel is not None:
        lower_launch(context, node.kernel)
        return
    handler = handler_of(node.op)
    bound = bind(handler, node.args, dict(node.kwargs), leading=1)
    handler(context, *bound.args, **bound.kwargs)
