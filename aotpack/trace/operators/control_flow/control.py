"""torch's higher-order operators: their table, their semantics and their graph arguments.

``torch.cond``, ``while_loop``, ``map`` and ``scan`` arrive in the graph as calls that take graphs.
Loop-carried numbers use Python's operators; a package computes them as tensors.
"""

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import fx
from torch._higher_order_ops import invoke_subgraph as _subgraph  # noqa: F401  (defines it)
from torch._higher_order_ops import map as _map  # noqa: F401  (defines map_impl)
from torch._higher_order_ops import scan as _scan  # noqa: F401  (defines scan)
from torch.export import ExportedProgram

from aotpack.errors import TraceError

Part: TypeAlias = Callable[..., Sequence[Any]]

COND = torch.ops.higher_order.cond
WHILE_LOOP = torch.ops.higher_order.while_loop
MAP = torch.ops.higher_order.map_impl
SCAN = torch.ops.higher_order.scan

SUBGRAPH = torch.ops.higher_order.invoke_subgraph

NUMBER_OPERATORS: dict[Any, str] = {
    operator.add: "operator.add",
    operator.sub: "operator.sub",
    operator.mul: "operator.mul",
    operator.floordiv: "operator.floordiv",
    operator.mod: "operator.mod",
    operator.neg: "operator.neg",
    operator.truediv: "operator.truediv",
    operator.pow: "operator.pow",
    torch.sym_float: "operator.float",
    torch.sym_sqrt: "operator.sqrt",
    operator.lt: "operator.lt",
    operator.le: "operator.le",
    operator.gt: "operator.gt",
    operator.ge: "operator.ge",
    operator.eq: "operator.eq",
    operator.ne: "operator.ne",
    operator.and_: "operator.and_",
    operator.or_: "operator.or_",
    torch.sym_min: "operator.min",
    torch.sym_max: "operator.max",
    torch.sym_not: "operator.not_",
    torch.sym_ite: "operator.if",
}
"""What a package computes of numbers that a loop carries, or that are read from a tensor."""


def is_part(node: fx.Node) -> bool:
    """True for a node that stands for a graph in an operator's arguments."""
    return node.op == "get_attr" and isinstance(part_of(node), fx.GraphModule)


def part_of(node: fx.Node) -> Any:
    """The object that a get_attr node names."""
    module: Any = node.graph.owning_module
    for name in str(node.target).split("."):
        module = getattr(module, name)
    return module


def part_results(module: fx.GraphModule) -> tuple[Any, ...]:
    """The results of a graph, as a tuple."""
    (given,) = module.graph.output_node().args
    return tuple(given) if isinstance(given, (tuple, list)) else (given,)


def without_subgraphs(program: ExportedProgram) -> ExportedProgram:
    """The program with the bodies of ``invoke_subgraph`` in place of its calls.

    ``torch.compiler.nested_compile_region`` makes such calls in strict mode.
    """
    if all(node.target is not SUBGRAPH for node in program.graph.nodes):
        return program
    graph = fx.Graph()
    _copy_into(graph, program.graph_module, {}, "", "")
    module = fx.GraphModule(program.graph_module, graph)
    module.meta.update(program.graph_module.meta)
    return ExportedProgram(
        module,
        module.graph,
        program.graph_signature,
        program.state_dict,
        program.range_constraints,
        program.module_call_graph,
        program.example_inputs,
        program.constants,
        verifiers=program.verifiers,
    )


def _copy_into(
    graph: fx.Graph, module: fx.GraphModule, made: dict[fx.Node, Any], call: str, path: str
) -> None:
    """Add the nodes of a module; ``call`` names the call around it, ``path`` its place."""

    def mapped(value: Any) -> Any:
        return fx.node.map_arg(value, made.__getitem__)

    for node in module.graph.nodes:
        if node in made or (call and node.op == "output"):
            continue
        if node.target is SUBGRAPH:
            part, _, *given = node.args
            inner = part_of(part)
            places = inner.graph.find_nodes(op="placeholder")
            inside: dict[fx.Node, Any] = dict(zip(places, map(mapped, given), strict=True))
            own = f"{call}{node.name}_"
            _copy_into(graph, inner, inside, own, f"{path}{part.target}.")
            made[node] = fx.node.map_arg(part_results(inner), inside.__getitem__)
            continue
        target, args = node.target, node.args
        if target is operator.getitem and isinstance(made[args[0]], tuple):
            one = made[args[0]][args[1]]
            made[node] = graph.call_function(torch.ops.aten.alias.default, (one,))
        elif node.op == "get_attr":
            if all(user.target is SUBGRAPH for user in node.users):
                made[node] = None
                continue
            made[node] = graph.get_attr(f"{path}{target}")
        else:
            made[node] = graph.node_copy(node, made.__getitem__)
        made[node].name = f"{call}{node.name}"
        made[node].meta = {**node.meta}


class EndlessLoop(TraceError):
    """A while_loop took more turns than were allowed."""


@dataclass(slots=True)
class Turns:
    """The turns of the longest while_loop of a run, and the ``most`` that one may take."""

    most: float = math.inf
    longest: int = 0

    def count(self, turn: int) -> None:
        self.longest = max(self.longest, turn)
        if turn > self.most:
            raise EndlessLoop(f"running a while_loop: it takes more than {self.most:.0f} turns")


def as_part(module: fx.Interpreter) -> Part:
    """A graph as a function whose results are a tuple."""

    def run(*operands: Any) -> tuple[Any, ...]:
        given = module.run(*operands)
        return tuple(given) if isinstance(given, (tuple, list)) else (given,)

    return run


def run_control(target: Any, args: Sequence[Any], turns: Turns) -> Any:
    """Evaluate torch's operator; the graphs among ``args`` are functions."""
    return _while_loop(turns, *args) if target is WHILE_LOOP else _MEANINGS[target](*args)


def _cond(predicate: Any, first: Part, second: Part, operands: Sequence[Any]) -> Any:
    return (first if predicate else second)(*operands)


def _while_loop(
    turns: Turns, test: Part, body: Part, carried: Sequence[Any], operands: Sequence[Any]
) -> Any:
    state, turn = tuple(carried), 0
    while test(*state, *operands)[0]:
        turn += 1
        turns.count(turn)
        state = tuple(body(*state, *operands))
    return state


def _map_over(body: Part, slices: Sequence[Any], operands: Sequence[Any]) -> Any:
    turns = [body(*(x[i] for x in slices), *operands) for i in range(len(slices[0]))]
    return tuple(torch.stack(results) for results in zip(*turns, strict=True))


def _scan_over(
    body: Part, carried: Sequence[Any], slices: Sequence[Any], operands: Sequence[Any]
) -> Any:
    state, turns = tuple(carried), []
    for n in range(len(slices[0])):
        given = tuple(body(*state, *(x[n] for x in slices), *operands))
        state, stacked = given[: len(state)], given[len(state) :]
        turns.append(stacked)
    return (*state, *(torch.stack(results) for results in zip(*turns, strict=True)))


_MEANINGS: dict[Any, Callable[..., Any]] = {
    COND: _cond,
    MAP: _map_over,
    SCAN: _scan_over,
}
CONTROL = frozenset([WHILE_LOOP, *_MEANINGS])
