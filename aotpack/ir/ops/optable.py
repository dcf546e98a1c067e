"""The elementwise operators: arity, type rule, exact meaning in numpy, and Triton text by type.

One table drives rendering, constant folding, the evaluator and the generated test matrix. Texts
have ``{0}``, ``{1}``, ``{2}`` for operands (names of temporaries; literals too, but not all),
``{type}`` for the Triton type of the result and ``{bits}`` for the width of the operands.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from aotpack.ir.dtypes import DType
from aotpack.ir.ops import float8, reference
from aotpack.ir.ops.fast_texts import FAST_ERF, FAST_GELU, FAST_GELU_TANH, FAST_TANH
from aotpack.ir.ops.opinfo import TWINS, Cost, OpInfo
from aotpack.ir.ops.philox import philox
from aotpack.ir.ops.reference import Reference

_NUMBERS = ("float", "int", "uint")
_INTEGERS = ("int", "uint")
_ALL = ("float", "int", "uint", "bool")


def _on(kinds: Sequence[str], text: str) -> dict[str, str]:
    return dict.fromkeys(kinds, text)


def _arithmetic() -> list[OpInfo]:
    plain = [
        OpInfo("add", 2, "same", _on(_NUMBERS, "{0} + {1}"), reference.add, 0.5, commutative=True),
        OpInfo("sub", 2, "same", _on(_NUMBERS, "{0} - {1}"), reference.sub, 0.5),
        OpInfo("mul", 2, "same", _on(_NUMBERS, "{0} * {1}"), reference.mul, 0.5, commutative=True),
        OpInfo("square", 1, "same", _on(_NUMBERS, "{0} * {0}"), reference.square, 0.5),
        OpInfo(
            "neg",
            1,
            "same",
            {"float": "{0} * -1.0", "int": "0 - {0}", "uint": "0 - {0}"},
            reference.neg,
        ),
        OpInfo("abs", 1, "same", _on(_NUMBERS, "tl.abs({0})"), reference.absolute),
    ]
    return plain + _divisions() + _selections()


_FLOAT_BELOW = "(({2} != 0.0) & (({2} < 0.0) != ({1} < 0.0)))"
_FMOD = "libdevice.fmod({0}, {1})"
# Dividing by zero lets LLVM conclude that the divisor is never zero anywhere in the kernel, which
# would break ``where(y != 0, x // y, 0)``; so the divisor is made 1 where it is 0.
_DIVISOR = "({1} | ({1} == 0))"
_REST = f"{{0}} % {_DIVISOR}"
_OPPOSITE = f"(({_REST} != 0) & (({{0}} < 0) != ({{1}} < 0)))"


def _same(
    name: str, arity: int, texts: Mapping[str, str], meaning: Reference, ulp: float = 0
) -> OpInfo:
    return OpInfo(name, arity, "same", texts, meaning, ulp)


def _divisions() -> list[OpInfo]:
    divide = {"float32": "tl.div_rn({0}, {1})", "float64": "{0} / {1}"}
    invert = {"float32": "tl.div_rn(1.0, {0})", "float64": "1.0 / {0}"}
    fast_divide, fast_invert = {DType.FLOAT16: "{0} / {1}"}, {DType.FLOAT16: "1.0 / {0}"}
    return [
        OpInfo("div", 2, "same", divide, reference.div, 0.5, fast_divide),
        OpInfo("reciprocal", 1, "same", invert, reference.reciprocal, 0.5, fast_invert),
        *_whole_divisions(),
    ]


def _whole_divisions() -> list[OpInfo]:
    whole = f"{{0}} // {_DIVISOR}"
    borrow = _FLOAT_BELOW.replace("{2}", _FMOD)
    floored = f"libdevice.rint(({{0}} - {_FMOD}) / {{1}}) - {borrow}.to({{type}})"
    floordiv = {
        "float": f"tl.where({{1}} == 0.0, {{0}} / {{1}}, {floored})",
        "int": f"{whole} - {_OPPOSITE}.to({{type}})",
        "uint": whole,
    }
    truncdiv = {
        "float32": "libdevice.trunc(tl.div_rn({0}, {1}))",
        "float64": "libdevice.trunc({0} / {1})",
        **_on(_INTEGERS, whole),
    }
    remainder = {
        "float": f"tl.where({borrow}, {_FMOD} + {{1}}, {_FMOD})",
        "int": f"{_REST} + tl.where({_OPPOSITE}, {{1}}, 0)",
        "uint": _REST,
    }
    fmod = {"float": _FMOD, **_on(_INTEGERS, _REST)}
    return [
        _same("floordiv", 2, floordiv, reference.floordiv, 1),
        _same("truncdiv", 2, truncdiv, reference.truncdiv),
        _same("remainder", 2, remainder, reference.remainder, 0.5),
        _same("fmod", 2, fmod, reference.fmod),
    ]


def _selections() -> list[OpInfo]:
    extremum = "tl.{name}({{0}}, {{1}}, propagate_nan=tl.PropagateNan.ALL)"
    minimum = {**_on(_NUMBERS, extremum.format(name="minimum")), "bool": "{0} & {1}"}
    maximum = {**_on(_NUMBERS, extremum.format(name="maximum")), "bool": "{0} | {1}"}
    relu = {
        "float": "tl.maximum({0}, 0.0, propagate_nan=tl.PropagateNan.ALL)",
        "int": "tl.maximum({0}, 0)",
        "uint": "{0}",
    }
    sign = {
        "float": "({0} > 0.0).to({type}) - ({0} < 0.0).to({type})",
        "int": "({0} > 0).to({type}) - ({0} < 0).to({type})",
        "uint": "({0} > 0).to({type})",
    }
    return [
        OpInfo("minimum", 2, "same", minimum, reference.minimum, commutative=True),
        OpInfo("maximum", 2, "same", maximum, reference.maximum, commutative=True),
        _same("relu", 1, relu, reference.relu),
        _same("where", 3, _on(_ALL, "tl.where({0}, {1}, {2})"), reference.where),
        _same("sign", 1, sign, reference.sign),
        OpInfo("cast", 1, "given", _on(_ALL, "{0}.to({type})"), reference.identity),
    ]


def _float(
    name: str, text: str, meaning: Reference, ulp: float, fast: str | None = None, arity: int = 1
) -> OpInfo:
    fast_texts = {DType.FLOAT16: fast} if fast else {}
    return OpInfo(name, arity, "same", {"float": text}, meaning, ulp, fast_texts)


_SIGMOID = "(1.0 + libdevice.exp({0} * -1.0))"


def _transcendental() -> list[OpInfo]:
    root = {"float32": "tl.sqrt_rn({0})", "float64": "tl.sqrt({0})"}
    # Channels often have equal variances, so that the error of a fast root adds up over layers.
    inverse = {"float32": "tl.div_rn(1.0, tl.sqrt_rn({0}))", "float64": "1.0 / tl.sqrt({0})"}
    sigmoid = {"float32": f"tl.div_rn(1.0, {_SIGMOID})", "float64": f"1.0 / {_SIGMOID}"}
    graded = [
        _float("exp", "libdevice.exp({0})", reference.exp, 2, "tl.exp({0})"),
        _float("exp2", "libdevice.exp2({0})", reference.exp2, 2, "tl.exp2({0})"),
        _float("erf", "tl.erf({0})", reference.erf, 2, FAST_ERF),
        _float("tanh", "libdevice.tanh({0})", reference.tanh, 2, FAST_TANH),
        OpInfo("rsqrt", 1, "same", inverse, reference.rsqrt, 1, {DType.FLOAT16: "tl.rsqrt({0})"}),
        OpInfo(
            "sqrt", 1, "same", root, reference.sqrt, 0.5, fast_texts={DType.FLOAT16: "tl.sqrt({0})"}
        ),
        OpInfo(
            "sigmoid",
            1,
            "same",
            sigmoid,
            reference.sigmoid,
            3,
            fast_texts={DType.FLOAT16: "1.0 / (1.0 + tl.exp({0} * -1.0))"},
        ),
    ]
    ulps = {"expm1": 2, "log": 1, "log2": 1, "log10": 2, "log1p": 1, "erfc": 4, "tan": 4, "sin": 2}
    ulps |= {"cos": 2, "asin": 2, "acos": 2, "atan": 2, "sinh": 3, "cosh": 2, "asinh": 3}
    ulps |= {"acosh": 4, "atanh": 3, "lgamma": 6}
    library = [
        _float(name, f"libdevice.{name}({{0}})", reference.LIBRARY[name], ulp)
        for name, ulp in ulps.items()
    ]
    binary = [
        _float("atan2", "libdevice.atan2({0}, {1})", reference.atan2, 3, arity=2),
        _float("pow", "libdevice.pow({0}, {1})", reference.power, 9, arity=2),
    ]
    return graded + _gelus() + library + binary


def _gelus() -> list[OpInfo]:
    """The operand times the normal distribution's share below it; by erf, by tanh."""
    erf = "{0} * 0.5 * (tl.erf({0} * 0.7071067811865476) + 1.0)"
    growth = "{0} * (-1.5957691216057308 - 0.07135481627260025 * {0} * {0})"
    tanh = {
        "float32": f"tl.div_rn({{0}}, 1.0 + libdevice.exp({growth}))",
        "float64": f"{{0}} / (1.0 + libdevice.exp({growth}))",
    }
    return [
        OpInfo("gelu", 1, "same", {"float": erf}, reference.gelu, 2, FAST_GELU, of_operand=True),
        OpInfo(
            "gelu_tanh", 1, "same", tanh, reference.gelu_tanh, 2, FAST_GELU_TANH, of_operand=True
        ),
    ]


def _to_16_bits() -> list[OpInfo]:
    """A float32 as a 16-bit type keeps it."""
    return [
        _same(
            f"round_{dtype}", 1, {"float32": f"{{0}}.to({dtype.facts.triton}).to(tl.float32)"}, how
        )
        for dtype, how in reference.TO_16_BITS.items()
    ]


def _rounding() -> list[OpInfo]:
    texts = {
        "floor": "tl.floor({0})",
        "ceil": "tl.ceil({0})",
        "trunc": "libdevice.trunc({0})",
        "round": "libdevice.rint({0})",
    }
    return [
        OpInfo(name, 1, "same", {"float": text, **_on(_INTEGERS, "{0}")}, reference.ROUNDING[name])
        for name, text in texts.items()
    ]


def _predicate(
    name: str,
    arity: int,
    texts: Mapping[str, str],
    meaning: Reference,
    *,
    commutative: bool = False,
) -> OpInfo:
    return OpInfo(name, arity, "bool", texts, meaning, commutative=commutative)


def _comparisons() -> list[OpInfo]:
    symbols = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
    return [
        _predicate(
            name,
            2,
            _on(_ALL, f"{{0}} {symbol} {{1}}"),
            reference.COMPARISONS[name],
            commutative=name in ("eq", "ne"),
        )
        for name, symbol in symbols.items()
    ]


def _logic() -> list[OpInfo]:
    binary = [
        _predicate(
            f"logical_{name}",
            2,
            {**_on(_NUMBERS, f"({{0}} != 0) {sign} ({{1}} != 0)"), "bool": f"{{0}} {sign} {{1}}"},
            meaning,
            commutative=True,
        )
        for name, sign, meaning in (
            ("and", "&", reference.logical_and),
            ("or", "|", reference.logical_or),
            ("xor", "^", reference.logical_xor),
        )
    ]
    negation = {**_on(_NUMBERS, "{0} == 0"), "bool": "~{0}"}
    return [*binary, _predicate("logical_not", 1, negation, reference.logical_not)]


def _classifications() -> list[OpInfo]:
    signbit = {
        "float32": "{0}.to(tl.int32, bitcast=True) < 0",
        "float64": "{0}.to(tl.int64, bitcast=True) < 0",
        **_on(_INTEGERS, "{0} < 0"),
    }
    infinite = {"float": 'tl.abs({0}) == float("inf")'}
    return [
        _predicate("isnan", 1, {"float": "{0} != {0}"}, reference.isnan),
        _predicate("isinf", 1, infinite, reference.isinf),
        _predicate("signbit", 1, signbit, reference.signbit),
    ]


def _bitwise() -> list[OpInfo]:
    kinds = ("int", "uint", "bool")
    outside = "({1} < 0) | ({1} >= {bits})"
    return [
        OpInfo(
            f"bitwise_{name}",
            2,
            "same",
            _on(kinds, f"{{0}} {symbol} {{1}}"),
            meaning,
            commutative=True,
        )
        for name, symbol, meaning in (
            ("and", "&", reference.bitwise_and),
            ("or", "|", reference.bitwise_or),
            ("xor", "^", reference.bitwise_xor),
        )
    ] + [
        OpInfo("bitwise_not", 1, "same", _on(kinds, "~{0}"), reference.bitwise_not),
        OpInfo(
            "shift_left",
            2,
            "same",
            _on(_INTEGERS, f"tl.where({outside}, 0, {{0}} << tl.where({outside}, 0, {{1}}))"),
            reference.shift_left,
        ),
        OpInfo(
            "shift_right",
            2,
            "same",
            {
                "int": f"{{0}} >> tl.where({outside}, {{bits}} - 1, {{1}})",
                "uint": f"tl.where({outside}, 0, {{0}} >> tl.where({outside}, 0, {{1}}))",
            },
            reference.shift_right,
        ),
    ]


def _bits() -> list[OpInfo]:
    """Bits seen as another type; ``half_bits`` are those of the nearest float16, and back."""
    same = {str(own): f"{{0}}.to({twin.facts.triton}, bitcast=True)" for own, twin in TWINS.items()}
    half = {"float32": "{0}.to(tl.float16).to(tl.int16, bitcast=True).to(tl.int32)"}
    back = {"int32": "{0}.to(tl.int16).to(tl.float16, bitcast=True).to(tl.float32)"}
    return [
        OpInfo("bits", 1, "twin", same, reference.bits),
        OpInfo("half_bits", 1, "twin", half, reference.half_bits),
        OpInfo("of_half_bits", 1, "twin", back, reference.of_half_bits),
    ]


def _codes() -> list[OpInfo]:
    """The code of the nearest 8-bit float, and back."""
    return [
        info
        for dtype, form in float8.FORMATS.items()
        for info in (
            OpInfo(
                f"{dtype}_code",
                1,
                "code",
                {"float32": float8.triton_encode(form)},
                partial(float8.encode, form=form),
            ),
            OpInfo(
                f"of_{dtype}_code",
                1,
                "code",
                {"uint8": float8.triton_decode(form)},
                partial(float8.decode, form=form),
            ),
        )
    ]


def _random() -> list[OpInfo]:
    words = "tl.philox({0}, {1}.to(tl.uint32), ({1} >> 32).to(tl.uint32), 0, 0)"
    text = f"{words}[0].to(tl.int64) | ({words}[1].to(tl.int64) << 32)"
    return [OpInfo("philox", 2, "same", {"int64": text}, philox)]


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
