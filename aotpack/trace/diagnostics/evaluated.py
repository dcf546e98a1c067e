"""Expressions of sizes as numbers, for many sizes at once: sympy substitutes one in a millisecond.

Expressions are sums, products, powers, quotients, remainders and extremes of integers and sizes.
"""

import functools
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import sympy
from torch.utils._sympy.functions import FloorDiv, Max, Min, Mod, PythonMod

Values: TypeAlias = Mapping[Any, Any]
"""Integers or arrays of int64, by symbol."""

DIVISIONS = (FloorDiv, Mod, PythonMod)
_EXTREMES = {Max: np.maximum, Min: np.minimum}
_LARGEST = 2**62
_RELATIONS: Mapping[type, Callable[[Any, Any], Any]] = {
    sympy.StrictLessThan: operator.lt,
    sympy.LessThan: operator.le,
    sympy.StrictGreaterThan: operator.gt,
    sympy.GreaterThan: operator.ge,
    sympy.Equality: operator.eq,
    sympy.Unequality: operator.ne,
}


def holds_for(condition: Any, values: Values) -> bool | None:
    """True if a relation holds for all values; None if it cannot be evaluated.

    ZeroDivisionError for a division by zero.
    """
    found = None if type(condition) not in _RELATIONS else truths(condition, values)
    return None if found is None else bool(np.all(found))


def truths(condition: Any, values: Values) -> Any:
    """Whether a condition holds, for each of the values; otherwise as ``holds_for``."""
    if condition in (sympy.true, sympy.false):
        return np.bool_(condition == sympy.true)
    if isinstance(condition, (sympy.And, sympy.Or, sympy.Not)):
        parts = [truths(part, values) for part in condition.args]
        if any(part is None for part in parts):
            return None
        if isinstance(condition, sympy.Not):
            return np.logical_not(parts[0])
        is_and = isinstance(condition, sympy.And)
        return functools.reduce(np.logical_and if is_and else np.logical_or, parts)
    relation = _RELATIONS.get(type(condition))
    if relation is None:
        return None
    left, right = (evaluated(side, values) for side in condition.args)
    return None if left is None or right is None else relation(left, right)


def evaluated(expression: Any, values: Values) -> Any:
    """The numbers of an expression; None for another one, and beyond 62 bits."""
    largest = _largest(expression, values)
    return None if largest is None or largest > _LARGEST else _number(expression, values)


def _number(expression: Any, values: Values) -> Any:
    if expression.is_Integer:
        return int(expression)
    if expression.is_Symbol:
        return values[expression]
    parts = [_number(part, values) for part in expression.args]
    if expression.is_Pow:
        return parts[0] ** parts[1]
    if type(expression) in _EXTREMES:
        return functools.reduce(_EXTREMES[type(expression)], parts)
    if isinstance(expression, DIVISIONS):
        of, divisor = parts
        if not np.all(divisor):
            raise ZeroDivisionError(str(expression))
        return of // divisor if isinstance(expression, FloorDiv) else of % divisor
    return sum(parts) if expression.is_Add else math.prod(parts)


def _largest(expression: Any, values: Values) -> int | None:
    """A bound of all numbers on the way; None for an expression that cannot be evaluated."""
    if expression.is_Integer:
        return abs(int(expression))
    if expression.is_Symbol:
        found = values.get(expression)
        return None if found is None else int(np.max(np.abs(found)))
    if expression.is_Pow and expression.exp.is_Integer and expression.exp > 0:
        base = _largest(expression.base, values)
        return None if base is None else max(1, base) ** int(expression.exp)
    is_plain = expression.is_Add or expression.is_Mul or type(expression) in _EXTREMES
    if not is_plain and not isinstance(expression, DIVISIONS):
        return None
    parts = [_largest(part, values) for part in expression.args]
    numbers = [one for one in parts if one is not None]
    if len(numbers) < len(parts):
        return None
    if expression.is_Mul:
        return math.prod(max(1, one) for one in numbers)
    return sum(numbers)
