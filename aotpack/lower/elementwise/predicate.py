"""Elementwise tests of one operand, and negations."""

from collections.abc import Callable

from aotpack.ir.dtypes import DType
from aotpack.ir.values import Value
from aotpack.lower.context import Context, Index
from aotpack.lower.registry import lowering
from aotpack.lower.values import apply, constant
from aotpack.stages import Ref


@lowering("aten.logical_not.default")
def logical_not(c: Context, self: Ref) -> None:
    c.pointwise(c.result(), lambda i: apply("logical_not", c.operand(self, i, DType.BOOL)))


@lowering("aten.bitwise_not.default")
def bitwise_not(c: Context, self: Ref) -> None:
    op = "logical_not" if c.dtype(self) is DType.BOOL else "bitwise_not"
    c.pointwise(c.result(), lambda index: apply(op, c.load(self, index)))


@lowering("aten.isnan.default")
def isnan(c: Context, self: Ref) -> None:
    _float_test(c, self, lambda x: apply("isnan", x))


@lowering("aten.isinf.default")
def isinf(c: Context, self: Ref) -> None:
    _float_test(c, self, lambda x: apply("isinf", x))


@lowering("aten.isposinf.default")
def isposinf(c: Context, self: Ref) -> None:
    _float_test(c, self, lambda x: apply("eq", x, float("inf")))


@lowering("aten.isneginf.default")
def isneginf(c: Context, self: Ref) -> None:
    _float_test(c, self, lambda x: apply("eq", x, float("-inf")))


@lowering("aten.isfinite.default")
def isfinite(c: Context, self: Ref) -> None:
    def value(index: Index) -> Value:
        x = c.load(self, index)
        if not x.dtype.is_float:
            return constant(True, DType.BOOL)
        return apply("lt", apply("abs", x), float("inf"))

    c.pointwise(c.result(), value)


def _float_test(c: Context, self: Ref, test: Callable[[Value], Value]) -> None:
    def value(index: Index) -> Value:
        x = c.load(self, index)
        return test(x) if x.dtype.is_float else constant(False, DType.BOOL)

    c.pointwise(c.result(), value)


@lowering("aten.signbit.default")
def signbit(c: Context, self: Ref) -> None:
    def value(index: Index) -> Value:
        x = c.load(self, index)
        if x.dtype is DType.BOOL:
            return constant(False, DType.BOOL)
        return apply("signbit", x) if x.dtype.is_float else apply("lt", x, 0)

    c.pointwise(c.result(), value)
