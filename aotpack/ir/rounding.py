"""The places at which a 16-bit result is rounded, whatever fusion keeps wider.

A conversion of the model's own rounds where it stands. A decision gives an integer, a bool or a
step, which a difference in the last place may change wholly: it takes operands of their types.
"""

from collections.abc import Sequence

from aotpack.ir.dtypes import DType
from aotpack.ir.ops.float8 import FORMATS
from aotpack.ir.ops.reference import TO_16_BITS
from aotpack.ir.values import Apply, Value

CONVERSIONS = frozenset(
    "aten.to.dtype aten.to.dtype_layout aten.to.device aten.to.other aten._to_copy.default "
    "aten.type_as.default aten.copy.default aten.copy_.default "
    "prims.convert_element_type.default".split()
)
"""Conversions between types, as torch.export and its decompositions write them."""

_DECISIONS = frozenset(
    "eq ne lt le gt ge isin isinf isposinf isneginf isfinite signbit sign sgn heaviside "
    "logical_and logical_or logical_xor logical_not any all count_nonzero "
    "floor ceil trunc round frac fmod remainder floor_divide threshold hardshrink frexp nextafter "
    "nan_to_num "
    "argmax argmin argsort mode searchsorted bucketize histc histogram".split()
)
_CHOICES = frozenset("max min cummax cummin sort msort topk kthvalue median nanmedian".split())
_POOLINGS = frozenset(
    "max_pool1d_with_indices max_pool2d_with_indices max_pool3d_with_indices "
    "adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d".split()
)
"""Choices where the model uses the positions that they return beside the elements."""
_SAMPLERS = frozenset(["grid_sampler_2d", "grid_sampler_3d"])
_NEAREST = 1  # a sampler's third argument, its interpolation

PROMOTING = frozenset(
    "eq ne lt le gt ge isin searchsorted bucketize maximum minimum fmax fmin remainder fmod div "
    "floor_divide atan2 arctan2 copysign nextafter heaviside hypot pow where".split()
)
"""Operators that convert their operands to one type first, whose rounding shows in their result:
an integer beside a 16-bit float is rounded to that."""
_WIDER = frozenset(["mul", "div", "true_divide", "floor_divide"])
"""Operators that take a factor or divisor without dimensions as it is, like a number."""

ROUNDINGS = {f"round_{dtype}": dtype for dtype in TO_16_BITS}
"""The type that each rounding operator rounds to."""

_DECODERS = frozenset(f"of_{dtype}_code" for dtype in FORMATS)

MOVES = {"neg": 0, "abs": 0, "relu": 0, "minimum": 0, "maximum": 0, "where": 1}
"""Operators that give rounded numbers for rounded ones and commute with rounding, each with the
position of its first operand that is a number."""


def is_code(value: Value) -> bool:
    """True for a number of 8 bits: each type of factors holds it, so no rounding changes it."""
    if not isinstance(value, Apply):
        return False
    if value.op == "cast":
        return value.args[0].dtype in (DType.BOOL, DType.INT8, DType.UINT8)
    return value.op in _DECODERS


def is_decision(operator: str, arguments: Sequence[object], *, has_positions: bool) -> bool:
    """True for an operator, named as in torch, that takes its operands rounded to their types.

    ``has_positions`` tells whether the model uses the second result.
    """
    namespace, name, overload = (*operator.split("."), "", "")[:3]
    if namespace != "aten":
        return False
    if name in ("max", "min", "median", "nanmedian"):
        return overload == "dim"  # the others give no position
    if name in _POOLINGS:
        return has_positions
    if name in _SAMPLERS:
        return arguments[2] == _NEAREST
    is_step = operator == "aten.view.dtype" or overload.endswith("_mode")
    return is_step or name in _DECISIONS or name in _CHOICES


def name_of(operator: str) -> str:
    """The name of an operator without namespace and overload."""
    return (*operator.split("."), "")[1]


def rounds_operand(operator: str, *, has_dimensions: bool) -> bool:
    """True for an operator that rounds an operand to the type in which it computes."""
    return has_dimensions or name_of(operator) not in _WIDER


def is_choice(operator: str) -> bool:
    """True for an operator that, if it is a decision, also returns elements of its operand."""
    return operator.split(".")[1] in _CHOICES | _POOLINGS
