"""The program under construction: buffers under unique names, operations in order."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from aotpack.ir.dtypes import DType
from aotpack.ir.foreign import Foreign
from aotpack.ir.graph import CALL
from aotpack.ir.names import TABLES
from aotpack.ir.operations import Pointwise, Scatter
from aotpack.ir.origin import Origin
from aotpack.ir.program import (
    Buffer,
    Control,
    Operation,
    Program,
    Update,
    read_whole,
    targets,
)
from aotpack.ir.symbolic.integers import Axis, Int, Var
from aotpack.ir.uses import operation_uses
from aotpack.ir.values import Load
from aotpack.lower.decided import with_rounded_reads
from aotpack.lower.registry import CannotLower
from aotpack.lower.size_reads import Count, with_size_reads
from aotpack.stages import Graph, GraphNode, Ref, TensorSpec, Weight, every_node

WRITERS = frozenset(
    f"aten.{name}"
    for name in (
        "slice_scatter.default select_scatter.default index_copy.default index_put.default "
        "index_fill.int_Scalar index_fill.int_Tensor scatter.src scatter.value"
    ).split()
)
"""Operators whose result is their first argument with some elements replaced."""


LOOPS = frozenset({"higher_order.while_loop", "higher_order.scan"})
"""Operators whose first results are what their body's first outputs replace."""


class Builder:
    """Collects the buffers and operations of a graph. A declared ``Ref`` names a buffer."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._nodes = {node.name: node for node in every_node(graph.nodes)}
        self._buffers: dict[str, Buffer] = {}
        self._names: dict[Ref, str] = {}
        self._types: dict[str, DType] = {}  # torch's types; 8-bit floats are stored as bytes
        self._operations: list[Operation] = []
        self._counts: list[Count] = []
        self.tables: dict[str, Weight] = {}  # constants that lowering computes
        self.bodies: dict[int, tuple[Program, tuple[str, ...]]] = {}  # by the id of a call's body
        self._depth = 0  # of parts around the position
        self._sizes = graph.signature.sizes
        self._size_names = {size.name for size in self._sizes}
        self.through_torch = False
        self.is_strict = False
        self._decided: set[str] = set()  # buffers that decisions read
        self.refused: list[tuple[GraphNode, str]] = []
        self.fallbacks: list[tuple[GraphNode, str]] = []  # calls that torch runs
        self._written_in_place = _written_in_place(graph, self._nodes)
        self._used = {*graph.outputs, *(value for _, value in graph.updates)}
        for node in graph.nodes:
            self._used.update(node.refs())
        self._reserved = set(self._nodes)  # a buffer of that name would be the node's first result
        for spec in graph.signature.inputs:
            self._declare(Ref(spec.name), spec.name, spec.dtype, spec.shape)
        for weight in graph.weights:
            shape = tuple(map(Int.of, weight.shape))
            self._declare(Ref(weight.name), weight.name, weight.dtype, shape)
        for assertion in graph.signature.assertions:
            self._declare(Ref(assertion.word), assertion.word, DType.INT32, ())
        for spec in graph.signature.inputs:
            if spec.order:
                self._read_copied(spec)

    def is_used(self, ref: Ref) -> bool:
        """True if a node takes this tensor, or the model returns it or stores it."""
        return ref in self._used

    def producer(self, ref: Ref) -> GraphNode | None:
        """The node that yields a tensor, if one does."""
        return self._nodes.get(ref.name)

    def declare_results(self, node: GraphNode) -> None:
        """Make the buffers of a node's results: ``split`` or ``split_out0``, ``split_out1``."""
        single = len(node.results) == 1
        if single:
            self._reserved.discard(node.name)
        for output, spec in enumerate(node.results):
            name = self._unique(node.name if single else f"{node.name}_out{output}")
            self._declare(Ref(node.name, output), name, spec.dtype, spec.shape)

    def declare(self, spec: TensorSpec) -> Ref:
        """Make the buffer of a tensor that is not an input or a node's result."""
        ref = Ref(spec.name)
        self._declare(ref, self._unique(spec.name), spec.dtype, spec.shape)
        return ref

    def table(self, name: str, dtype: DType, numbers: np.ndarray) -> Ref:
        """A constant that lowering computes; its name says what it holds."""
        ref = Ref(f"{TABLES}{name}")
        if ref.name not in self.tables:
            held = np.ascontiguousarray(numbers, dtype.facts.numpy)
            data = held.reshape(-1).view(np.uint8).data
            self.tables[ref.name] = Weight(
                ref.name, (ref.name,), dtype, held.shape, data, is_constant=True
            )
            self._declare(ref, ref.name, dtype, tuple(map(Int.of, held.shape)))
        return ref

    def is_written_in_place(self, ref: Ref) -> bool:
        """True for a partial write between a tensor that forward changes and its new value."""
        return ref in self._written_in_place

    def temporary(
        self, name: str, dtype: DType, shape: tuple[Int, ...], *, unfusable: bool = False
    ) -> Ref:
        """Make a buffer that belongs to no graph node."""
        name = self._unique(name)
        ref = Ref(name)
        self._declare(ref, name, dtype, shape, unfusable=unfusable)
        return ref

    def buffer(self, ref: Ref) -> Buffer:
        return self._buffers[self._names[ref]]

    def dtype(self, ref: Ref) -> DType:
        """The type of the tensor; its buffer may store another type."""
        return self._types[self._names[ref]]

    def axes(self, prefix: str, shape: tuple[Int, ...]) -> tuple[Axis, ...]:
        """Axes over a shape, with names distinct from the model's sizes."""
        names = [f"{prefix}{k}" for k in range(len(shape))]
        free = [name + "_" * (name in self._size_names) for name in names]
        return tuple(Axis(name, size) for name, size in zip(free, shape, strict=True))

    def append(self, operation: Operation) -> None:
        self._operations.append(operation)

    def mark(self) -> int:
        """The current end of the program, for ``truncate``."""
        return len(self._operations)

    def truncate(self, mark: int) -> None:
        """Drop the operations after a mark; ``finish`` drops unwritten buffers."""
        del self._operations[mark:]

    def finish(self) -> Program:
        """The program; each output and each new value is a distinct buffer that is written."""
        signature = self._graph.signature
        flags = (assertion.word for assertion in signature.assertions)
        inputs = (*(spec.name for spec in signature.inputs), *flags)
        weights = (*(weight.name for weight in self._graph.weights), *self.tables)
        taken = {*inputs, *weights}
        values = {name: self._own(value, taken) for name, value in self._graph.updates}
        outputs = tuple(self._own(ref, taken) for ref in self._graph.outputs)
        given = {spec.name: spec.order for spec in signature.inputs}
        values = {name: self._ordered(value, given.get(name, ())) for name, value in values.items()}
        pairs = zip(outputs, signature.outputs, strict=True)
        outputs = tuple(self._ordered(name, spec.order) for name, spec in pairs)
        updates = tuple(Update(name, value) for name, value in values.items())
        operations = self._rounded(self._operations)
        written = {name for operation in operations for name in targets(operation)}
        known = {*inputs, *weights, *written}  # not results that nothing uses or writes
        buffers = {name: buffer for name, buffer in self._buffers.items() if name in known}
        program = Program(
            signature.sizes, buffers, inputs, weights, operations, outputs, updates=updates
        )
        return with_size_reads(program, tuple(self._counts))

    def _rounded(self, operations: list[Operation]) -> tuple[Operation, ...]:
        """The operations with what decisions read, or all with ``is_strict``, rounded."""
        decided = self._buffers.keys() if self.is_strict else self._decided
        return with_rounded_reads(operations, decided, self._buffers)

    def count(self, ref: Ref, size: Var, most: Int, origin: Origin) -> None:
        """Let a size be what a tensor holds, an int64 without dimensions."""
        if self._depth:
            raise CannotLower("it yields a size inside of a branch or loop")
        self._counts.append(Count(size, self._names[ref], most, origin))

    def decides(self, ref: Ref) -> None:
        """Note that a decision reads a tensor."""
        self._decided.add(self._names[ref])

    def alias(self, ref: Ref, other: Ref) -> None:
        """Make ``ref`` a name of the buffer of ``other``."""
        self._names[ref] = self._names[other]

    def iteration(self, name: str, most: int) -> Var:
        """A loop's iteration number, 0 to ``most``, as a size of its body."""
        name = self._unique(name)
        while name in {size.name for size in self._sizes}:
            name += "_"
        self._reserved.add(name)
        return Var(name, 0, most, 1, True)

    def part(self, make: Callable[[], Mapping[Ref, Ref]], *sizes: Var) -> Program:
        """The operations that ``make`` appends, as a program with the updates that it returns.

        ``sizes`` are additional sizes inside it.
        """
        around = self._operations, self._sizes
        self._operations, self._sizes = [], (*self._sizes, *sizes)
        self._depth += 1
        changes = {ref: value for ref, value in make().items() if ref != value}
        written = {name for operation in self._operations for name in targets(operation)}
        taken = {*self._buffers} - written
        values = [self._own(value, taken) for value in changes.values()]
        operations, known = self._rounded(self._operations), self._sizes
        self._operations, self._sizes = around
        self._depth -= 1
        changed = [self._names[ref] for ref in changes]
        uses = operation_uses(operations)
        made, touched = uses.producers, dict.fromkeys((*uses.readers, *changed))
        inputs = tuple(name for name in touched if name not in made)
        return Program(
            known,
            {name: self._buffers[name] for name in (*inputs, *made)},
            inputs,
            (),
            operations,
            (),
            updates=tuple(map(Update, changed, values)),
        )

    def _own(self, ref: Ref, taken: set[str]) -> str:
        """A buffer for this result that no other output uses."""
        name = self._names[ref]
        if name in taken:
            name = self._copy(ref)
        taken.add(name)
        return name

    def _ordered(self, name: str, order: tuple[int, ...]) -> str:
        """A result in its callers' memory order: a copy where not only loops of ours touch it."""
        if not order:
            return name
        writers = {target: o for o in self._operations for target in targets(o)}
        others = [o for o in self._operations if isinstance(o, (Foreign, Control))]
        whole = {read for operation in others for read in read_whole(operation)}
        if isinstance(writers[name], (Scatter, Foreign, Control)) or name in whole:
            name = self._copy_of(self._buffers[name])
        self._buffers[name] = replace(self._buffers[name], order=order)
        return name

    def _read_copied(self, spec: TensorSpec) -> None:
        """Read an input of another order by a copy; scheduling leaves that to what needs it."""
        given = self._buffers[spec.name] = replace(self._buffers[spec.name], order=spec.order)
        self._names[Ref(spec.name)] = self._copy_of(given)

    def _copy(self, ref: Ref) -> str:
        """Copy an input, a weight or an earlier output that is returned unchanged."""
        return self._copy_of(self.buffer(ref))

    def _copy_of(self, source: Buffer) -> str:
        copy = self.buffer(self.temporary(f"{source.name}_copy", source.dtype, source.shape))
        axes = self.axes("i", copy.shape)
        index = tuple(map(Int.of, axes))
        value = Load(source.name, index, source.dtype.compute)
        self.append(Pointwise(copy.name, axes, value, index, Origin((copy.name,), ("copy",))))
        return copy.name

    def _declare(
        self,
        ref: Ref,
        name: str,
        dtype: DType,
        shape: tuple[Int, ...],
        *,
        unfusable: bool = False,
    ) -> None:
        self._names[ref], self._types[name] = name, dtype
        self._buffers[name] = Buffer(name, dtype.stored, shape, unfusable)

    def _unique(self, name: str) -> str:
        found, number = name, 0
        while any(found in names for names in (self._buffers, self._reserved, self._size_names)):
            number += 1
            found = f"{name}_{number}"
        return found


def _written_in_place(graph: Graph, nodes: Mapping[str, GraphNode]) -> frozenset[Ref]:
    """The results of chains of partial writes from a tensor to its new value."""
    found: set[Ref] = set()
    for changed, new in _changes(graph, nodes):
        along: list[Ref] = []
        value = new
        while value.name in nodes and nodes[value.name].op in WRITERS:
            along.append(value)
            base = nodes[value.name].args[0]
            assert isinstance(base, Ref)
            value = base
        if value == changed:
            found.update(along)
    return frozenset(found)


def _changes(graph: Graph, nodes: Mapping[str, GraphNode]) -> Iterator[tuple[Ref, Ref]]:
    """Tensors that forward or the body of a loop or call changes, with their new values."""
    for name, value in graph.updates:
        yield Ref(name), value
    for node in nodes.values():
        if node.op in LOOPS:
            for number, given in enumerate(node.bodies[-1].outputs):
                if isinstance(given, Ref):
                    yield Ref(node.name, number), given
        if node.op == CALL:
            (body,) = node.bodies
            values = body.outputs[len(body.outputs) - len(node.changes) :]
            for number, given in zip(node.changes, values, strict=True):
                if isinstance(given, Ref):
                    yield Ref(body.slices[number].name), given
