"""Calls that take graphs: cond, while_loop, map and scan, with the assertions inside them.

An assertion in a graph becomes an additional result, and its flag is set outside. The condition is
True in a branch that is not taken; for a loop it is the conjunction over all iterations.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import fx

from aotpack.errors import UnsupportedError
from aotpack.ir.dtypes import DType
from aotpack.stages import Arg, Body, GraphNode, Ref, TensorSpec
from aotpack.trace.arguments import ArgumentReader
from aotpack.trace.operators.assertions import Asserted, conjunction, refuse_in_test, true_condition
from aotpack.trace.operators.control_flow.control import (
    COND,
    MAP,
    SCAN,
    WHILE_LOOP,
    is_part,
    part_of,
    part_results,
)
from aotpack.trace.source import source_of
from aotpack.trace.weights import dtype_of


class ControlReader(ArgumentReader, ABC):
    """Reads calls that take graphs; ``asserted`` are the assertions of the current graph."""

    asserted: list[Asserted]

    @abstractmethod
    def _read_all(self, graph: fx.Graph, results: Sequence[fx.Node]) -> tuple[GraphNode, ...]:
        """The calls of a graph that the results depend on, in order."""

    def _control(self, node: fx.Node) -> tuple[GraphNode, ...]:
        """A call that takes graphs, which refer to outer tensors by name."""
        name = self.unused(node.name)
        self._refs[node] = Ref(name)
        parts = [arg for arg in node.args if isinstance(arg, fx.Node) and is_part(arg)]
        rest: list[Any] = [arg for arg in node.args if arg not in parts]
        *given, around = rest
        operands: list[Arg] = []
        slices: tuple[TensorSpec, ...] = ()
        if node.target in (WHILE_LOOP, SCAN):
            operands += [Ref(name, number) for number in range(len(given[0]))]
        if node.target in (MAP, SCAN):
            slices = tuple(self._slice(f"{name}_slice", whole) for whole in given[-1])
            operands += [Ref(part.name) for part in slices]
        operands += map(self._arg, around)
        bodies = [self._body(part_of(part), operands, slices) for part in parts]
        call = GraphNode(
            name=name,
            op=f"higher_order.{node.target}",
            args=tuple(map(self._predicate if node.target is COND else self._arg, given)),
            kwargs=(),
            results=self._results(name, node.meta["val"]),
            source=source_of(node),
            bodies=tuple(body for body, _ in bodies),
        )
        inside = [found for _, found in bodies]
        if not any(inside):
            return (call,)
        if node.target is COND:
            return (self._lift_from_branches(call, inside),)
        if node.target is WHILE_LOOP:
            refuse_in_test(inside[0])
            return self._lift_from_while(call, inside[1])
        return self._lift_from_scan(call, inside[0], given[-1][0])

    def _slice(self, name: str, whole: fx.Node) -> TensorSpec:
        """One iteration's slice of a tensor along the first dimension."""
        value = whole.meta["val"]
        shape = tuple(map(self._sizes.convert, value.shape[1:]))
        return TensorSpec(self.unused(name), dtype_of(value.dtype, "a slice"), shape)

    def _body(
        self, module: fx.GraphModule, operands: Sequence[Arg], slices: tuple[TensorSpec, ...]
    ) -> tuple[Body, list[Asserted]]:
        """A graph, and the assertions in it."""
        given = [node for node in module.graph.nodes if node.op == "placeholder"]
        for placeholder, operand in zip(given, operands, strict=True):
            if isinstance(operand, Ref):
                self._refs[placeholder] = operand
            elif isinstance(placeholder.meta["val"], torch.SymInt):
                self._sizes.define(placeholder.meta["val"], operand)
        results = part_results(module)
        around, self.asserted = self.asserted, []
        nodes = self._read_all(module.graph, [r for r in results if isinstance(r, fx.Node)])
        found, self.asserted = self.asserted, around
        return Body(nodes, tuple(map(self._arg, results)), slices), found

    def _predicate(self, value: Any) -> Arg:
        """A tensor, or a condition on sizes as 0 or 1."""
        if isinstance(value, fx.Node) and value not in self._refs:
            value = value.meta["val"]
        return self._sizes.truth(value) if isinstance(value, torch.SymBool) else self._arg(value)

    # --- assertions in graphs --------------------------------------------------------------

    def _lift_from_branches(self, call: GraphNode, inside: Sequence[list[Asserted]]) -> GraphNode:
        """Each side returns its conditions, and True for those of the other side."""
        sides = []
        for own, body in enumerate(call.bodies):
            holds = true_condition(self.unused(f"{call.name}_holds"))
            given = tuple(
                one.condition if side == own else Ref(holds.name)
                for side, found in enumerate(inside)
                for one in found
            )
            sides.append(replace(body, nodes=(*body.nodes, holds), outputs=(*body.outputs, *given)))
        found = [one for part in inside for one in part]
        refs, call = _with_conditions(replace(call, bodies=tuple(sides)), len(found), ())
        self._lift(found, refs)
        return call

    def _lift_from_while(self, call: GraphNode, found: list[Asserted]) -> tuple[GraphNode, ...]:
        """Carry the conjunction over the iterations so far as loop state."""
        test, body = call.bodies
        (carried,) = call.args
        assert isinstance(carried, tuple)
        holds = true_condition(self.unused(f"{call.name}_holds"))
        refs, call = _with_conditions(call, len(found), ())
        joined = tuple(
            conjunction(self.unused(f"{call.name}_held"), so_far, one.condition)
            for so_far, one in zip(refs, found, strict=True)
        )
        outputs = (*body.outputs, *(Ref(one.name) for one in joined))
        body = replace(body, nodes=(*body.nodes, *joined), outputs=outputs)
        self._lift(found, refs)
        args = ((*carried, *[Ref(holds.name)] * len(found)),)
        return holds, replace(call, args=args, bodies=(test, body))

    def _lift_from_scan(
        self, call: GraphNode, found: list[Asserted], whole: fx.Node
    ) -> tuple[GraphNode, ...]:
        """Stack the conditions of the iterations; all must be True."""
        (body,) = call.bodies
        given = (*body.outputs, *(one.condition for one in found))
        iterations = (self._sizes.convert(whole.meta["val"].shape[0]),)
        call = replace(call, bodies=(replace(body, outputs=given),))
        refs, call = _with_conditions(call, len(found), iterations)
        every = []
        for ref in refs:
            name = self.unused(f"{call.name}_held")
            spec = TensorSpec(name, DType.BOOL, ())
            every.append(GraphNode(name, "aten.all.default", (ref,), (), (spec,), call.source))
        self._lift(found, [Ref(one.name) for one in every])
        return (call, *every)

    def _lift(self, found: Sequence[Asserted], refs: Sequence[Ref]) -> None:
        """Make the assertions of a body those of the enclosing graph."""
        pairs = zip(found, refs, strict=True)
        self.asserted += [replace(one, condition=ref) for one, ref in pairs]


def _with_conditions(
    call: GraphNode, count: int, shape: tuple[Any, ...]
) -> tuple[list[Ref], GraphNode]:
    """The call with ``count`` conditions after its results."""
    first = len(call.results)
    names = [f"{call.name}.{first + number}" for number in range(count)]
    if not first:
        raise UnsupportedError("it asserts, and gives nothing; return a tensor from it")
    specs = tuple(TensorSpec(name, DType.BOOL, shape) for name in names)
    refs = [Ref(call.name, first + number) for number in range(count)]
    return refs, replace(call, results=(*call.results, *specs))
