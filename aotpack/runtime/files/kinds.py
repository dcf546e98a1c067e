"""The kinds of values in manifest.json that several records have."""

import math
import re
from typing import Annotated, Any, TypeAlias

from ..dtypes import DTYPES, DType
from .schema import InRange, Matching, Mismatch, Parsed, is_text, shown

MOST = 1 << 62  # bytes and elements: their sums fit into 64 bits
_LONGEST_PATH = 1000
_PATH = re.compile(r"[^\x00-\x1f\x7f\\:/]+(/[^\x00-\x1f\x7f\\:/]+)*")
_SPECIAL = ("inf", "-inf", "nan")


def read_dtype(name: Any) -> DType:
    """The element type of a name."""
    if not isinstance(name, str) or name not in DTYPES:
        raise Mismatch(shown(name), ", ".join(DTYPES))
    return DTYPES[name]


def read_path(value: Any) -> str:
    """A path inside the package's folder, with slashes."""
    is_path = isinstance(value, str) and len(value) <= _LONGEST_PATH and _PATH.fullmatch(value)
    if not is_path or not is_text(value) or any(part.strip(".") == "" for part in value.split("/")):
        raise Mismatch(shown(value), "a path in the package, such as kernels/cpu/kernels.so")
    return str(value)


def read_constant(value: Any) -> bool | int | float | str | None:
    """A Python value; {"float": "inf"} stands for a number that JSON lacks."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str) and is_text(value):
        return value
    if isinstance(value, dict) and [*value] == ["float"] and value["float"] in _SPECIAL:
        return float(value["float"])
    words = 'true, false, null, a number, text, or {"float": "inf", "-inf" or "nan"}'
    raise Mismatch(shown(value), words)


def read_argument(value: Any) -> Any:
    """A fixed argument of a call of torch, as it stands in JSON."""
    if isinstance(value, list):
        return [read_argument(part) for part in value]
    keys = [*value] if isinstance(value, dict) else []
    if keys == ["passed"]:
        number = value["passed"]
        if type(number) is not int or number < 0:
            raise Mismatch(shown(number), "the number of a passed value").within("passed")
    elif keys == ["dtype"]:
        read_dtype(value["dtype"])
    else:
        read_constant(value)
    return value


Count: TypeAlias = Annotated[int, InRange(0, MOST)]
Positive: TypeAlias = Annotated[int, InRange(1, MOST)]
Small: TypeAlias = Annotated[int, InRange(1, 1 << 16)]
Number: TypeAlias = float  # finite
Error: TypeAlias = Annotated[float, InRange(0, math.inf)]
Name: TypeAlias = Annotated[
    str, Matching(re.compile(r"[^\x00-\x1f\x7f]{1,1000}"), "a name without control characters")
]
Identifier: TypeAlias = Annotated[
    str, Matching(re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,999}"), "an identifier in ASCII")
]
Operator: TypeAlias = Annotated[
    str, Matching(re.compile(r"(\w{1,300}\.){2}\w{1,300}"), "NAMESPACE.OPERATOR.OVERLOAD")
]
Sha256: TypeAlias = Annotated[
    str, Matching(re.compile(r"[0-9a-f]{64}"), "a sha256 as 64 hexadecimal digits")
]
File: TypeAlias = Annotated[str, Parsed(read_path)]
Type: TypeAlias = Annotated[DType, Parsed(read_dtype)]
Constant: TypeAlias = Annotated[bool | int | float | str | None, Parsed(read_constant)]
Argument: TypeAlias = Annotated[Any, Parsed(read_argument)]
