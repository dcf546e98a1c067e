"""Lowers operator calls in order, each by the lowering of its operator."""

from collections.abc import Iterable

from aotpack.lower.builder import Builder
from aotpack.lower.context import Context
from aotpack.lower.foreign import call_torch, lower_launch
from aotpack.lower.registry import CannotLower, bind, handler_of
from aotpack.stages import GraphNode


def lower_calls(builder: Builder, nodes: Iterable[GraphNode]) -> None:
    """Lower each call; a call that cannot be lowered is added to ``refused`` or ``fallbacks``."""
    for node in nodes:
        builder.declare_results(node)
        before = builder.mark()
        try:
            _lower(Context(builder, node))
        except CannotLower as refusal:
            builder.truncate(before)
            _fall_back(Context(builder, node), str(refusal))


def _fall_back(context: Context, reason: str) -> None:
    """Let torch run a call without a lowering, if the build allows that and torch can."""
    builder = context.builder
    try:
        complaint = call_torch(context, reason) if builder.through_torch else reason
    except CannotLower as refusal:
        complaint = f"{reason}; torch cannot run it either, since {refusal}"
    (builder.fallbacks if complaint is None else builder.refused).append(
        (context.node, complaint or reason)
    )


def _lower(context: Context) -> None:
    node = context.node
    if node.kernel is not None:
        lower_launch(context, node.kernel)
        return
    handler = handler_of(node.op)
    bound = bind(handler, node.args, dict(node.kwargs), leading=1)
    handler(context, *bound.args, **bound.kwargs)
