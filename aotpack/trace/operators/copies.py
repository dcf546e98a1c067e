"""Copies into whole tensors: of other types or shapes, and of one source.

torch's functionalisation makes the source of ``buffer.copy_(source)`` the new value as it is. Here
the source is converted and expanded first, as eager does; and since torch tells changed buffers by
the names of their new values, each has a value of its own:

    a.copy_(x)   ->   a.copy_(x)
    b.copy_(x)        b.copy_(x.clone())

Branches and loops, which change nothing in place, are given operands that share no memory: torch
takes no others.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import fx
from torch._dynamo import output_graph
from torch._export import utils as export_names
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils import _pytree as pytree

from aotpack.trace.operators.control_flow.control import CONTROL, MAP
from aotpack.trace.operators.modes import patched

_ATEN = torch.ops.aten


def inserted(owner: fx.Node, target: Any, /, *args: Any, **kwargs: Any) -> fx.Node:
    """A new call, where the graph inserts, that belongs to the line of its ``owner``."""
    new = owner.graph.call_function(target, args, kwargs)
    if "stack_trace" in owner.meta:
        new.meta["stack_trace"] = owner.meta["stack_trace"]
    return new


@contextmanager
def converted_copies(program: ExportedProgram) -> Iterator[None]:
    """Inside the block, sources of copies have the type and shape of their destinations.

    No two copies have one source.
    """
    graphs = _graphs(program)
    copies = [
        (node, node.args)
        for graph in graphs
        for node in graph.nodes
        if node.target is _ATEN.copy_.default
    ]
    added = [new for node, _ in copies for new in _convert(node)]
    added += [new for graph in graphs for new in _separate(graph)]
    try:
        yield
    finally:
        for node, args in copies:
            node.args = args
        for new in reversed(added):
            new.graph.erase_node(new)


def _graphs(program: ExportedProgram) -> list[fx.Graph]:
    """The program's graph, and those of its branches and loops."""
    return [m.graph for m in program.graph_module.modules() if isinstance(m, fx.GraphModule)]


@contextmanager
def separate_operands(program: ExportedProgram) -> Iterator[None]:
    """Inside the block, no two operands of a branch or a loop share memory."""
    calls = [(n, n.args) for graph in _graphs(program) for n in graph.nodes if n.target in CONTROL]
    added = [new for node, _ in calls for new in _separate_operands(node)]
    try:
        yield
    finally:
        for node, args in calls:
            node.args = args
        for new in reversed(added):
            new.graph.erase_node(new)


@contextmanager
def shared_operands() -> Iterator[None]:
    """Inside the block, torch exports loops whose operands share memory, as it does branches.

    Dynamo refuses them for what a loop may change, and a package's loops change nothing in place.
    torch.export names the inputs of the body of ``map`` like the operands, of which one may come
    twice.
    """

    def asking(before: Callable[..., Any]) -> Callable[..., Any]:
        return lambda traced: before(_Traced(_Apart(traced.graph)))

    tracer = getattr(output_graph, "SubgraphTracer", None)
    naming = partial(partial, _name_inputs)
    with (
        patched(tracer, "has_aliasing", asking),
        patched(export_names, "_name_hoo_subgraph_placeholders", naming),
    ):
        yield


def _name_inputs(naming: Callable[[fx.GraphModule], None], module: fx.GraphModule) -> None:
    """Name the inputs of bodies, each by a name of its own."""
    calls = [(n, n._args) for n in module.graph.find_nodes(op="call_function", target=MAP)]
    for node, (body, *operands) in calls:
        taken: set[str] = set()
        node._args = (body, *([_named(one, taken) for one in part] for part in operands))
    try:
        naming(module)
    finally:
        for node, args in calls:
            node._args = args


@dataclass(frozen=True, slots=True)
class _Named:
    """What torch reads of an operand to name an input."""

    name: str


def _named(operand: Any, taken: set[str]) -> Any:
    if not isinstance(operand, fx.Node):
        return operand
    names = (operand.name, *(f"{operand.name}_{number}" for number in range(1, len(taken) + 1)))
    name = next(one for one in names if one not in taken)
    taken.add(name)
    return _Named(name)


@dataclass(frozen=True, slots=True)
class _Apart:
    """A graph without the inputs that share memory with earlier ones."""

    graph: fx.Graph

    @property
    def nodes(self) -> list[fx.Node]:
        taken: set[StorageWeakRef] = set()
        return [node for node in self.graph.nodes if not _is_taken(node, taken)]

    def find_nodes(self, **kinds: Any) -> list[fx.Node]:
        return self.graph.find_nodes(**kinds)


@dataclass(frozen=True, slots=True)
class _Traced:
    """What dynamo looks at to see which tensors of a body share memory."""

    graph: _Apart


def _is_taken(node: fx.Node, taken: set[StorageWeakRef]) -> bool:
    """True for an input whose memory is ``taken``; that of others becomes so."""
    value = node.meta.get("example_value") if node.op == "placeholder" else None
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return False
    memory = StorageWeakRef(value.untyped_storage())  # type: ignore[no-untyped-call]
    is_taken = memory in taken
    taken.add(memory)
    return is_taken


def _separate_operands(node: fx.Node) -> list[fx.Node]:
    """Clone operands that share memory with earlier ones; the new nodes."""
    taken: set[StorageWeakRef] = set()
    added: list[fx.Node] = []

    def own(operand: Any) -> Any:
        value = operand.meta.get("val") if isinstance(operand, fx.Node) else None
        if not isinstance(value, torch.Tensor):
            return operand
        memory = StorageWeakRef(value.untyped_storage())  # type: ignore[no-untyped-call]
        if memory not in taken:
            taken.add(memory)
            return operand
        clone = inserted(node, _ATEN.clone.default, operand)
        clone.meta["val"] = value
        added.append(clone)
        return clone

    with node.graph.inserting_before(node):
        node.args = pytree.tree_map(own, node.args)
    return added


def _convert(node: fx.Node) -> list[fx.Node]:
    """Insert what the source of a copy needs; the new nodes in order."""
    destination, source = node.args[:2]
    if not isinstance(destination, fx.Node) or not isinstance(source, fx.Node):
        return []
    wanted, given = destination.meta["val"], source.meta["val"]
    added: list[fx.Node] = []
    with node.graph.inserting_before(node):
        if given.dtype != wanted.dtype:
            source = inserted(node, _ATEN.to.dtype, source, wanted.dtype)
            given = given.to(wanted.dtype)
            source.meta["val"] = given
            added.append(source)
        if tuple(given.shape) != tuple(wanted.shape):
            source = inserted(node, _ATEN.expand_as.default, source, destination)
            source.meta["val"] = given.expand_as(wanted)
            added.append(source)
    if added:
        node.args = (destination, source, *node.args[2:])
    return added


def _separate(graph: fx.Graph) -> list[fx.Node]:
    """Clone sources that earlier copies have had, or that were written to; the new nodes."""
    taken: set[fx.Node] = set()
    added = []
    for node in list(graph.nodes):
        if not isinstance(node.target, OpOverload) or not node.target._schema.is_mutable:
            continue
        if node.target is _ATEN.copy_.default and node.args[1] in taken:
            destination, source, *rest = node.args
            with graph.inserting_before(node):
                clone = inserted(node, _ATEN.clone.default, source)
            clone.meta["val"] = node.meta["val"]
            node.args = (destination, clone, *rest)
            added.append(clone)
        given = node.args[:2] if node.target is _ATEN.copy_.default else node.args[:1]
        taken |= {node, *(one for one in given if isinstance(one, fx.Node))}
    return added
