"""The elementwise operators in Triton: a text for each type or kind of type.

Texts have ``{0}``, ``{1}``, ``{2}`` for operands (names of temporaries; literals too, but not all),
``{type}`` for the Triton type of the result and ``{bits}`` for the width of the operands.
"""

from collections.abc import Sequence

from aotpack.ir.dtypes import DType
from aotpack.ir.ops.float8 import FORMATS
from aotpack.ir.ops.opinfo import TWINS
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
from aotpack.render.triton.fast_operators import fast_text
from aotpack.render.triton.float8 import decode_text, encode_text
from aotpack.render.triton.types import TRITON_TYPES


def triton_text(
    op: str, operands: Sequence[str], operand: DType, result: DType, ends_in: DType | None = None
) -> str:
    """Triton text of an operator on operands of type ``operand`` (of where: its branches).

    ``ends_in`` is the 16-bit type that all dependent results are rounded to, if any.
    """
    text = text_for(TRITON_TEXTS, op, operand)
    if ends_in is not None and operand is DType.FLOAT32:
        text = fast_text(op, ends_in) or text
    if op == "cast" and result is DType.UINT8 and operand.is_float:
        text = "{0}.to(tl.int64).to(tl.uint8)"
    return text.format(*operands, type=TRITON_TYPES[result], bits=operand.facts.bits)


_FLOAT_BELOW = "(({2} != 0.0) & (({2} < 0.0) != ({1} < 0.0)))"
_FMOD = "libdevice.fmod({0}, {1})"
_BORROW = _FLOAT_BELOW.replace("{2}", _FMOD)
_FLOORED = f"libdevice.rint(({{0}} - {_FMOD}) / {{1}}) - {_BORROW}.to({{type}})"
# Division by zero lets LLVM conclude that the divisor is nowhere zero in the kernel, which would
# break ``where(y != 0, x // y, 0)``; so a divisor of 0 is replaced by 1.
_DIVISOR = "({1} | ({1} == 0))"
_WHOLE = f"{{0}} // {_DIVISOR}"
_REST = f"{{0}} % {_DIVISOR}"
_OPPOSITE = f"(({_REST} != 0) & (({{0}} < 0) != ({{1}} < 0)))"

_ARITHMETIC = {
    "add": on(NUMBERS, "{0} + {1}"),
    "sub": on(NUMBERS, "{0} - {1}"),
    "mul": on(NUMBERS, "{0} * {1}"),
    "square": on(NUMBERS, "{0} * {0}"),
    "neg": {"float": "{0} * -1.0", **on(INTEGERS, "0 - {0}")},
    "abs": on(NUMBERS, "tl.abs({0})"),
    "div": {"float32": "tl.div_rn({0}, {1})", "float64": "{0} / {1}"},
    "reciprocal": {"float32": "tl.div_rn(1.0, {0})", "float64": "1.0 / {0}"},
    "floordiv": {
        "float": f"tl.where({{1}} == 0.0, {{0}} / {{1}}, {_FLOORED})",
        "int": f"{_WHOLE} - {_OPPOSITE}.to({{type}})",
        "uint": _WHOLE,
    },
    "truncdiv": {
        "float32": "libdevice.trunc(tl.div_rn({0}, {1}))",
        "float64": "libdevice.trunc({0} / {1})",
        **on(INTEGERS, _WHOLE),
    },
    "remainder": {
        "float": f"tl.where({_BORROW}, {_FMOD} + {{1}}, {_FMOD})",
        "int": f"{_REST} + tl.where({_OPPOSITE}, {{1}}, 0)",
        "uint": _REST,
    },
    "fmod": {"float": _FMOD, **on(INTEGERS, _REST)},
}

_SELECTIONS = {
    "minimum": {
        **on(NUMBERS, "tl.minimum({0}, {1}, propagate_nan=tl.PropagateNan.ALL)"),
        "bool": "{0} & {1}",
    },
    "maximum": {
        **on(NUMBERS, "tl.maximum({0}, {1}, propagate_nan=tl.PropagateNan.ALL)"),
        "bool": "{0} | {1}",
    },
    "relu": {
        "float": "tl.maximum({0}, 0.0, propagate_nan=tl.PropagateNan.ALL)",
        "int": "tl.maximum({0}, 0)",
        "uint": "{0}",
    },
    "where": on(ALL, "tl.where({0}, {1}, {2})"),
    "sign": {
        "float": "({0} > 0.0).to({type}) - ({0} < 0.0).to({type})",
        "int": "({0} > 0).to({type}) - ({0} < 0).to({type})",
        "uint": "({0} > 0).to({type})",
    },
    "cast": on(ALL, "{0}.to({type})"),
}

_SIGMOID = "(1.0 + libdevice.exp({0} * -1.0))"
_GROWTH = "{0} * (-1.5957691216057308 - 0.07135481627260025 * {0} * {0})"
_LIBRARY = (
    "exp exp2 expm1 log log2 log10 log1p erfc lgamma tanh"
    " sin cos tan asin acos atan sinh cosh asinh acosh atanh"
)

_TRANSCENDENTAL = {
    **{name: {"float": f"libdevice.{name}({{0}})"} for name in _LIBRARY.split()},
    "erf": {"float": "tl.erf({0})"},
    "sqrt": {"float32": "tl.sqrt_rn({0})", "float64": "tl.sqrt({0})"},
    # Channels often have equal variances, so errors of a fast root would add up over layers.
    "rsqrt": {"float32": "tl.div_rn(1.0, tl.sqrt_rn({0}))", "float64": "1.0 / tl.sqrt({0})"},
    "sigmoid": {"float32": f"tl.div_rn(1.0, {_SIGMOID})", "float64": f"1.0 / {_SIGMOID}"},
    "gelu": {"float": "{0} * 0.5 * (tl.erf({0} * 0.7071067811865476) + 1.0)"},
    "gelu_tanh": {
        "float32": f"tl.div_rn({{0}}, 1.0 + libdevice.exp({_GROWTH}))",
        "float64": f"{{0}} / (1.0 + libdevice.exp({_GROWTH}))",
    },
    "atan2": {"float": "libdevice.atan2({0}, {1})"},
    "pow": {"float": "libdevice.pow({0}, {1})"},
}

# ``tl.floor`` and ``tl.ceil`` take denormal numbers for zero.
_TRUNC = "libdevice.trunc({0})"
_ROUNDING = {
    name: {"float": text, **on(INTEGERS, "{0}")}
    for name, text in {
        "floor": f"tl.where({{0}} < {_TRUNC}, {_TRUNC} - 1.0, {_TRUNC})",
        "ceil": f"tl.where({{0}} > {_TRUNC}, {_TRUNC} + 1.0, {_TRUNC})",
        "trunc": _TRUNC,
        "round": "libdevice.rint({0})",
    }.items()
}

_TO_16_BITS = {
    f"round_{dtype}": {"float32": f"{{0}}.to({TRITON_TYPES[dtype]}).to(tl.float32)"}
    for dtype in (DType.FLOAT16, DType.BFLOAT16)
}

_PREDICATES = {
    **COMPARISONS,
    **LOGIC,
    "logical_not": {**on(NUMBERS, "{0} == 0"), "bool": "~{0}"},
    "isnan": {"float": "{0} != {0}"},
    "isinf": {"float": 'tl.abs({0}) == float("inf")'},
    "signbit": {
        "float32": "{0}.to(tl.int32, bitcast=True) < 0",
        "float64": "{0}.to(tl.int64, bitcast=True) < 0",
        **on(INTEGERS, "{0} < 0"),
    },
}

_OUTSIDE = "({1} < 0) | ({1} >= {bits})"

_BITWISE = {
    **{
        f"bitwise_{name}": on((*INTEGERS, "bool"), f"{{0}} {sign} {{1}}")
        for name, sign in {"and": "&", "or": "|", "xor": "^"}.items()
    },
    "bitwise_not": on((*INTEGERS, "bool"), "~{0}"),
    "shift_left": on(INTEGERS, f"tl.where({_OUTSIDE}, 0, {{0}} << tl.where({_OUTSIDE}, 0, {{1}}))"),
    "shift_right": {
        "int": f"{{0}} >> tl.where({_OUTSIDE}, {{bits}} - 1, {{1}})",
        "uint": f"tl.where({_OUTSIDE}, 0, {{0}} >> tl.where({_OUTSIDE}, 0, {{1}}))",
    },
}

_BITS = {
    "bits": {
        str(own): f"{{0}}.to({TRITON_TYPES[twin]}, bitcast=True)" for own, twin in TWINS.items()
    },
    "half_bits": {"float32": "{0}.to(tl.float16).to(tl.int16, bitcast=True).to(tl.int32)"},
    "of_half_bits": {"int32": "{0}.to(tl.int16).to(tl.float16, bitcast=True).to(tl.float32)"},
}

_CODES = {
    name: {operand: text}
    for dtype, form in FORMATS.items()
    for name, operand, text in (
        (f"{dtype}_code", "float32", encode_text(form)),
        (f"of_{dtype}_code", "uint8", decode_text(form)),
    )
}

_WORDS = "tl.philox({0}, {1}.to(tl.uint32), ({1} >> 32).to(tl.uint32), 0, 0)"

TRITON_TEXTS: Texts = {
    **_ARITHMETIC,
    **_SELECTIONS,
    **_TRANSCENDENTAL,
    **_ROUNDING,
    **_TO_16_BITS,
    **_PREDICATES,
    **_BITWISE,
    **_BITS,
    **_CODES,
    "philox": {"int64": f"{_WORDS}[0].to(tl.int64) | ({_WORDS}[1].to(tl.int64) << 32)"},
}
