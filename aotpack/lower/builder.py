"""The program under construction: buffers under unique names, operations in order."""

from aotpack.ir.dtypes import DType
from aotpack.ir.integers import Axis, Int
from aotpack.ir.nodes import Buffer, Load, Operation, Origin, Pointwise, Program, Update
from aotpack.stages import Graph, GraphNode, Ref


class Builder:
    """Collects what lowering makes of a graph. A ``Ref`` names a buffer once it is declared."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._buffers: dict[str, Buffer] = {}
        self._names: dict[Ref, str] = {}
        self._operations: list[Operation] = []
        self._reserved = {node.name for node in graph.nodes if len(node.results) == 1}
        for spec in graph.signature.inputs:
            self._declare(Ref(spec.name), spec.name, spec.dtype, spec.shape)
        for weight in graph.weights:
            shape = tuple(map(Int.of, weight.shape))
            self._declare(Ref(weight.name), weight.name, weight.dtype, shape)

    def declare_results(self, node: GraphNode) -> None:
        """Make the buffers a node's results go to: ``split`` or ``split_out0``, ``split_out1``."""
        for output, spec in enumerate(node.results):
            single = len(node.results) == 1
            self._reserved.discard(node.name)
            name = self._unique(node.name if single else f"{node.name}_out{output}")
            self._declare(Ref(node.name, output), name, spec.dtype, spec.shape)

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

    def finish(self) -> Program:
        """The program; each output and each new value is a buffer of its own, that is written."""
        signature = self._graph.signature
        inputs = tuple(spec.name for spec in signature.inputs)
        weights = tuple(weight.name for weight in self._graph.weights)
        taken = {*inputs, *weights}
        values = {name: self._own(value, taken) for name, value in self._graph.updates}
        outputs = tuple(self._own(ref, taken) for ref in self._graph.outputs)
        updates = tuple(Update(name, value) for name, value in values.items())
        return Program(
            signature.sizes,
            self._buffers,
            inputs,
            weights,
            tuple(self._operations),
            outputs,
            updates=updates,
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
