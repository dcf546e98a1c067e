"""Triton texts of the conversions between float32 and codes of 8-bit floats."""

from aotpack.ir.ops.float8 import Format

_BITS = "{0}.to(tl.int32, bitcast=True)"
_SIZE = f"({_BITS} & 0x7FFFFFFF)"


def encode_text(form: Format) -> str:
    """A float32 to its code.

    A number below the normal ones is added to one with an ulp of the smallest number: the last bits
    of the sum are the code, rounded. Others are rounded where the mantissa ends.
    """
    raise_by = 23 + form.smallest
    tiny = (
        f"(tl.abs({{0}}) + {2.0**raise_by}).to(tl.int32, bitcast=True) - {(127 + raise_by) << 23}"
    )
    half = (1 << (_shift(form) - 1)) - 1
    odd = f"(({_SIZE} >> {_shift(form)}) & 1)"
    normal = f"({_SIZE} - {_rebias(form) - half} + {odd}) >> {_shift(form)}"
    code = f"tl.where({_SIZE} < {_rebias(form) + (1 << 23)}, {tiny}, {normal})"
    code = f"tl.minimum({code}, {form.excess})"
    sign = f"(({_BITS} >> 24) & 0x80)"
    if form.is_unsigned_zero:
        return f"({code} | tl.where({code} == 0, 0, {sign})).to(tl.uint8)"
    return f"(tl.where({{0}} != {{0}}, {form.nan}, {code}) | {sign}).to(tl.uint8)"


def decode_text(form: Format) -> str:
    """A code to its number, a float32 of the code's bits times a power of two."""
    code = "{0}.to(tl.int32)"
    size = f"(({code} & 0x7F) << {_shift(form)}).to(tl.float32, bitcast=True)"
    bits = f"({size} * {2.0 ** (127 - form.bias)}).to(tl.int32, bitcast=True)"
    if form.is_unsigned_zero:
        special = f"{code} == 0x80"
    else:
        least = form.nan if form.excess == form.nan - 1 else form.excess
        special = f"({code} & 0x7F) >= {least}"
    if form.excess == 0x7C:  # all exponent bits: float32's, with the mantissa
        bits = f"({bits} | tl.where({special}, 0x7F800000, 0))"
    else:
        bits = f"tl.where({special}, 0x7FC00000, {bits})"
    return f"({bits} | (({code} & 0x80) << 24)).to(tl.float32, bitcast=True)"


def _shift(form: Format) -> int:
    """The bits of a float32 mantissa that are rounded off."""
    return 23 - form.mantissa


def _rebias(form: Format) -> int:
    """The difference of the exponent biases, in float32's exponent field."""
    return (127 - form.bias) << 23
