"""The names by which a call passes its arguments: those of forward's parameters; their defaults."""

import inspect
from collections.abc import Container
from dataclasses import replace

from torch import nn
from torch.export import ExportedProgram

from aotpack.stages import Graph
from aotpack.trace.tree import children_of
from aotpack.trees import Constant

_Kind = inspect.Parameter
_PLAIN = (type(None), bool, int, float, str)


def with_parameters(
    graph: Graph, model: nn.Module | ExportedProgram, program: ExportedProgram
) -> Graph:
    """The graph with the names of what a call may pass by position, and with defaults.

    The names are the positional inputs of the example, then forward's parameters in order, up to
    the first that the example left out and whose default no call can pass: what follows would not
    stand where it stands in a call of the model. A saved program tells neither the order of its
    keywords nor defaults.
    """
    args, kwargs = children_of(program.call_spec.in_spec)
    count, keywords = len(children_of(args)), kwargs.context or ()
    defaults: dict[str, Constant] = {}
    if isinstance(model, ExportedProgram):
        called = model.module_call_graph[0].signature
        known = tuple((called and called.forward_arg_names) or ())[:count]
        names = known or tuple(f"args[{number}]" for number in range(count))
    else:
        forward = inspect.signature(model.forward)
        defaults = _defaults(forward, count, keywords)
        names = _names(forward, count, {*keywords, *defaults})
    made = replace(graph.signature, positional=names, defaults=(*defaults.items(),))
    return replace(graph, signature=made)


def _defaults(
    forward: inspect.Signature, count: int, keywords: Container[str]
) -> dict[str, Constant]:
    """The parameters that the example left out, as far as a call can pass their defaults."""
    placed = (_Kind.POSITIONAL_ONLY, _Kind.POSITIONAL_OR_KEYWORD)
    found = {}
    for place, parameter in enumerate(forward.parameters.values()):
        is_given = parameter.name in keywords or (parameter.kind in placed and place < count)
        if not is_given and type(parameter.default) in _PLAIN:
            found[parameter.name] = parameter.default
    return found


def _names(forward: inspect.Signature, count: int, keywords: Container[str]) -> tuple[str, ...]:
    names: list[str] = []
    for name, parameter in forward.parameters.items():
        if parameter.kind is _Kind.VAR_POSITIONAL:
            return (*names, *(f"{name}[{number}]" for number in range(count - len(names))))
        is_left_out = len(names) >= count and name not in keywords
        if is_left_out or parameter.kind in (_Kind.KEYWORD_ONLY, _Kind.VAR_KEYWORD):
            break
        names.append(name)
    return tuple(names)
