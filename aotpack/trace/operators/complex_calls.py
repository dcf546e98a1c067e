"""Calls with complex tensors -> ``GraphNode``s on pairs of reals."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import torch
from torch import fx

from aotpack.ir.dtypes import DType
from aotpack.ir.symbolic.integers import Int, Var
from aotpack.stages import Arg, GraphNode, Ref, TensorSpec
from aotpack.trace.arguments import is_number
from aotpack.trace.complex_numbers.expansion import expanded, results
from aotpack.trace.complex_pairs import (
    ARITHMETIC,
    CONVERSION,
    COUNTING,
    FROM_REALS,
    ON_PAIRS,
    REALS,
    converted,
    is_complex,
    moved_arguments,
    moves,
)
from aotpack.trace.operators.control_flow.bodies import ControlReader
from aotpack.trace.sizes import Sizes
from aotpack.trace.source import source_of
from aotpack.trace.weights import dtype_of


class ComplexReader(ControlReader):
    """Reads calls that take or yield complex tensors."""

    def __init__(self, sizes: Sizes, refs: Mapping[fx.Node, Ref]) -> None:
        super().__init__(sizes, refs)
        self._parts: dict[fx.Node, list[Ref]] = {}  # the results of calls that yield several

    @abstractmethod
    def _call(self, node: fx.Node) -> tuple[GraphNode, ...]:
        """The calls that a node becomes."""

    @abstractmethod
    def _checks(self, node: fx.Node) -> tuple[GraphNode, ...]:
        """The index checks of a call."""

    @abstractmethod
    def _counts(self, node: fx.Node) -> tuple[Var, ...]:
        """The sizes that a call yields."""

    def _complex_call(self, node: fx.Node) -> tuple[GraphNode, ...]:
        op = str(node.target)
        if op == COUNTING:
            return self._counted_truth(node)
        if op == CONVERSION and node.meta["val"].dtype is not torch.bool:
            return (self._named(node, converted(node), (self._arg(node.args[0]),)),)
        if node.kwargs or (op in ARITHMETIC and len(node.args) > 2):
            return self._expanded(node)
        if moves(node):
            moved = tuple(map(self._arg, moved_arguments(node)))
            return (*self._checks(node), self._named(node, ON_PAIRS.get(op, op), moved))
        if op in FROM_REALS:
            return (self._named(node, FROM_REALS[op], tuple(map(self._arg, node.args))),)
        return self._arithmetic(node) if op in ARITHMETIC else self._expanded(node)

    def _arithmetic(self, node: fx.Node) -> tuple[GraphNode, ...]:
        before: list[GraphNode] = []
        args: list[Arg] = []
        for value in node.args:
            if is_complex(value) and (not is_complex(node) or _dtype(value) is _dtype(node)):
                args.append(self._arg(value))
                continue
            made = self._as_pair(node, value)
            before.append(made)
            args.append(Ref(made.name))
        return (*before, self._named(node, ARITHMETIC[str(node.target)], tuple(args)))

    def _counted_truth(self, node: fx.Node) -> tuple[GraphNode, ...]:
        """The places of numbers of which a part is not 0."""
        pairs, source = self._arg(node.args[0]), source_of(node)
        (given,) = node.all_input_nodes
        shape = tuple(map(self._sizes.convert, given.meta["val"].shape))
        parts, whole = (self.unused(f"{node.name}_{name}") for name in ("parts", "mask"))
        first = TensorSpec(parts, DType.BOOL, (*shape, Int.of(2)))
        second = TensorSpec(whole, DType.BOOL, shape)
        return (
            GraphNode(parts, "aten.ne.Scalar", (pairs, 0), (), (first,), source),
            GraphNode(whole, "aten.any.dim", (Ref(parts), len(shape)), (), (second,), source),
            self._named(node, COUNTING, (Ref(whole),)),
        )

    def _as_pair(self, node: fx.Node, value: Any) -> GraphNode:
        """An operand of complex arithmetic that is real, constant or of another precision."""
        shape = getattr(value.meta["val"], "shape", ()) if isinstance(value, fx.Node) else ()
        real = REALS[node.meta["val"].dtype]
        name = self.unused(f"{node.name}_operand")
        result = TensorSpec(
            name, dtype_of(real, "a result"), (*map(self._sizes.convert, shape), Int.of(2))
        )
        op, args = "pair.convert" if is_complex(value) else "pair.of_real", [value]
        if isinstance(value, complex):
            op, args = "pair.complex", [value.real, value.imag]
        return GraphNode(name, op, tuple(map(self._arg, args)), (), (result,), source_of(node))

    def _expanded(self, node: fx.Node) -> tuple[GraphNode, ...]:
        """A call that is a formula of others."""
        graph = expanded(node)
        places = [one for one in graph.nodes if one.op == "placeholder"]
        pairs = zip(places, node.all_input_nodes, strict=True)
        self._refs.update({place: self._refs[one] for place, one in pairs if one in self._refs})
        made: list[GraphNode] = []
        for one in graph.nodes:
            if one.op not in ("placeholder", "output") and not is_number(one):
                made += self._call(one)
        found = [self._refs[one] for one in results(graph)]
        if isinstance(node.meta["val"], (list, tuple)):
            self._parts[node] = found
        else:
            (self._refs[node],) = found
        return tuple(made)

    def _named(self, node: fx.Node, op: str, args: tuple[Arg, ...]) -> GraphNode:
        """A call without options, and the name of its result."""
        name = self.unused(node.name)
        self._refs[node] = Ref(name)
        results, counts = self._results(name, node.meta["val"]), self._counts(node)
        return GraphNode(name, op, args, (), results, source_of(node), counts=counts)


def _dtype(node: Any) -> torch.dtype:
    found: torch.dtype = node.meta["val"].dtype
    return found
