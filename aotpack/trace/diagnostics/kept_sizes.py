"""Refuses programs whose dynamic sizes are numbers once mutation is removed.

torch computes the change of some views, such as those of ``unbind``, for the example's sizes.
"""

import operator
from collections.abc import Iterator

import torch
from torch import fx
from torch.export import ExportedProgram

from aotpack.errors import UnsupportedError
from aotpack.trace.source import users_source_of


def fixed_sizes(program: ExportedProgram) -> frozenset[tuple[str, int]]:
    """Inputs and dimensions whose dynamic size is a number: a ``Dim.AUTO`` that export fixed."""
    return frozenset(
        (name, axis)
        for name, tensor in _inputs(program)
        for axis, size in enumerate(tensor.shape)
        if isinstance(size, torch.SymInt) and size.node.expr.is_number
    )


def check_sizes_kept(
    decomposed: ExportedProgram, program: ExportedProgram, fixed: frozenset[tuple[str, int]]
) -> None:
    """Raise ``UnsupportedError`` for a dynamic size of ``program`` that is a number by now.

    Those of ``fixed`` were numbers before.
    """
    for name, axis in sorted(fixed_sizes(decomposed) - fixed):
        size = dict(_inputs(decomposed))[name].shape[axis]
        raise UnsupportedError(
            f"dimension {axis} of argument '{name}' is dynamic, and torch replaces a change in "
            f"place by one for size {size} alone{_places(program.graph)}Make a new tensor instead "
            "of changing a view, or leave the dimension out of the dynamic shapes"
        )


def _inputs(program: ExportedProgram) -> Iterator[tuple[str, torch.Tensor]]:
    """The user's tensors, each with its name."""
    given = {*program.graph_signature.user_inputs}
    for node in program.graph.find_nodes(op="placeholder"):
        if node.name in given and isinstance(node.meta.get("val"), torch.Tensor):
            yield node.name, node.meta["val"]


def _places(graph: fx.Graph) -> str:
    """Where views are changed in place, as the end of a sentence."""
    lines = dict.fromkeys(
        f"\n  at {source}"
        for node in graph.nodes
        if _changes_a_view(node) and (source := users_source_of(node)) is not None
    )
    return ":" + "".join(lines) + "\n" if lines else ". "


def _changes_a_view(node: fx.Node) -> bool:
    """True for an operator in place on what another one makes of a tensor's memory."""
    target, first = node.target, next(iter(node.args), None)
    if not isinstance(target, torch._ops.OpOverload) or not target._schema.is_mutable:
        return False
    if isinstance(first, fx.Node) and first.target is operator.getitem:
        first = first.args[0]
    return (
        isinstance(first, fx.Node)
        and isinstance(first.target, torch._ops.OpOverload)
        and first.target.is_view
    )
