"""Recognise gelu where a model writes it out, so that it gets the operator's forms.

    x * 0.5 * (1 + erf(x / sqrt(2)))                                  ->    gelu(x)
    x * 0.5 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x * x * x)))   ->    gelu_tanh(x)

Only in float32, where the rounding of the constants is negligible.
"""

import math
from dataclasses import replace
from typing import TypeGuard

from aotpack.ir.dtypes import DType
from aotpack.ir.program import Program
from aotpack.ir.rewrite import Rewriter, map_values
from aotpack.ir.values import Apply, Const, Value

TOLERANCE = 1e-6  # relative, of constants


def recognise_gelu(program: Program) -> Program:
    """Replace a written-out gelu by its operator; the same object if there is none."""
    rewrite = Rewriter({}, apply=_gelu)
    operations = tuple(map_values(operation, rewrite) for operation in program.operations)
    if all(a is b for a, b in zip(operations, program.operations, strict=True)):
        return program
    return replace(program, operations=operations)


def _gelu(value: Apply) -> Value | None:
    """The operator for a product of x, 0.5 and a share ``1 + erf(...)`` or ``1 + tanh(...)``."""
    if value.op != "mul" or value.dtype is not DType.FLOAT32:
        return None
    for share in _factors(value):
        found = _operand(share)
        if found is not None and _is_product(value, found[1], share):
            return Apply(found[0], (found[1],), value.dtype)
    return None


def _factors(value: Value) -> list[Value]:
    """The factors of a product, and of its factors that are products."""
    args = value.args if isinstance(value, Apply) else ()
    inner = [a for arg in args if isinstance(arg, Apply) and arg.op == "mul" for a in arg.args]
    return [*args, *inner]


def _operand(share: Value) -> tuple[str, Value] | None:
    """(operator, x) for ``1 + erf(...)`` or ``1 + tanh(...)`` of x."""
    function = _beside(share, "add", 1.0)
    if not isinstance(function, Apply) or function.op not in ("erf", "tanh"):
        return None
    (inner,) = function.args
    if function.op == "erf":
        x = _beside(inner, "mul", math.sqrt(0.5))
        if x is None and _is_apply(inner, "div") and _is_near(inner.args[1], math.sqrt(2)):
            x = inner.args[0]
        return None if x is None else ("gelu", x)
    total = _beside(inner, "mul", math.sqrt(2 / math.pi))
    if total is None or not _is_apply(total, "add"):
        return None
    for x, rest in (total.args, total.args[::-1]):
        if _is_cube(_beside(rest, "mul", 0.044715), x):
            return "gelu_tanh", x
    return None


def _is_product(value: Value, x: Value, share: Value) -> bool:
    """True for x, 0.5 and the share multiplied in any order."""
    half = Const(0.5, DType.FLOAT32)
    triples = ((x, half, share), (x, share, half), (share, half, x))
    return any(
        value is product
        for a, b, c in triples
        for inner in _both_ways(a, b)
        for product in _both_ways(inner, c)
    )


def _is_cube(value: Value | None, x: Value) -> bool:
    squares = (*_both_ways(x, x), Apply("square", (x,), DType.FLOAT32))
    return any(value is cube for square in squares for cube in _both_ways(square, x))


def _both_ways(a: Value, b: Value) -> tuple[Apply, Apply]:
    return Apply("mul", (a, b), DType.FLOAT32), Apply("mul", (b, a), DType.FLOAT32)


def _beside(value: Value, op: str, number: float) -> Value | None:
    """The other operand of an operator with a constant near ``number``."""
    if not _is_apply(value, op):
        return None
    a, b = value.args
    if _is_near(b, number):
        return a
    return b if _is_near(a, number) else None


def _is_apply(value: Value, op: str) -> TypeGuard[Apply]:
    return isinstance(value, Apply) and value.op == op


def _is_near(value: Value, number: float) -> bool:
    return isinstance(value, Const) and abs(value.value - number) <= TOLERANCE * number
