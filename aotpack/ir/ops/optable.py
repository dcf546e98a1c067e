"""The elementwise operators: arity, operand types, type rule, semantics in numpy, error bound.

One table drives constant folding, the evaluator, rendering and the generated test matrix. The texts
of each target language are in ``render/*/operators.py``.
"""

from dataclasses import replace
from functools import partial

from aotpack.ir.ops import float8, reference
from aotpack.ir.ops.opinfo import TWINS, Cost, OpInfo
from aotpack.ir.ops.reference import Reference
from aotpack.runtime.golden.philox import philox

_FLOATS = ("float",)
_WIDE = ("float32", "float64")
_NUMBERS = ("float", "int", "uint")
_INTEGERS = ("int", "uint")
_ALL = ("float", "int", "uint", "bool")


def _same(
    name: str,
    arity: int,
    operands: tuple[str, ...],
    meaning: Reference,
    ulp: float = 0,
    *,
    commutative: bool = False,
) -> OpInfo:
    return OpInfo(name, arity, "same", operands, meaning, ulp, commutative)


def _arithmetic() -> list[OpInfo]:
    plain = [
        _same("add", 2, _NUMBERS, reference.add, 0.5, commutative=True),
        _same("sub", 2, _NUMBERS, reference.sub, 0.5),
        _same("mul", 2, _NUMBERS, reference.mul, 0.5, commutative=True),
        _same("square", 1, _NUMBERS, reference.square, 0.5),
        _same("neg", 1, _NUMBERS, reference.neg),
        _same("abs", 1, _NUMBERS, reference.absolute),
    ]
    return plain + _divisions() + _selections()


def _divisions() -> list[OpInfo]:
    return [
        _same("div", 2, _WIDE, reference.div, 0.5),
        _same("reciprocal", 1, _WIDE, reference.reciprocal, 0.5),
        _same("floordiv", 2, _NUMBERS, reference.floordiv, 1),
        _same("truncdiv", 2, (*_WIDE, *_INTEGERS), reference.truncdiv),
        _same("remainder", 2, _NUMBERS, reference.remainder, 0.5),
        _same("fmod", 2, _NUMBERS, reference.fmod),
    ]


def _selections() -> list[OpInfo]:
    return [
        _same("minimum", 2, _ALL, reference.minimum, commutative=True),
        _same("maximum", 2, _ALL, reference.maximum, commutative=True),
        _same("relu", 1, _NUMBERS, reference.relu),
        _same("where", 3, _ALL, reference.where),
        _same("sign", 1, _NUMBERS, reference.sign),
        OpInfo("cast", 1, "given", _ALL, reference.identity),
    ]


def _float(name: str, meaning: Reference, ulp: float, arity: int = 1) -> OpInfo:
    return OpInfo(name, arity, "same", _FLOATS, meaning, ulp)


def _transcendental() -> list[OpInfo]:
    graded = [
        _float("exp", reference.exp, 2),
        _float("exp2", reference.exp2, 2),
        _float("erf", reference.erf, 2),
        _float("tanh", reference.tanh, 2),
        _same("rsqrt", 1, _WIDE, reference.rsqrt, 1),
        _same("sqrt", 1, _WIDE, reference.sqrt, 0.5),
        _same("sigmoid", 1, _WIDE, reference.sigmoid, 3),
    ]
    ulps = {"expm1": 2, "log": 1, "log2": 1, "log10": 2, "log1p": 1, "erfc": 4, "tan": 4, "sin": 2}
    ulps |= {"cos": 2, "asin": 2, "acos": 2, "atan": 2, "sinh": 3, "cosh": 2, "asinh": 3}
    ulps |= {"acosh": 4, "atanh": 3, "lgamma": 6}
    library = [_float(name, reference.LIBRARY[name], ulp) for name, ulp in ulps.items()]
    binary = [
        _float("atan2", reference.atan2, 3, arity=2),
        _float("pow", reference.power, 9, arity=2),
    ]
    return graded + _gelus() + library + binary


def _gelus() -> list[OpInfo]:
    """The operand times its normal distribution function; by erf, by tanh."""
    return [
        OpInfo("gelu", 1, "same", _FLOATS, reference.gelu, 2, of_operand=True),
        OpInfo("gelu_tanh", 1, "same", _WIDE, reference.gelu_tanh, 2, of_operand=True),
    ]


def _to_16_bits() -> list[OpInfo]:
    """A float32 rounded to a 16-bit type."""
    return [
        _same(f"round_{dtype}", 1, ("float32",), how) for dtype, how in reference.TO_16_BITS.items()
    ]


def _rounding() -> list[OpInfo]:
    return [_same(name, 1, _NUMBERS, how) for name, how in reference.ROUNDING.items()]


def _predicate(
    name: str,
    arity: int,
    operands: tuple[str, ...],
    meaning: Reference,
    *,
    commutative: bool = False,
) -> OpInfo:
    return OpInfo(name, arity, "bool", operands, meaning, commutative=commutative)


def _comparisons() -> list[OpInfo]:
    return [
        _predicate(name, 2, _ALL, meaning, commutative=name in ("eq", "ne"))
        for name, meaning in reference.COMPARISONS.items()
    ]


def _logic() -> list[OpInfo]:
    return [
        _predicate("logical_and", 2, _ALL, reference.logical_and, commutative=True),
        _predicate("logical_or", 2, _ALL, reference.logical_or, commutative=True),
        _predicate("logical_xor", 2, _ALL, reference.logical_xor, commutative=True),
        _predicate("logical_not", 1, _ALL, reference.logical_not),
    ]


def _classifications() -> list[OpInfo]:
    return [
        _predicate("isnan", 1, _FLOATS, reference.isnan),
        _predicate("isinf", 1, _FLOATS, reference.isinf),
        _predicate("signbit", 1, (*_WIDE, *_INTEGERS), reference.signbit),
    ]


def _bitwise() -> list[OpInfo]:
    kinds = (*_INTEGERS, "bool")
    return [
        _same("bitwise_and", 2, kinds, reference.bitwise_and, commutative=True),
        _same("bitwise_or", 2, kinds, reference.bitwise_or, commutative=True),
        _same("bitwise_xor", 2, kinds, reference.bitwise_xor, commutative=True),
        _same("bitwise_not", 1, kinds, reference.bitwise_not),
        _same("shift_left", 2, _INTEGERS, reference.shift_left),
        _same("shift_right", 2, _INTEGERS, reference.shift_right),
    ]


def _bits() -> list[OpInfo]:
    """Bit casts; ``half_bits`` are those of the nearest float16, and back."""
    return [
        OpInfo("bits", 1, "twin", tuple(map(str, TWINS)), reference.bits),
        OpInfo("half_bits", 1, "twin", ("float32",), reference.half_bits),
        OpInfo("of_half_bits", 1, "twin", ("int32",), reference.of_half_bits),
    ]


def _codes() -> list[OpInfo]:
    """The code of the nearest 8-bit float, and back."""
    return [
        info
        for dtype, form in float8.FORMATS.items()
        for info in (
            OpInfo(f"{dtype}_code", 1, "code", ("float32",), partial(float8.encode, form=form)),
            OpInfo(f"of_{dtype}_code", 1, "code", ("uint8",), partial(float8.decode, form=form)),
        )
    ]


def _random() -> list[OpInfo]:
    return [_same("philox", 2, ("int64",), philox)]


_COST = {
    **dict.fromkeys(
        "add sub mul neg abs square cast where eq ne lt le gt ge minimum maximum relu logical_and "
        "logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor bitwise_not".split(),
        Cost.ONE,
    ),
    **dict.fromkeys(
        "isnan floor ceil trunc round sign signbit shift_left shift_right".split(), Cost.FEW
    ),
}
_DISCONTINUOUS = frozenset(
    "floor ceil trunc round floordiv truncdiv remainder fmod sign signbit eq ne lt le gt ge bits "
    "half_bits".split()
)


OPS: dict[str, OpInfo] = {
    info.name: replace(
        info,
        cost=_COST.get(info.name, Cost.MANY),
        is_discontinuous=info.name in _DISCONTINUOUS,
    )
    for group in (
        _arithmetic(),
        _transcendental(),
        _rounding(),
        _to_16_bits(),
        _comparisons(),
        _logic(),
        _classifications(),
        _bitwise(),
        _bits(),
        _codes(),
        _random(),
    )
    for info in group
}
