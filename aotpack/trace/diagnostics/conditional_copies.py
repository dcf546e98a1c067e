"""Copies that eager makes for some sizes, of memory that is changed in place.

``x.reshape(-1)`` and ``x.contiguous()`` are views where ``x`` is contiguous, and copies elsewhere:

    c[:, :n].reshape(-1).add_(1)        changes c where n is all of its columns

Where sizes of inputs decide that by the order of memory, a program is tried for each case
(``assumed``); where they decide it otherwise (``reshaped``), or torch has a symbol of its own for a
size (data decide it, or a slice begins at a computed place), torch takes the copy for all. Then a
change of either side is refused.
"""

import operator
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from aotpack.errors import TraceError
from aotpack.trace.changes import aliased
from aotpack.trace.diagnostics.asked.questions import Contiguous
from aotpack.trace.diagnostics.derived import span_of
from aotpack.trace.diagnostics.reshaped import (
    Ranges,
    TooManySizesError,
    Values,
    example_sizes,
    number_of,
    sizes_of_another_way,
)
from aotpack.trace.source import users_source_of

_ATEN = torch.ops.aten
_MAY_COPY = {
    _ATEN.contiguous.default,
    _ATEN.flatten.using_ints,
    _ATEN.ravel.default,
    _ATEN.reshape.default,
    _ATEN.reshape_as.default,
}
_OPEN = "which the sizes of inputs do not decide"


def check_conditional_copies(name: str, program: ExportedProgram) -> None:
    """Refuse a program that changes memory of which it has made a view for some sizes alone."""
    spans = {symbol: span_of(bounds) for symbol, bounds in program.range_constraints.items()}
    for part in program.graph_module.modules():
        if isinstance(part, fx.GraphModule):
            _check(name, part.graph, spans)


def _check(name: str, graph: fx.Graph, spans: Ranges) -> None:
    memory = _Memory()
    copies: dict[fx.Node, fx.Node] = {}  # by the memory of which they are a copy, or a view
    reshaped: list[fx.Node] = []
    for node in graph.nodes:
        written = memory.add(node)
        if node.target in _MAY_COPY:
            if _is_open(node.all_input_nodes[0].meta.get("val")):
                copies.setdefault(memory.roots[node], node)
            elif node.target is not _ATEN.contiguous.default:  # the order of memory decides alone
                reshaped.append(node)
        for root in (memory.roots[value] for value in written):
            if root in copies:
                raise _refusal(name, copies[root], node, _OPEN)
    for one in reshaped:
        change = memory.seen_on_the_other_side(one)
        if change is not None:
            _check_reshaped(name, one, change, example_sizes(graph), spans)


@dataclass(frozen=True, slots=True)
class _Memory:
    """Which values of a graph share memory, and its changes. Nodes are added in their order."""

    order: dict[fx.Node, int] = field(default_factory=dict)
    roots: dict[fx.Node, fx.Node] = field(default_factory=dict)  # whose memory each value shares
    sources: dict[fx.Node, fx.Node] = field(default_factory=dict)  # what each alias is made of
    families: dict[fx.Node, list[fx.Node]] = field(default_factory=dict)  # by the root
    writes: dict[fx.Node, list[tuple[fx.Node, fx.Node]]] = field(default_factory=dict)
    """By the root: the value that is changed, and the call."""

    def add(self, node: fx.Node) -> list[fx.Node]:
        """Add a node; the values whose memory it changes."""
        of_memory = list(_aliases(node))
        self.order[node] = len(self.order)
        self.roots[node] = self.roots[of_memory[0][0]] if of_memory else node
        self.sources.update({node: of_memory[0][0]} if of_memory else {})
        self.families.setdefault(self.roots[node], []).append(node)
        written = [value for value, is_written in of_memory if is_written]
        for value in written:
            self.writes.setdefault(self.roots[value], []).append((value, node))
        return written

    def seen_on_the_other_side(self, copy: fx.Node) -> fx.Node | None:
        """A later change of what is reshaped, or of the result, that the other would show.

        That is so where the other is read. Inputs and weights are always read: their memory
        outlives the call.
        """
        root = self.roots[copy]
        later = [
            pair for pair in self.writes.get(root, ()) if self.order[pair[1]] > self.order[copy]
        ]
        made = {copy}
        for node in self.families[root] if later else ():
            if self.sources.get(node) in made:
                made.add(node)
        for value, change in later:
            is_made = value in made
            if is_made and root.op in ("placeholder", "get_attr"):
                return change
            others = (node for node in self.families[root] if (node in made) != is_made)
            if any(self.order[user] > self.order[change] for node in others for user in node.users):
                return change
        return None


def _check_reshaped(
    name: str, copy: fx.Node, change: fx.Node, example: Values, spans: Ranges
) -> None:
    try:
        case = sizes_of_another_way(copy, example, spans)
    except TooManySizesError:
        how = "which their ranges do not tell (give the dimensions narrower ones)"
        raise _refusal(name, copy, change, how) from None
    if case is not None:
        shapes = ([*one.meta["val"].shape] for one in (copy.all_input_nodes[0], copy))
        before, after = ([number_of(size, case) for size in shape] for shape in shapes)
        how = f"not as for the example where a tensor of {before} becomes {after}"
        raise _refusal(name, copy, change, how)


def _aliases(node: fx.Node) -> Iterator[tuple[fx.Node, bool]]:
    """The tensors whose memory a call returns or writes to, and whether it writes."""
    if node.target is operator.getitem:
        yield node.all_input_nodes[0], False
    elif isinstance(node.target, OpOverload):
        for argument, value in aliased(node):
            for leaf in pytree.tree_leaves(value):
                if isinstance(leaf, fx.Node):
                    yield leaf, argument.alias_info.is_write


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


def _refusal(name: str, copy: fx.Node, change: fx.Node, how: str) -> TraceError:
    lines = dict.fromkeys(map(users_source_of, (copy, change)))
    places = "".join(f"\n  at {line}" for line in lines if line is not None)
    return TraceError(
        f"tracing {name}: {copy.target} gives a view for some sizes and a copy for others, {how}, "
        f"and {change.target} changes its memory in place; write .clone() before the change, or "
        f"change the tensor itself by an index.{places}"
    )
