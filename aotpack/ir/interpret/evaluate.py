"""Slow executable semantics of the loop IR, with numpy: the oracle the tests compare against.

Every operation is evaluated over the whole grid of its axes at once. Types behave exactly as they
do in a kernel (integers wrap, stores round); ``Precision.WIDE`` instead keeps floats in float64.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from math import prod
from typing import TypeAlias

import numpy as np

from aotpack.ir.dtypes import DType
from aotpack.ir.foreign import Foreign
from aotpack.ir.interpret.control import run_control
from aotpack.ir.interpret.states import combined, halved, lifted
from aotpack.ir.operations import Attention, Matmul, Pointwise, Reduction, Scan, Scatter, Sort
from aotpack.ir.ops.monoid import States
from aotpack.ir.ops.monoids import MONOIDS
from aotpack.ir.ops.optable import OPS
from aotpack.ir.ops.reference import Array, cast, round_bfloat16
from aotpack.ir.ordering import positions_in_order
from aotpack.ir.program import Call, Operation, Program, concats_by_part, targets
from aotpack.ir.symbolic.integers import Axis, Indirect, Int, Var
from aotpack.ir.values import (
    Apply,
    Const,
    Guarded,
    IndexValue,
    Load,
    Value,
    unguarded_parts,
)

_ACCUMULATE = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}

RunForeign: TypeAlias = Callable[[Foreign, Mapping[str, Array], Mapping[str, int]], None]


class Precision(Enum):
    """The precision of floats: that of their types, or float64 without rounding."""

    EXACT = "exact"
    WIDE = "wide"


class IndexOutOfRange(Exception):
    """A program reads or writes outside a buffer, or writes an element twice."""


def evaluate(
    program: Program,
    inputs: Mapping[str, Array],
    weights: Mapping[str, Array],
    sizes: Mapping[str, int],
    precision: Precision = Precision.EXACT,
    call: RunForeign | None = None,
) -> dict[str, Array]:
    """The outputs and the new values of updated tensors, by name.

    bfloat16 buffers are float32 arrays here. ``weights`` are those that are not packed; unused ones
    are ignored. ``call`` runs a foreign kernel on named arrays and changes its targets.
    """
    made = program.weight_program
    if made is not None:
        weights = {**weights, **evaluate(made, {}, weights, {}, precision, call)}
    machine = _Machine(program, dict(sizes), precision, call)
    packed = {p.name: np.concatenate([weights[part] for part in p.parts]) for p in program.packed}
    for name, array in {**weights, **packed, **inputs}.items():
        if name in program.buffers:
            machine.store_whole(name, array)
    with np.errstate(all="ignore"):
        for operation in program.operations:
            machine.run(operation)
    updated = {update.name: machine.memory[update.value] for update in program.updates}
    return {name: machine.memory[name] for name in program.outputs} | updated


@dataclass(frozen=True, slots=True)
class _Scope:
    """The axes as arrays of one grid. Loads are checked only where ``live`` (None: everywhere)."""

    names: Mapping[str, Array | int]
    shape: tuple[int, ...]
    live: Array | None = None
    done: dict[Value, Array] = field(default_factory=dict)


class _Machine:
    """The memory, and the evaluation of each kind of node."""

    def __init__(
        self,
        program: Program,
        sizes: dict[str, int],
        precision: Precision,
        call: RunForeign | None = None,
    ) -> None:
        self.program = program
        self.call = call
        self.sizes = sizes
        self.precision = precision
        self.memory: dict[str, Array] = {}
        self.wholes = concats_by_part(program)
        self.written: dict[str, Array] = {}  # which elements of concat buffers

    def numpy_type(self, dtype: DType) -> np.dtype[np.generic]:
        if self.precision is Precision.WIDE and dtype.is_float:
            return np.dtype(np.float64)
        return np.dtype(dtype.facts.numpy or np.float32)

    def rounded(self, array: Array, dtype: DType) -> Array:
        """The numbers rounded to ``dtype``."""
        exact = cast(array, self.numpy_type(dtype))
        if dtype is DType.BFLOAT16 and self.precision is Precision.EXACT:
            return round_bfloat16(exact)
        return exact

    def store_whole(self, name: str, array: Array) -> None:
        buffer = self.program.buffers[name]
        shape = self.shape(buffer.shape)
        if np.shape(array) != shape:
            raise ValueError(f"evaluating {buffer} with {self.sizes}: got shape {np.shape(array)}")
        self.memory[name] = self.rounded(np.asarray(array), buffer.dtype)

    def shape(self, extents: tuple[Int, ...]) -> tuple[int, ...]:
        return tuple(int(extent.evaluate(self.sizes)) for extent in extents)

    def scope(self, axes: tuple[Axis, ...]) -> _Scope:
        """A grid with one dimension for each axis, in their order."""
        shape = self.shape(tuple(axis.extent for axis in axes))
        names: dict[str, Array | int] = dict(self.sizes)
        for position, axis in enumerate(axes):
            along = [1] * len(axes)
            along[position] = shape[position]
            names[axis.name] = np.arange(shape[position], dtype=np.int64).reshape(along)
        return _Scope(names, shape)

    # --- values

    def grid(self, value: Value, axes: tuple[Axis, ...]) -> Array:
        """The value at every point of the axes."""
        scope = self.scope(axes)
        return np.broadcast_to(self.value(value, scope), scope.shape)

    def value(self, value: Value, scope: _Scope) -> Array:
        if value not in scope.done:
            for part in unguarded_parts(value, scope.done):
                scope.done[part] = self._compute(part, scope)
        return scope.done[value]

    def _compute(self, value: Value, scope: _Scope) -> Array:
        dtype = self.numpy_type(value.dtype)
        match value:
            case Const():
                return np.asarray(value.value, dtype)
            case IndexValue():
                return cast(self.index(value.index, scope), dtype)
            case Load():
                return self._load(value, scope)
            case Apply():
                args = [self.value(arg, scope) for arg in value.args]
                return OPS[value.op].compute(args, dtype)
            case Guarded():
                condition = self.value(value.condition, scope)
                live = condition if scope.live is None else condition & scope.live
                inside = _Scope(scope.names, scope.shape, live)
                chosen = self.value(value.value, inside)
                return np.where(condition, chosen, self.value(value.otherwise, scope))

    def index(self, index: Int, scope: _Scope) -> Array:
        def indirect(atom: Indirect) -> Array:
            return self.value(atom.value, scope).astype(np.int64)

        return np.asarray(index.evaluate(scope.names, indirect))

    def _load(self, load: Load, scope: _Scope) -> Array:
        array = self.memory[load.buffer]
        index = [self.index(part, scope) for part in load.index]
        inside = [
            (part >= 0) & (part < size) for part, size in zip(index, array.shape, strict=True)
        ]
        for dimension, good in enumerate(inside):
            bad = ~good if scope.live is None else ~good & scope.live
            if bad.any() and 0 not in scope.shape:
                self._complain("reads", load.buffer, load.index, dimension, index[dimension], bad)
        safe = tuple(np.where(good, part, 0) for part, good in zip(index, inside, strict=True))
        if 0 in array.shape:
            empty = np.broadcast_shapes(*(np.shape(part) for part in safe))
            return np.zeros(empty, self.numpy_type(load.dtype))
        return array[safe].astype(self.numpy_type(load.dtype))

    def _complain(
        self,
        verb: str,
        buffer: str,
        index: tuple[Int, ...],
        dimension: int,
        numbers: Array,
        bad: Array,
    ) -> None:
        first = np.broadcast_to(numbers, bad.shape)[bad].flat[0]
        where = ", ".join(map(str, index))
        raise IndexOutOfRange(
            f"{buffer}[{where}] {verb} {first} in dimension {dimension} of shape "
            f"{self.memory[buffer].shape} (sizes {self.sizes})"
        )

    # --- operations

    def run(self, operation: Operation) -> None:
        match operation:
            case Pointwise():
                self._pointwise(operation)
            case Reduction():
                self._store(operation, self._reduce(operation))
            case Scan():
                self._store(operation, self._scan(operation))
            case Scatter():
                self._scatter(operation)
            case Sort():
                self._store(operation, self._sort(operation))
            case Matmul():
                self._store(operation, (self._matmul(operation),))
            case Attention():
                self._store(operation, (self._attention(operation),))
            case Foreign():
                self._foreign(operation)
            case Call():
                self._call(operation)
            case _:
                run_control(operation, self.memory, self.sizes, self._run_part)

    def _run_part(self, part: Program, sizes: Mapping[str, int]) -> None:
        """Run a part of an operation on this memory. Its updates take effect at its end."""
        inner = _Machine(part, dict(sizes), self.precision, self.call)
        for buffer in (part.buffers[name] for name in part.inputs):
            leaves = (leaf for size in buffer.shape for leaf in size.leaves())
            if any(isinstance(leaf, Var) and leaf.name not in sizes for leaf in leaves):
                continue  # a target, whose size an inner part reads
            empty = np.zeros(inner.shape(buffer.shape), self.numpy_type(buffer.dtype))
            inner.memory[buffer.name] = self.memory.setdefault(buffer.name, empty)
        for operation in part.operations:
            inner.run(operation)
        self.memory |= {update.name: inner.memory[update.value] for update in part.updates}

    def _call(self, operation: Call) -> None:
        """Run the body on the arguments."""
        body = operation.body
        given = {name: self.memory[argument] for name, argument in operation.given.items()}
        made = evaluate(body, given, given, self.sizes, self.precision, self.call)
        results = (*body.outputs, *(update.name for update in body.updates))
        for target, name in zip(operation.targets, results, strict=True):
            self.store_whole(target, made[name])

    def _store(self, operation: Operation, results: States) -> None:
        for name, result in zip(targets(operation), results, strict=True):
            self.store_whole(name, result)

    def _pointwise(self, operation: Pointwise) -> None:
        buffer = self.program.buffers[operation.target]
        shape = self.shape(buffer.shape)
        numpy_type = self.numpy_type(buffer.dtype)
        name = self.wholes.get(operation.target, operation.target)
        if name not in self.written:
            undefined = np.nan if numpy_type.kind == "f" else 0
            self.memory[name] = np.full(shape, undefined, numpy_type)
            self.written[name] = np.zeros(shape, bool)
        scope = self.scope(operation.axes)
        numbers = self.rounded(self.grid(operation.value, operation.axes), buffer.dtype)
        index = [self.index(part, scope) for part in operation.index]
        for dimension, (part, size) in enumerate(zip(index, shape, strict=True)):
            bad = (part < 0) | (part >= size)
            if bad.any() and 0 not in scope.shape:
                self._complain("writes", operation.target, operation.index, dimension, part, bad)
        where = tuple(np.broadcast_to(part, scope.shape) for part in index)
        before = np.count_nonzero(self.written[name])
        self.written[name][where] = True
        if np.count_nonzero(self.written[name]) - before != prod(scope.shape):
            raise IndexOutOfRange(f"{operation.target} is written twice at the same element")
        self.memory[name][where] = numbers

    def _scatter(self, operation: Scatter) -> None:
        dtype = self.program.buffers[operation.target].dtype
        array = self.memory[operation.target] = self.memory[operation.base].copy()
        scope = self.scope(operation.axes)
        numbers = self.rounded(self.grid(operation.value, operation.axes), dtype)
        place = np.zeros(scope.shape, np.int64)
        inside = np.ones(scope.shape, bool)
        for part, size in zip(operation.index, array.shape, strict=True):
            position = self.index(part, scope)
            inside = inside & (position >= 0) & (position < size)
            place = place * size + position
        flat, where = array.reshape(-1), place[inside]
        if operation.kind == "set":
            flat[where] = numbers[inside]  # of equal positions the last wins
        else:
            _ACCUMULATE[operation.kind].at(flat, where, numbers[inside])

    def _foreign(self, operation: Foreign) -> None:
        if self.call is None:
            raise ValueError(f"evaluating {operation.kernel.function}: nothing is given to call it")
        for target, base in zip(operation.targets, operation.bases, strict=True):
            buffer = self.program.buffers[target]
            empty = np.zeros(self.shape(buffer.shape), self.numpy_type(buffer.dtype))
            self.memory[target] = empty if base is None else self.memory[base].copy()
        named = {name: self.memory[name] for name in (*operation.operands, *operation.targets)}
        self.call(operation, named, self.sizes)

    def _reduce(self, operation: Reduction) -> States:
        monoid = MONOIDS[operation.kind]
        domain = (*operation.axes, *operation.inner)
        inputs = [self.grid(arg, domain) for arg in operation.args]
        kept = inputs[0].shape[: len(operation.axes)]
        count = prod(inputs[0].shape[len(operation.axes) :])
        states = lifted(monoid, *(given.reshape(*kept, count) for given in inputs))
        while states[0].shape[-1] > 1:
            states = halved(monoid, states)
        if not count:
            numbers = monoid.identities(operation.args[0].dtype)
            states = tuple(
                np.full((*kept, 1), number, state.dtype)
                for number, state in zip(numbers, states, strict=True)
            )
        return monoid.finalise(tuple(state[..., 0] for state in states))

    def _scan(self, operation: Scan) -> States:
        monoid = MONOIDS[operation.kind]
        elements = self.grid(operation.args[0], operation.axes)
        position = operation.axes.index(operation.along)
        states = lifted(monoid, np.moveaxis(elements, position, -1))
        columns: list[States] = []
        for step in range(states[0].shape[-1]):
            column = tuple(state[..., step] for state in states)
            columns.append(combined(monoid, columns[-1], column) if columns else column)
        if columns:
            states = tuple(np.stack(parts, -1) for parts in zip(*columns, strict=True))
        return tuple(np.moveaxis(part, -1, position) for part in monoid.finalise(states))

    def _sort(self, operation: Sort) -> States:
        dtype = self.program.buffers[operation.targets[0]].dtype
        elements = self.rounded(self.grid(operation.value, operation.axes), dtype)
        along = operation.axes.index(operation.along)
        order = positions_in_order(elements, along, descending=operation.descending)
        return np.take_along_axis(elements, order, along), order

    def _factor(self, value: Value, axes: tuple[Axis, ...], operand: DType) -> Array:
        """A factor of a product, rounded to ``operand`` and then widened."""
        factor = self.rounded(self.grid(value, axes), operand)
        return factor.astype(np.float64 if operand.is_float else np.int64)

    def _matmul(self, operation: Matmul) -> Array:
        lhs_axes = (*operation.batch, operation.m, operation.k)
        rhs_axes = (*operation.batch, operation.k, operation.n)
        lhs = self._factor(operation.lhs, lhs_axes, operation.operand)
        rhs = self._factor(operation.rhs, rhs_axes, operation.operand)
        return cast(lhs @ rhs, self.numpy_type(operation.operand.accumulator))

    def _attention(self, operation: Attention) -> Array:
        rows = (operation.batch, operation.head, operation.i)
        columns = (operation.batch, operation.head, operation.j)
        query = self._factor(operation.query, (*rows, operation.d), operation.operand)
        key = self._factor(operation.key, (*columns, operation.d), operation.operand)
        value = self._factor(operation.value, (*columns, operation.e), operation.operand)
        logits = query @ np.swapaxes(key, -1, -2) * operation.scale
        plane = (*rows, operation.j)
        allowed = np.ones(logits.shape, bool)
        if operation.causal:
            allowed = np.tril(allowed)
        if operation.mask is not None:
            allowed = allowed & self.grid(operation.mask, plane)
        if operation.bias is not None:
            logits = logits + self.grid(operation.bias, plane)
        logits = np.where(allowed, logits, -np.inf)
        top = np.max(logits, -1, keepdims=True, initial=-np.inf)
        weights = np.exp(np.where(logits == -np.inf, -np.inf, logits - top))
        total = weights.sum(-1, keepdims=True)
        factor = self.rounded(weights, operation.operand).astype(np.float64)
        result = np.where(total == 0, 0.0, factor @ value / np.where(total == 0, 1.0, total))
        return cast(result, self.numpy_type(operation.operand.accumulator))
