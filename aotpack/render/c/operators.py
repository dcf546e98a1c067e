"""The elementwise operators in C: a text for each type or kind of type.

Texts have ``{0}``, ``{1}``, ``{2}`` for operands (names or literals), ``{type}`` for the C type of
the operands, ``{unsigned}`` for its unsigned twin, ``{dtype}`` for its name in the functions of
``templates/math.h.jinja`` and ``circular.h.jinja``, and ``{bits}`` for its width. No text traps or
is undefined.
"""

from collections.abc import Sequence

from aotpack.ir.dtypes import DType
from aotpack.ir.ops.float8 import FORMATS
from aotpack.render.c.types import C_TYPES, c_cast
from aotpack.render.emit.texts import (
    ALL,
    COMPARISONS,
    INTEGERS,
    LOGIC,
    NUMBERS,
    Texts,
    on,
    text_for,
)


def c_text(op: str, operands: Sequence[str], operand: DType, result: DType) -> str:
    """C text of an operator on operands of type ``operand`` (of where: its branches)."""
    if op == "cast":
        return c_cast(operands[0], operand, result)
    name = C_TYPES[operand]
    return text_for(C_TEXTS, op, operand).format(
        *operands,
        type=name,
        unsigned=name if name.startswith("u") else f"u{name}",
        dtype=str(operand),
        bits=operand.facts.bits,
    )


def _library(name: str) -> dict[str, str]:
    """The C library's function."""
    return {"float32": f"{name}f({{0}})", "float64": f"{name}({{0}})"}


def _own(name: str) -> dict[str, str]:
    """A function of ``templates/math.h.jinja`` or ``circular.h.jinja``."""
    return {"float": f"aot_{name}_{{dtype}}({{0}})"}


_OUTSIDE = "(({1} < 0) | ({1} >= {bits}))"
_SHIFTED = "({unsigned}){0} << ({1} & ({bits} - 1))"

_ARITHMETIC = {
    "add": {"float": "{0} + {1}", **on(INTEGERS, "aot_add_{dtype}({0}, {1})")},
    "sub": {"float": "{0} - {1}", **on(INTEGERS, "aot_sub_{dtype}({0}, {1})")},
    "mul": {"float": "{0} * {1}", **on(INTEGERS, "aot_mul_{dtype}({0}, {1})")},
    "square": {"float": "{0} * {0}", **on(INTEGERS, "aot_mul_{dtype}({0}, {0})")},
    "neg": {"float": "-{0}", **on(INTEGERS, "aot_sub_{dtype}(0, {0})")},
    "abs": {
        "float32": "fabsf({0})",
        "float64": "fabs({0})",
        "int": "{0} < 0 ? aot_sub_{dtype}(0, {0}) : {0}",
        "uint": "{0}",
    },
    "div": on(("float",), "{0} / {1}"),
    "reciprocal": on(("float",), "({type})1 / {0}"),
    "floordiv": on(NUMBERS, "aot_floordiv_{dtype}({0}, {1})"),
    "truncdiv": {
        "float32": "truncf({0} / {1})",
        "float64": "trunc({0} / {1})",
        **on(INTEGERS, "aot_truncdiv_{dtype}({0}, {1})"),
    },
    "remainder": on(NUMBERS, "aot_remainder_{dtype}({0}, {1})"),
    "fmod": {
        "float32": "fmodf({0}, {1})",
        "float64": "fmod({0}, {1})",
        **on(INTEGERS, "aot_fmod_{dtype}({0}, {1})"),
    },
}

_SELECTIONS = {
    "minimum": {
        "float": "({0} < {1}) | ({0} != {0}) ? {0} : {1}",
        **on(INTEGERS, "{0} < {1} ? {0} : {1}"),
        "bool": "{0} & {1}",
    },
    "maximum": {
        "float": "({0} > {1}) | ({0} != {0}) ? {0} : {1}",
        **on(INTEGERS, "{0} > {1} ? {0} : {1}"),
        "bool": "{0} | {1}",
    },
    "relu": {**on(("float", "int"), "{0} < 0 ? 0 : {0}"), "uint": "{0}"},
    "where": on(ALL, "{0} ? {1} : {2}"),
    "sign": on(NUMBERS, "({type})({0} > 0) - ({type})({0} < 0)"),
    "cast": on(ALL, "({type}){0}"),
}

_TRANSCENDENTAL = {
    **{
        name: _own(name)
        for name in (
            "exp exp2 expm1 log log2 log10 log1p erf tanh sigmoid sin cos tan atan sinh cosh"
        ).split()
    },
    **{name: _library(name) for name in "sqrt erfc asin acos asinh acosh atanh lgamma".split()},
    "gelu": {
        "float": "{0} * ({type})0.5 * (aot_erf_{dtype}({0} * ({type})0.7071067811865476) + 1)"
    },
    "gelu_tanh": {
        "float": "{0} * ({type})0.5 * (aot_tanh_{dtype}(({0} + {0} * {0} * {0} * ({type})0.044715)"
        " * ({type})0.7978845608028654) + 1)"
    },
    "rsqrt": {"float32": "1.0f / sqrtf({0})", "float64": "1.0 / sqrt({0})"},
    "atan2": {"float": "aot_atan2_{dtype}({0}, {1})"},
    "pow": {"float32": "powf({0}, {1})", "float64": "pow({0}, {1})"},
}

_ROUNDING = {
    name: {**_library(function), **on(INTEGERS, "{0}")}
    for name, function in {
        "floor": "floor",
        "ceil": "ceil",
        "trunc": "trunc",
        "round": "rint",
    }.items()
}

_TO_16_BITS = {
    f"round_{dtype}": {"float32": f"aot_round_{dtype}({{0}})"}
    for dtype in (DType.FLOAT16, DType.BFLOAT16)
}

_PREDICATES = {
    **COMPARISONS,
    **LOGIC,
    "logical_not": on(ALL, "{0} == 0"),
    "isnan": {"float": "{0} != {0}"},
    "isinf": {"float32": "fabsf({0}) == INFINITY", "float64": "fabs({0}) == INFINITY"},
    "signbit": {
        "float32": "aot_bits_float32({0}) < 0",
        "float64": "aot_bits_float64({0}) < 0",
        **on(INTEGERS, "{0} < 0"),
    },
}

_BITWISE = {
    **{
        f"bitwise_{name}": on((*INTEGERS, "bool"), f"{{0}} {sign} {{1}}")
        for name, sign in {"and": "&", "or": "|", "xor": "^"}.items()
    },
    "bitwise_not": {**on(INTEGERS, "~{0}"), "bool": "{0} == 0"},
    "shift_left": on(INTEGERS, f"{_OUTSIDE} ? 0 : ({{type}})({_SHIFTED})"),
    "shift_right": {
        "int": f"{{0}} >> ({_OUTSIDE} ? {{bits}} - 1 : {{1}})",
        "uint": f"{_OUTSIDE} ? 0 : {{0}} >> ({{1}} & ({{bits}} - 1))",
    },
}

_BITS = {
    "bits": {
        **{dtype: f"aot_bits_{dtype}({{0}})" for dtype in ("float32", "float64")},
        "int32": "aot_float32_of_bits({0})",
        "int64": "aot_float64_of_bits({0})",
    },
    "half_bits": {"float32": "(int32_t)(int16_t)aot_float16_of_float({0})"},
    "of_half_bits": {"int32": "aot_float_of_float16((uint16_t){0})"},
}

_CODES = {
    name: {operand: f"{function}({{0}}, {form.mantissa}, {form.bias}, {form.excess}, {form.nan})"}
    for dtype, form in FORMATS.items()
    for name, operand, function in (
        (f"{dtype}_code", "float32", "aot_code_of_float"),
        (f"of_{dtype}_code", "uint8", "aot_float_of_code"),
    )
}

C_TEXTS: Texts = {
    **_ARITHMETIC,
    **_SELECTIONS,
    **_TRANSCENDENTAL,
    **_ROUNDING,
    **_TO_16_BITS,
    **_PREDICATES,
    **_BITWISE,
    **_BITS,
    **_CODES,
    "philox": {"int64": "aot_philox({0}, {1})"},
}
