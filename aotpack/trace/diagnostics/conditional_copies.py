"""Copies that eager makes for some sizes, of memory that is changed in place.

``x.reshape(-1)`` and ``x.contiguous()`` are views where ``x`` is contiguous, and copies elsewhere:

    c[:, :n].reshape(-1).add_(1)        changes c where n is all of its columns

Where sizes of inputs decide that, a program is tried for each case (``assumed``). Where torch has a
symbol of its own for a size (data decide it, or a slice begins at a computed place), torch takes
the copy for all. Then a change of either side is refused.
"""

import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload
from torch.export import ExportedProgram

from aotpack.errors import TraceError
from aotpack.trace.diagnostics.branches import Contiguous
from aotpack.trace.source import users_source_of

_ATEN = torch.ops.aten
_MAY_COPY = {
    _ATEN.contiguous.default,
    _ATEN.flatten.using_ints,
    _ATEN.ravel.default,
    _ATEN.reshape.default,
    _ATEN.reshape_as.default,
}


def check_conditional_copies(name: str, program: ExportedProgram) -> None:
    """Refuse a program that changes memory of which it has made a view for some sizes alone."""
    for part in program.graph_module.modules():
        if isinstance(part, fx.GraphModule):
            _check(name, part.graph)


def _check(name: str, graph: fx.Graph) -> None:
    roots: dict[fx.Node, fx.Node] = {}
    copies: dict[fx.Node, fx.Node] = {}  # by the memory of which they are a copy, or a view
    for node in graph.nodes:
        source = node.all_input_nodes[0] if node.all_input_nodes else node
        roots[node] = roots[source] if _is_view(node) else node
        if node.target in _MAY_COPY and _is_open(source.meta.get("val")):
            copies.setdefault(roots[source], node)
        for changed in _changed(node):
            if (copy := copies.get(roots[changed])) is not None:
                raise _refusal(name, copy, node)


def _is_view(node: fx.Node) -> bool:
    """True also for an element of several views."""
    target = node.target
    return target is operator.getitem or (isinstance(target, OpOverload) and target.is_view)


def _is_open(tensor: Any) -> bool:
    """True where a size that no input has decides whether a tensor is contiguous."""
    if not isinstance(tensor, torch.Tensor):
        return False
    sizes = [*tensor.shape, *tensor.stride()]
    known = [one for one in sizes if isinstance(one, torch.SymInt)]
    if not any(map(_has_own_symbol, known)):
        return False
    return bool(Contiguous(tuple(tensor.shape), tensor.stride()).condition.free_symbols)


def _has_own_symbol(size: torch.SymInt) -> bool:
    environment = size.node.shape_env
    return any(map(environment.is_unbacked_symint, size.node.expr.free_symbols))


def _changed(node: fx.Node) -> Iterator[fx.Node]:
    """The tensors that a call changes in place."""
    if isinstance(node.target, OpOverload) and node.target._schema.is_mutable:
        arguments = node.target._schema.arguments
        given = {one.name: value for one, value in zip(arguments, node.args, strict=False)}
        for argument in arguments:
            value = {**given, **node.kwargs}.get(argument.name)
            is_written = argument.alias_info is not None and argument.alias_info.is_write
            if is_written and isinstance(value, fx.Node):
                yield value


def _refusal(name: str, copy: fx.Node, change: fx.Node) -> TraceError:
    lines = dict.fromkeys(map(users_source_of, (copy, change)))
    places = "".join(f"\n  at {line}" for line in lines if line is not None)
    return TraceError(
        f"tracing {name}: {copy.target} gives a view for some sizes and a copy for others, which "
        f"the sizes of inputs do not decide, and {change.target} changes its memory in place; "
        f"write .clone() before the change, or change the tensor itself by an index.{places}"
    )
