"""The interface of a lowering function: reads of tensors, and writes of its results.

Values have compute types: 16-bit floats are read as float32, and rounded by the store. 8-bit floats
are bytes in memory, decoded when they are read and encoded before they are stored.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from aotpack.ir.dtypes import DType
from aotpack.ir.operations import Pointwise, Reduction, Scan, Scatter, Sort
from aotpack.ir.ops.monoids import MONOIDS
from aotpack.ir.origin import Origin
from aotpack.ir.rounding import CONVERSIONS, is_decision, rounds_operand
from aotpack.ir.symbolic.facts import known_le
from aotpack.ir.symbolic.integers import Axis, Int
from aotpack.ir.values import Load, Value
from aotpack.lower.builder import Builder
from aotpack.lower.registry import CannotLower
from aotpack.lower.values import cast, constant, decoded, encoded, round_to
from aotpack.stages import GraphNode, Ref

Index = tuple[Int, ...]
Shape = tuple[Int, ...]
Scalar = Int | bool | int | float


@dataclass(frozen=True, slots=True)
class Context:
    """One graph node being lowered."""

    builder: Builder
    node: GraphNode

    # --- tensors ---------------------------------------------------------------------------

    def shape(self, ref: Ref) -> Shape:
        return self.builder.buffer(ref).shape

    def rank(self, ref: Ref) -> int:
        return len(self.shape(ref))

    def dtype(self, ref: Ref) -> DType:
        return self.builder.dtype(ref)

    def result(self, output: int = 0) -> Ref:
        """A result of the node, with the dtype and shape of the graph."""
        return Ref(self.node.name, output)

    def is_used(self, output: int) -> bool:
        """True if the model uses a result of the node."""
        return self.builder.is_used(self.result(output))

    def producer(self, ref: Ref) -> GraphNode | None:
        """The node that yields a tensor; None for inputs, weights and temporaries."""
        return self.builder.producer(ref)

    def temporary(self, role: str, dtype: DType, shape: Shape, *, unfusable: bool = False) -> Ref:
        """A new intermediate tensor of this node, named after the node and ``role``."""
        name = f"{self.node.name}_{role}"
        return self.builder.temporary(name, dtype, shape, unfusable=unfusable)

    def dim(self, ref: Ref, dim: Scalar) -> int:
        """A dimension in [0, rank), from one that may count from the end."""
        if not isinstance(dim, int):
            raise CannotLower(f"dimension {dim} is not a constant")
        return dim % max(1, self.rank(ref))

    # --- reading ---------------------------------------------------------------------------

    def load(self, ref: Ref, index: Index) -> Value:
        """The element at an index; dimensions of size 1 are read at 0."""
        buffer = self.builder.buffer(ref)
        pairs = zip(index, buffer.shape, strict=True)
        exact = tuple(Int.of(0) if size.constant == 1 else i for i, size in pairs)
        if self._decides:
            self.builder.decides(ref)
        return decoded(Load(buffer.name, exact, buffer.dtype.compute), self.dtype(ref))

    @property
    def _decides(self) -> bool:
        """True for a decision, and for a conversion to integers."""
        is_whole = self.node.op in CONVERSIONS and not self.dtype(self.result()).is_float
        return is_whole or is_decision(self.node.op, self.node.args, has_positions=self.is_used(1))

    def broadcast(self, ref: Ref, index: Index) -> Value:
        """The broadcast element at an index of a larger shape."""
        return self.load(ref, index[len(index) - self.rank(ref) :])

    def operand(self, arg: Ref | Scalar, index: Index, dtype: DType) -> Value:
        """A broadcast element or a number, as a value in the compute type of ``dtype``.

        An element of a type with other numbers is rounded to a number of ``dtype``, as eager does.
        """
        if not isinstance(arg, Ref):
            return constant(arg, dtype)
        return self.converted(arg, self.broadcast(arg, index), dtype)

    def converted(self, arg: Ref, element: Value, dtype: DType) -> Value:
        """An element of ``arg`` in the compute type of ``dtype``, rounded as for ``operand``."""
        own = self.dtype(arg)
        is_number = own is dtype or own is DType.BOOL or (own.is_integer and own.itemsize == 1)
        if is_number or not rounds_operand(self.node.op, has_dimensions=self.rank(arg) > 0):
            return cast(element, dtype)
        return round_to(element, dtype)

    def count(self, ref: Ref, most: Int, number: int = 0) -> Int:
        """The node's size ``number``, which a 0-d int64 tensor holds, at most ``most``."""
        size = self.node.counts[number]
        bound = Int.of(size.high) if known_le(size.high, most) else most
        self.builder.count(ref, size, bound, self.origin)
        return Int.of(size)

    # --- writing ---------------------------------------------------------------------------

    @property
    def origin(self) -> Origin:
        source = (str(self.node.source),) if self.node.source else ()
        return Origin((self.node.name,), (self.node.op,), source)

    def axes(self, prefix: str, shape: Shape) -> tuple[Axis, ...]:
        """``i0, i1, ...`` over a result's shape, ``r0, r1, ...`` over the reduced shape."""
        return self.builder.axes(prefix, shape)

    def computed(self, target: Ref) -> str:
        """The buffer of a result that an operation with a fixed type writes."""
        if self.dtype(target).is_float8:
            raise CannotLower(
                f"results of type {self.dtype(target)} are not accepted; compute in a wider type "
                "and cast what comes out"
            )
        return self.builder.buffer(target).name

    def pointwise(self, target: Ref, value: Callable[[Index], Value]) -> None:
        """Write every element of ``target`` as a function of its index."""
        buffer = self.builder.buffer(target)
        axes = self.axes("i", buffer.shape)
        index = points(axes)
        stored = constant(0, buffer.dtype) if is_empty(buffer.shape) else value(index)
        stored = encoded(stored, self.dtype(target))
        self.builder.append(Pointwise(buffer.name, axes, stored, index, self.origin))

    def reduction(
        self,
        targets: tuple[Ref, ...],
        kind: str,
        inner: Shape,
        args: Callable[[Index, Index], tuple[Value, ...]],
    ) -> None:
        """Write ``targets`` as the monoid ``kind`` over ``inner`` of a function of both indices."""
        if is_empty((*inner, *self.shape(targets[0]))):
            self._without_elements(targets, kind)
            return
        axes = self.axes("i", self.shape(targets[0]))
        over = self.axes("r", inner or (Int.of(1),))
        lifted = args(points(axes), points(over)[: len(inner)])
        types = MONOIDS[kind].result_dtypes(lifted[0].dtype)
        into = [self._wide(*pair) for pair in zip(targets, types, strict=True)]
        names = tuple(map(self.computed, into))
        self.builder.append(Reduction(names, axes, over, kind, lifted, self.origin))
        for target, found in zip(targets, into, strict=True):
            if found != target:
                self.pointwise(target, partial(self.load, found))

    def _wide(self, target: Ref, dtype: DType) -> Ref:
        """The target, or a temporary to cast from if the target has a narrower type."""
        fits = self.dtype(target).compute is dtype and not self.dtype(target).is_float8
        return target if fits else self.temporary("wide", dtype, self.shape(target))

    def _without_elements(self, targets: tuple[Ref, ...], kind: str) -> None:
        """Write the result of a reduction over no elements."""
        monoid = MONOIDS[kind]
        dtype = self.dtype(targets[0]).compute
        none = tuple(np.asarray(identity) for identity in monoid.identities(dtype))
        with np.errstate(all="ignore"):
            results = [result.item() for result in monoid.finalise(none)]
        for target, result in zip(targets, results, strict=True):
            self.pointwise(target, partial(_always, constant(result, self.dtype(target))))

    def scan(
        self, targets: tuple[Ref, ...], kind: str, dim: int, arg: Callable[[Index], Value]
    ) -> None:
        """Write ``targets`` as the running monoid ``kind`` along one dimension."""
        shape = self.shape(targets[0])
        if is_empty(shape):
            self._without_elements(targets, kind)
            return
        axes = self.axes("i", shape)
        value = (arg(points(axes)),)
        names = tuple(map(self.computed, targets))
        self.builder.append(Scan(names, axes, axes[dim], kind, value, self.origin))

    def scatter(
        self,
        target: Ref,
        base: Ref,
        kind: str,
        over: Shape,
        place: Callable[[Index], Index],
        value: Callable[[Index], Value],
    ) -> None:
        """Write ``target`` as ``base`` with a value scattered to a place for each point."""
        if is_empty((*over, *self.shape(target))):
            self.pointwise(target, lambda index: self.load(base, index))
            return
        axes = self.axes("i", over)
        at = points(axes)
        stored = encoded(value(at), self.dtype(target))
        name = self.builder.buffer(target).name if kind == "set" else self.computed(target)
        names = (name, self.builder.buffer(base).name)
        self.builder.append(Scatter(*names, axes, place(at), stored, kind, self.origin))

    def sort(self, targets: tuple[Ref, Ref], source: Ref, dim: int, *, descending: bool) -> None:
        """Write a tensor's elements in order along one dimension, and their positions."""
        shape = self.shape(source)
        along = self.dim(source, dim)
        if is_empty(shape) or not shape or shape[along].constant == 1:
            self.pointwise(targets[0], lambda index: self.load(source, index))
            self.pointwise(targets[1], lambda index: constant(0, DType.INT64))
            return
        axes = self.axes("i", shape)
        values, positions = map(self.computed, targets)
        element = self.load(source, points(axes))
        self.builder.append(
            Sort((values, positions), axes, axes[along], element, descending, self.origin)
        )


def is_empty(shape: Shape) -> bool:
    """True for a shape without elements; a dynamic size is at least 1."""
    return any(size.constant == 0 for size in shape)


def _always(value: Value, index: Index) -> Value:
    return value


def points(axes: tuple[Axis, ...]) -> Index:
    """The index whose entries are the axes themselves."""
    return tuple(map(Int.of, axes))
