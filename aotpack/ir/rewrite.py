"""The rewriter: rebuild values bottom-up; an unchanged value stays the same object."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from aotpack.ir.dtypes import DType
from aotpack.ir.foreign import Foreign
from aotpack.ir.operations import Attention, Matmul, Pointwise, Scatter, Sort
from aotpack.ir.ops.fold import fold, integer_of
from aotpack.ir.program import Control, Operation
from aotpack.ir.symbolic.integers import Indirect, Int, Number
from aotpack.ir.values import Apply, Const, Guarded, IndexValue, Load, Value, walk


class Rewriter:
    """Replace axes, loads and operators in values; results are shared.

    ``axes`` maps axes (or sizes) to integers. ``load`` maps a load, its index already rewritten, to
    a value, or None to keep it; ``apply`` does so for an operator on rewritten operands.
    """

    def __init__(
        self,
        axes: Mapping[Any, Number],
        load: Callable[[Load], Value | None] | None = None,
        apply: Callable[[Apply], Value | None] | None = None,
    ) -> None:
        self._axes = axes
        self._load = load
        self._apply = apply
        self._done: dict[Value, Value] = {}

    def __call__(self, value: Value) -> Value:
        if value not in self._done:
            for part in walk(
                (value,)
            ):  # bottom-up: values may be nested deeper than Python's stack
                if part not in self._done:
                    self._done[part] = self._rewrite(part)
        return self._done[value]

    def index(self, expression: Int) -> Int:
        """The integer with axes replaced and the values inside it rewritten."""

        def change(leaf: Any) -> Int | None:
            if leaf in self._axes:
                return Int.of(self._axes[leaf])
            if isinstance(leaf, Indirect):
                return as_index(self(leaf.value), self.index(leaf.extent))
            return None

        return expression.map_leaves(change)

    def _rewrite(self, value: Value) -> Value:
        match value:
            case Const():
                return value
            case IndexValue():
                index = self.index(value.index)
                if index.constant is not None:
                    return Const(index.constant, value.dtype)
                return IndexValue(index, value.dtype)
            case Load():
                moved = Load(value.buffer, tuple(map(self.index, value.index)), value.dtype)
                new = self._load(moved) if self._load else None
                return moved if new is None else new
            case Apply():
                made = fold(Apply(value.op, tuple(map(self, value.args)), value.dtype))
                found = self._apply(made) if self._apply and isinstance(made, Apply) else None
                return made if found is None else found
            case Guarded():
                parts = (self(value.condition), self(value.value), self(value.otherwise))
                return fold(Guarded(*parts, value.dtype))


def as_index(value: Value, extent: Int) -> Int:
    """A value as an index in [0, extent); an integer stays as it is."""
    found = integer_of(value)
    return Int.of(Indirect(value, extent)) if found is None else found


def map_values(operation: Operation, change: Callable[[Value], Value]) -> Operation:
    """The operation with each of its values replaced; the same object if none changes."""
    if isinstance(operation, Control):
        return operation
    match operation:
        case Foreign():
            return operation
        case Pointwise():
            index = _rewritten(operation.index, change)
            new: Operation = replace(operation, value=change(operation.value), index=index)
        case Scatter():
            index = _rewritten(operation.index, change)
            new = replace(operation, value=change(operation.value), index=index)
        case Sort():
            new = replace(operation, value=change(operation.value))
        case Matmul():
            new = replace(operation, lhs=change(operation.lhs), rhs=change(operation.rhs))
        case Attention():
            new = replace(
                operation,
                query=change(operation.query),
                key=change(operation.key),
                value=change(operation.value),
                bias=operation.bias and change(operation.bias),
                mask=operation.mask and change(operation.mask),
            )
        case _:
            new = replace(operation, args=tuple(map(change, operation.args)))
    return operation if new == operation else new


def _rewritten(index: tuple[Int, ...], change: Callable[[Value], Value]) -> tuple[Int, ...]:
    """The index with the values inside it replaced."""
    return tuple(as_index(change(IndexValue(part, DType.INT64)), part) for part in index)
