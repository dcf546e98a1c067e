"""Simplify one level of a value whose operands are already simplified.

Rules keep every bit, including signed zeros and NaN. The same object if none applies.
"""

from collections.abc import Callable, Mapping

import numpy as np

from aotpack.ir.dtypes import DType
from aotpack.ir.ops.float8 import FORMATS
from aotpack.ir.ops.optable import OPS
from aotpack.ir.ops.reference import TO_16_BITS
from aotpack.ir.symbolic.facts import bounds, known_equal, known_le, known_lt
from aotpack.ir.symbolic.integers import Axis, Int, Number, maximum, minimum
from aotpack.ir.values import Apply, Const, Guarded, IndexValue, Value

_DIVISIONS = frozenset({"floordiv", "truncdiv", "remainder", "fmod"})
_INDEX_TYPES = (DType.INT32, DType.INT64)
_TRUE = Const(True, DType.BOOL)
_FALSE = Const(False, DType.BOOL)


def fold(value: Value) -> Value:
    """An equal, simpler value, or the same object."""
    if isinstance(value, Guarded):
        return _fold_guarded(value)
    if not isinstance(value, Apply):
        return value
    if all(isinstance(arg, Const) for arg in value.args):
        return _fold_constants(value)
    for rule in (_fold_index, *_RULES.get(value.op, ())):
        folded = rule(value)
        if folded is not None:
            return folded
    return value


def _fold_guarded(value: Guarded) -> Value:
    if isinstance(value.condition, Const):
        return value.value if value.condition.value else value.otherwise
    if value.value is value.otherwise and isinstance(value.value, (Const, IndexValue)):
        return value.value
    merged = _merge_first(value.condition, value.value, value.otherwise)
    return value if merged is None else merged


def _fold_constants(value: Apply) -> Value:
    constants = [arg for arg in value.args if isinstance(arg, Const)]
    if value.op in _DIVISIONS and value.dtype.is_integer and constants[1].value == 0:
        return value
    operands = [np.asarray(arg.value, arg.dtype.facts.numpy) for arg in constants]
    result = OPS[value.op].compute(operands, np.dtype(value.dtype.facts.numpy))
    number = result.item()
    is_nan = number != number  # its sign depends on the CPU
    return Const(float("nan") if is_nan else number, value.dtype)


# --- integers ----------------------------------------------------------------------------------

_INDEX_OPS: Mapping[str, Callable[..., Int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "neg": lambda a: -a,
    "square": lambda a: a * a,
    "floordiv": lambda a, b: a // b,
    "remainder": lambda a, b: a % b,
    "minimum": minimum,
    "maximum": maximum,
}


def integer_value(number: Number, dtype: DType = DType.INT64) -> Value:
    """An integer as a value of an integer type."""
    index = Int.of(number)
    if index.constant is not None:
        return Const(index.constant, dtype)
    return IndexValue(index, dtype)


def integer_of(value: Value) -> Int | None:
    """The integer of a constant or an index, else None."""
    if isinstance(value, IndexValue):
        return value.index
    return Int.of(int(value.value)) if isinstance(value, Const) else None


def _index(value: Value) -> Int | None:
    """The integer of a value, if its type cannot wrap here."""
    return integer_of(value) if value.dtype in _INDEX_TYPES else None


def _index_value(index: Int, dtype: DType) -> Value | None:
    """The integer as data of ``dtype``; None if it might not fit."""
    low, high = bounds(index)
    limits = np.iinfo(dtype.facts.numpy or "")
    if low < limits.min or high > limits.max:
        return None
    number = index.constant
    return IndexValue(index, dtype) if number is None else Const(number, dtype)


def _fold_index(value: Apply) -> Value | None:
    """Arithmetic, comparisons and casts of integer expressions, by their algebra and ranges."""
    if value.op == "cast":
        (arg,) = value.args
        index = _index(arg)
        if index is None or not value.dtype.is_integer:
            return None
        return _index_value(index, value.dtype)
    if value.op not in _INDEX_OPS and value.op not in _DECISIONS:
        return None
    operands = [index for index in map(_index, value.args) if index is not None]
    if len(operands) != len(value.args):
        return None
    if value.op in _DECISIONS:
        decided = _DECISIONS[value.op](*operands)
        return None if decided is None else Const(decided, DType.BOOL)
    if value.op in _DIVISIONS and not known_lt(0, operands[1]):
        return None
    return _index_value(_INDEX_OPS[value.op](*operands), value.dtype)


def _less(a: Int, b: Int) -> bool | None:
    return True if known_lt(a, b) else False if known_le(b, a) else None


def _equal(a: Int, b: Int) -> bool | None:
    if known_equal(a, b):
        return True
    return False if known_lt(a, b) or known_lt(b, a) else None


def _opposite(decided: bool | None) -> bool | None:
    return None if decided is None else not decided


_DECISIONS: Mapping[str, Callable[[Int, Int], bool | None]] = {
    "lt": _less,
    "gt": lambda a, b: _less(b, a),
    "ge": lambda a, b: _opposite(_less(a, b)),
    "le": lambda a, b: _opposite(_less(b, a)),
    "eq": _equal,
    "ne": lambda a, b: _opposite(_equal(a, b)),
}


# --- selects -----------------------------------------------------------------------------------


def _fold_where(value: Apply) -> Value | None:
    condition, a, b = value.args
    if isinstance(condition, Const):
        return a if condition.value else b
    if a is b:
        return a
    if isinstance(condition, Apply) and condition.op == "logical_not":
        (inner,) = condition.args
        if inner.dtype is DType.BOOL:
            return fold(Apply("where", (inner, b, a), value.dtype))
    if a is _TRUE and b is _FALSE:
        return condition
    if a is _FALSE and b is _TRUE:
        return fold(Apply("logical_not", (condition,), DType.BOOL))
    if isinstance(b, Guarded) and isinstance(b.value, (Const, IndexValue)):
        opposite = _are_opposite(condition, b.condition)
        return fold(Apply("where", (condition, a, b.value), value.dtype)) if opposite else None
    return _merge_first(condition, a, b)


_COMPLEMENTS = {"lt": "ge", "ge": "lt", "le": "gt", "gt": "le", "eq": "ne", "ne": "eq"}


def _are_opposite(a: Value, b: Value) -> bool:
    """True for two comparisons of the same integers of which exactly one holds."""
    if not isinstance(a, Apply) or not isinstance(b, Apply) or a.args != b.args:
        return False
    return _COMPLEMENTS.get(a.op) == b.op and not a.args[0].dtype.is_float


def _merge_first(condition: Value, a: Value, b: Value) -> Value | None:
    """``axis < 1 ? a : b  ->  b`` if b with axis = 0 is a (the first of a shifted row)."""
    found = _first_of(condition)
    if found is None:
        return None
    axis, holds = found
    first, others = (a, b) if holds else (b, a)
    here, there = _index(first), _index(others)
    if here is None or there is None or first.dtype is not others.dtype:
        return None
    return others if there.substitute({axis: 0}) is here else None


def _first_of(condition: Value) -> tuple[Axis, bool] | None:
    """``(axis, True)`` for a condition meaning ``axis == 0``; False for its negation."""
    if not isinstance(condition, Apply) or condition.op not in _DECISIONS:
        return None
    a, b = map(_index, condition.args)
    if a is None or b is None or b.constant is None or not isinstance(a.atom, Axis):
        return None
    match condition.op, b.constant:
        case ("lt", 1) | ("le", 0) | ("eq", 0):
            return a.atom, True
        case ("ge", 1) | ("gt", 0) | ("ne", 0):
            return a.atom, False
    return None


# --- identities --------------------------------------------------------------------------------


def _is_number(value: Value, number: float) -> bool:
    """True for this constant; 0.0 and -0.0 differ."""
    if not isinstance(value, Const) or value.value != number:
        return False
    return not value.dtype.is_float or np.signbit(value.value) == np.signbit(number)


def _fold_add(value: Apply) -> Value | None:
    neutral = -0.0 if value.dtype.is_float else 0
    for one, other in (value.args, value.args[::-1]):
        if _is_number(other, neutral):
            return one
    return None


def _fold_sub(value: Apply) -> Value | None:
    return value.args[0] if _is_number(value.args[1], 0) else None


def _fold_mul(value: Apply) -> Value | None:
    for one, other in (value.args, value.args[::-1]):
        if _is_number(other, 1):
            return one
        if _is_number(other, 0) and value.dtype.is_integer:
            return other
    return None


def _fold_divisor_one(value: Apply) -> Value | None:
    return value.args[0] if _is_number(value.args[1], 1) else None


def _fold_integer_divisor_one(value: Apply) -> Value | None:
    return _fold_divisor_one(value) if value.dtype.is_integer else None


def _fold_pow(value: Apply) -> Value | None:
    base, exponent = value.args
    if _is_number(exponent, 1):
        return base
    return Apply("square", (base,), value.dtype) if _is_number(exponent, 2) else None


def _fold_equal_operands(value: Apply) -> Value | None:
    return value.args[0] if value.args[0] is value.args[1] else None


def _fold_twice(value: Apply) -> Value | None:
    (inner,) = value.args
    if isinstance(inner, Apply) and inner.op == value.op and inner.args[0].dtype is value.dtype:
        return inner.args[0]
    return None


def _fold_and(value: Apply) -> Value | None:
    return _fold_lattice(value, neutral=True)


def _fold_or(value: Apply) -> Value | None:
    return _fold_lattice(value, neutral=False)


def _fold_lattice(value: Apply, *, neutral: bool) -> Value | None:
    if any(arg.dtype is not DType.BOOL for arg in value.args):
        return None
    for one, other in (value.args, value.args[::-1]):
        if isinstance(other, Const):
            return one if other.value is neutral else other
    return _fold_equal_operands(value)


def _fold_cast(value: Apply) -> Value | None:
    (arg,) = value.args
    if arg.dtype is value.dtype:
        return arg
    if isinstance(arg, Apply) and arg.op == "cast" and _keeps(arg.args[0].dtype, arg.dtype):
        return fold(Apply("cast", arg.args, value.dtype))
    return None


def _keeps(source: DType, target: DType) -> bool:
    """True when a cast changes no value, so that a further cast may skip it."""
    if source is DType.BOOL or source is target:
        return True
    if target is DType.BOOL or source.is_float:
        return source.is_float and target.is_float and target.itemsize > source.itemsize
    if target.is_float:
        return source.facts.bits < (24 if target is DType.FLOAT32 else 53)
    mine, its = np.iinfo(source.facts.numpy or ""), np.iinfo(target.facts.numpy or "")
    return bool(its.min <= mine.min and mine.max <= its.max)


def _fold_rounding(value: Apply) -> Value | None:
    """Numbers that are rounded already."""
    (arg,) = value.args
    return arg if isinstance(arg, Apply) and arg.op == value.op else None


def _fold_code(value: Apply) -> Value | None:
    """``x_code(of_x_code(code)) -> code``, also inside selects: a copy keeps the bits of NaN."""
    return _code(value.args[0], value.op)


def _code(number: Value, op: str) -> Value | None:
    """The code that a number was decoded from, or None."""
    codes: dict[Value, Value | None] = {}
    pending = [number]
    while pending:
        value = pending[-1]
        waiting = [part for part in _selected(value) if part not in codes]
        if not waiting:
            codes[pending.pop()] = _code_of_one(value, op, codes)
        pending += waiting
    return codes[number]


def _selected(value: Value) -> tuple[Value, ...]:
    """The two values that a select chooses from; none of any other value."""
    match value:
        case Apply(op="where", args=(_, one, other)):
            return (one, other)
        case Guarded(value=one, otherwise=other):
            return (one, other)
    return ()


def _code_of_one(value: Value, op: str, codes: Mapping[Value, Value | None]) -> Value | None:
    """The code of a value, from those of the values that it selects from."""
    match value:
        case Apply(op=inner, args=(code,)) if inner == f"of_{op}":
            return code
        case Const():
            return fold(Apply(op, (value,), DType.UINT8))
        case Apply(op="where", args=(condition, one, other)):
            a, b = codes[one], codes[other]
            return fold(Apply("where", (condition, a, b), DType.UINT8)) if a and b else None
        case Guarded(condition=condition, value=one, otherwise=other):
            a, b = codes[one], codes[other]
            return fold(Guarded(condition, a, b, DType.UINT8)) if a and b else None
    return None


_RULES: Mapping[str, tuple[Callable[[Apply], Value | None], ...]] = {
    "add": (_fold_add,),
    "sub": (_fold_sub,),
    "mul": (_fold_mul,),
    "div": (_fold_divisor_one,),
    "floordiv": (_fold_integer_divisor_one,),
    "truncdiv": (_fold_integer_divisor_one,),
    "pow": (_fold_pow,),
    "minimum": (_fold_equal_operands,),
    "maximum": (_fold_equal_operands,),
    "neg": (_fold_twice,),
    "bitwise_not": (_fold_twice,),
    "logical_not": (_fold_twice,),
    "logical_and": (_fold_and,),
    "bitwise_and": (_fold_and,),
    "logical_or": (_fold_or,),
    "bitwise_or": (_fold_or,),
    "where": (_fold_where,),
    "cast": (_fold_cast,),
    **{f"{dtype}_code": (_fold_code,) for dtype in FORMATS},
    **{f"round_{dtype}": (_fold_rounding,) for dtype in TO_16_BITS},
}
