"""The names by which a call passes its arguments: those of forward's parameters."""

import inspect
from collections.abc import Collection
from dataclasses import replace

from torch import nn
from torch.export import ExportedProgram

from aotpack.stages import Graph
from aotpack.trace.tree import children_of

_Kind = inspect.Parameter


def with_positional_names(
    graph: Graph, model: nn.Module | ExportedProgram, program: ExportedProgram
) -> Graph:
    """The graph with the names of what a call may pass by position.

    These are the positional inputs of the example, then its keyword inputs in forward's order up to
    the first parameter that the example left out: what follows would not stand where it stands in a
    call of the model. A saved program does not tell the order of its keywords.
    """
    args, kwargs = children_of(program.call_spec.in_spec)
    count = len(children_of(args))
    if isinstance(model, ExportedProgram):
        called = model.module_call_graph[0].signature
        known = tuple((called and called.forward_arg_names) or ())[:count]
        names = known or tuple(f"args[{number}]" for number in range(count))
    else:
        names = _names(inspect.signature(model.forward), count, kwargs.context or ())
    return replace(graph, signature=replace(graph.signature, positional=names))


def _names(forward: inspect.Signature, count: int, keywords: Collection[str]) -> tuple[str, ...]:
    names: list[str] = []
    for name, parameter in forward.parameters.items():
        if parameter.kind is _Kind.VAR_POSITIONAL:
            return (*names, *(f"{name}[{number}]" for number in range(count - len(names))))
        is_left_out = len(names) >= count and name not in keywords
        if is_left_out or parameter.kind in (_Kind.KEYWORD_ONLY, _Kind.VAR_KEYWORD):
            break
        names.append(name)
    return tuple(names)
