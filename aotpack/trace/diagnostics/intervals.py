"""Proofs of conditions on sizes that round floats, such as ``floor(0.6 * float(n)) <= n``.

A condition that interval arithmetic shows for a box of sizes holds for each of them: sums,
products, quotients and roundings have their ends at ends of operands, and remainders are of
integers. A box that shows nothing is cut in two, down to single sizes; where the boxes become too
many, nothing is proved.
"""

import ast
import math
import operator
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

from aotpack.ir.symbolic.integers import Int, Var
from aotpack.trace.diagnostics.multiples import exactly_rounded

_MOST_BOXES = 4096
_PRINTED = 1e-14  # torch writes the first 15 digits of a float

Span: TypeAlias = tuple[Any, Any]  # the least and the largest value, none lies outside
Box: TypeAlias = dict[str, tuple[int, int]]

_MONOTONIC: dict[str, Callable[..., Any]] = {
    "sym_float": float,  # as ``exactly_rounded`` spells these
    "math_floor": math.floor,
    "math_ceil": math.ceil,
    "math_trunc": math.trunc,
    "round": round,
    "min": min,
    "max": max,
}
_TO_INTEGERS = ("math_floor", "math_ceil", "math_trunc", "round")
_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
}
_QUOTIENTS = (ast.Div, ast.FloorDiv)


class _UnknownError(Exception):
    """An expression has a part that intervals do not cover."""


def rounds_floats(condition: str) -> bool:
    """True for a condition with a float of a size, in torch's spelling."""
    return exactly_rounded(condition) != condition


def is_proved(condition: str, sizes: Mapping[str, Int]) -> bool:
    """True if a condition on ``sizes``, by the names in it, is shown for their whole ranges.

    False says nothing: the condition may hold, fail, or have parts that are not known here.
    """
    leaves = [leaf for size in sizes.values() for leaf in size.leaves()]
    boxes: list[Box] = [{leaf.name: (leaf.low, leaf.high) for leaf in leaves if type(leaf) is Var}]
    for _ in range(_MOST_BOXES):
        if not boxes:
            return True
        box = boxes.pop()
        truth = _in_box(condition, sizes, box)
        if truth is None and any(low < high for low, high in box.values()):
            boxes += _halves(box)
        elif not truth:
            return False
    return False


def is_broken(condition: str, sizes: Mapping[str, Int], values: Mapping[str, int]) -> bool:
    """True if a condition is shown to fail where the variables have these ``values``."""
    return _in_box(condition, sizes, {name: (n, n) for name, n in values.items()}) is False


def _in_box(condition: str, sizes: Mapping[str, Int], box: Box) -> bool | None:
    """True or False where that is shown for all sizes of a box, else None."""
    try:
        return _truth(_parsed(condition), {name: _ends(size, box) for name, size in sizes.items()})
    except (_UnknownError, ArithmeticError, TypeError, ValueError):
        return None


@lru_cache
def _parsed(condition: str) -> ast.expr:
    try:
        return ast.parse(exactly_rounded(condition), mode="eval").body
    except SyntaxError:
        raise _UnknownError from None


def _halves(box: Box) -> list[Box]:
    name = max(box, key=lambda name: box[name][1] - box[name][0])
    low, high = box[name]
    middle = (low + high) // 2
    return [{**box, name: (middle + 1, high)}, {**box, name: (low, middle)}]


def _ends(size: Int, box: Box) -> Span:
    """The least and the largest value of a sum of multiples of sizes."""
    low = high = 0
    for atoms, times in size.terms:
        match atoms:
            case ():
                span = (1, 1)
            case (Var(name=name),):
                span = box[name]
            case _:
                raise _UnknownError
        low, high = low + times * span[times < 0], high + times * span[times >= 0]
    return low, high


def _truth(node: ast.expr, sizes: Mapping[str, Span]) -> bool | None:
    """Whether a condition holds for all values (True), for none (False), or neither is shown."""
    match node:
        case ast.BoolOp(op=op, values=values):
            found = [_truth(value, sizes) for value in values]
            ends = isinstance(op, ast.Or)  # what one part alone decides
            return ends if ends in found else (None if None in found else not ends)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            truth = _truth(operand, sizes)
            return None if truth is None else not truth
        case ast.Compare(left=left, ops=ops, comparators=rights):
            sides = zip([left, *rights[:-1]], ops, rights, strict=True)
            found = [_compared(op, _span(a, sizes), _span(b, sizes)) for a, op, b in sides]
            return False if False in found else (None if None in found else True)
    raise _UnknownError


def _compared(op: ast.cmpop, a: Span, b: Span) -> bool | None:
    match op:
        case ast.Lt():
            return True if a[1] < b[0] else (False if a[0] >= b[1] else None)
        case ast.LtE():
            return True if a[1] <= b[0] else (False if a[0] > b[1] else None)
        case ast.Gt() | ast.GtE():
            return _compared(ast.Lt() if isinstance(op, ast.Gt) else ast.LtE(), b, a)
        case ast.Eq():
            if a[1] < b[0] or b[1] < a[0]:
                return False
            return True if len({*a, *b}) == 1 else None
        case ast.NotEq():
            equal = _compared(ast.Eq(), a, b)
            return None if equal is None else not equal
    raise _UnknownError


def _span(node: ast.expr, sizes: Mapping[str, Span]) -> Span:
    """The values of a number for sizes in their spans."""
    match node:
        case ast.Constant(value=int(value)):
            return value, value
        case ast.Constant(value=float(value)):
            apart = abs(value) * _PRINTED
            return value - apart, value + apart
        case ast.Name(id=name) if name in sizes:
            return sizes[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            low, high = _span(operand, sizes)
            return -high, -low
        case ast.BinOp(op=ast.Mod() | ast.FloorDiv()) if not _is_integer(node):
            raise _UnknownError
        case ast.BinOp(left=left, op=ast.Mod(), right=right):
            return _remainder(_span(left, sizes), _span(right, sizes))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _combined(op, _span(left, sizes), _span(right, sizes))
        case ast.Call(func=ast.Name(id=name), args=args) if name in _MONOTONIC:
            if name == "round" and len(args) > 1:
                raise _UnknownError
            spans = [_span(arg, sizes) for arg in args]
            low, high = (_MONOTONIC[name](*(span[end] for span in spans)) for end in (0, 1))
            return low, high
    raise _UnknownError


def _is_integer(node: ast.expr) -> bool:
    """True if a number is an integer for all sizes."""
    match node:
        case ast.Call(func=ast.Name(id=name), args=[_]) if name in _TO_INTEGERS:
            return True
        case ast.Call(func=ast.Name(id="min" | "max"), args=args):
            return all(map(_is_integer, args))
        case ast.BinOp(left=left, op=op, right=right):
            return not isinstance(op, ast.Div) and _is_integer(left) and _is_integer(right)
        case ast.UnaryOp(operand=operand):
            return _is_integer(operand)
        case ast.Constant(value=value):
            return isinstance(value, int)
    return isinstance(node, ast.Name)


def _combined(op: ast.operator, a: Span, b: Span) -> Span:
    """A sum, difference, product or quotient: its ends are at ends of the operands."""
    if isinstance(op, _QUOTIENTS) and b[0] <= 0 <= b[1]:
        raise _UnknownError
    found = [_BINARY[type(op)](first, second) for first in a for second in b]
    return min(found), max(found)


def _remainder(a: Span, b: Span) -> Span:
    """The remainder of an integer by a positive constant."""
    divisor = b[0]
    if b[0] != b[1] or divisor <= 0:
        raise _UnknownError
    if a[0] // divisor == a[1] // divisor:
        return a[0] % divisor, a[1] % divisor
    return 0, divisor - 1
