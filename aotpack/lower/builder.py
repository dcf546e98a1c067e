"""The program under construction: buffers under unique names, operations in order.

Rows S:A2, H13.
"""

from aotpack.ir.dtypes import DType
from aotpack.ir.integers import Axis, Int
from aotpack.ir.nodes import Buffer, Load, Operation, Origin, Pointwise, Program, Update, targets
from aotpack.stages import Graph, GraphNode, Ref, refs_in

WRITERS = frozenset(
    f"aten.{name}"
    for name in (
        "slice_scatter.default select_scatter.default index_copy.default index_put.default "
        "index_fill.int_Scalar index_fill.int_Tensor scatter.src scatter.value"
    ).split()
)
"""Operators whose result is their first argument with some elements replaced."""


class Builder:
    """Collects what lowering makes of a graph. A ``Ref`` names a buffer once it is declared."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._buffers: dict[str, Buffer] = {}
        self._names: dict[Ref, str] = {}
        self._operations: list[Operation] = []
        self._written_in_place = _written_in_place(graph)
        self._used = {*graph.outputs, *(value for _, value in graph.updates)}
        for node in graph.nodes:
            self._used.update(refs_in((*node.args, *(value for _, value in node.kwargs))))
        self._reserved = {node.name for node in graph.nodes if len(node.results) == 1}
        for spec in graph.signature.inputs:
            self._declare(Ref(spec.name), spec.name, spec.dtype, spec.shape)
        for weight in graph.weights:
            shape = tuple(map(Int.of, weight.shape))
            self._declare(Ref(weight.name), weight.name, weight.dtype, shape)

    def is_used(self, ref: Ref) -> bool:
        """True when a node takes this tensor, or the model returns it or keeps it."""
        return ref in self._used

    def producer(self, ref: Ref) -> GraphNode | None:
        """The node that yields a tensor, if one does."""
        return next((node for node in self._graph.nodes if node.name == ref.name), None)

    def declare_results(self, node: GraphNode) -> None:
        """Make the buffers a node's results go to: ``split`` or ``split_out0``, ``split_out1``."""
        for output, spec in enumerate(node.results):
            single = len(node.results) == 1
            self._reserved.discard(node.name)
            name = self._unique(node.name if single else f"{node.name}_out{output}")
            self._declare(Ref(node.name, output), name, spec.dtype, spec.shape)

    def is_written_in_place(self, ref: Ref) -> bool:
        """True for a step from a tensor forward changes to its new value, writing parts of it."""
        return ref in self._written_in_place

    def temporary(self, name: str, dtype: DType, shape: tuple[Int, ...]) -> Ref:
        """Make a buffer no graph node owns."""
        name = self._unique(name)
        ref = Ref(name)
        self._declare(ref, name, dtype, shape)
        return ref

    def buffer(self, ref: Ref) -> Buffer:
        return self._buffers[self._names[ref]]

    def axes(self, prefix: str, shape: tuple[Int, ...]) -> tuple[Axis, ...]:
        """Axes over a shape, none named like a size of the model."""
        sizes = {size.name for size in self._graph.signature.sizes}
        names = [f"{prefix}{k}" for k in range(len(shape))]
        free = [name + "_" * (name in sizes) for name in names]
        return tuple(Axis(name, size) for name, size in zip(free, shape, strict=True))

    def append(self, operation: Operation) -> None:
        self._operations.append(operation)

    def mark(self) -> int:
        """The present end of the program, for ``go_back``."""
        return len(self._operations)

    def go_back(self, mark: int) -> None:
        """Drop the operations behind a mark; buffers nobody writes are left out in the end."""
        del self._operations[mark:]

    def finish(self) -> Program:
        """The program; each output and each new value is a buffer of its own, that is written."""
        signature = self._graph.signature
        inputs = tuple(spec.name for spec in signature.inputs)
        weights = tuple(weight.name for weight in self._graph.weights)
        taken = {*inputs, *weights}
        values = {name: self._own(value, taken) for name, value in self._graph.updates}
        outputs = tuple(self._own(ref, taken) for ref in self._graph.outputs)
        updates = tuple(Update(name, value) for name, value in values.items())
        operations = tuple(self._operations)
        written = {name for operation in operations for name in targets(operation)}
        known = {*inputs, *weights, *written}  # without results that nothing uses or writes
        buffers = {name: buffer for name, buffer in self._buffers.items() if name in known}
        return Program(
            signature.sizes, buffers, inputs, weights, operations, outputs, updates=updates
        )

    def _own(self, ref: Ref, taken: set[str]) -> str:
        """A buffer for this result alone."""
        name = self._names[ref]
        if name in taken:
            name = self._copy(ref)
        taken.add(name)
        return name

    def _copy(self, ref: Ref) -> str:
        """An input, a weight or an earlier output returned as it is becomes a copy."""
        source = self.buffer(ref)
        copy = self.buffer(self.temporary(f"{source.name}_copy", source.dtype, source.shape))
        axes = self.axes("i", copy.shape)
        index = tuple(map(Int.of, axes))
        value = Load(source.name, index, source.dtype.compute)
        self.append(Pointwise(copy.name, axes, value, index, Origin((copy.name,), ("copy",))))
        return copy.name

    def _declare(self, ref: Ref, name: str, dtype: DType, shape: tuple[Int, ...]) -> None:
        self._names[ref] = name
        self._buffers[name] = Buffer(name, dtype, shape)

    def _unique(self, name: str) -> str:
        found, number = name, 0
        while found in self._buffers or found in self._reserved:
            number += 1
            found = f"{name}_{number}"
        return found


def _written_in_place(graph: Graph) -> frozenset[Ref]:
    """The results of writers alone that lead from a tensor to its update."""
    nodes = {node.name: node for node in graph.nodes}
    found: set[Ref] = set()
    for name, value in graph.updates:
        chain: list[Ref] = []
        while value.name in nodes and nodes[value.name].op in WRITERS:
            chain.append(value)
            base = nodes[value.name].args[0]
            assert isinstance(base, Ref)
            value = base
        if value.name == name:
            found.update(chain)
    return frozenset(found)
