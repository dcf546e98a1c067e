"""Golden data: recorded inputs and results, for the self-test of a package."""

import math
import re
from dataclasses import dataclass
from typing import TypeAlias

from aotpack.errors import UsageError
from aotpack.ir.dtypes import DType

SIZE = 4e6  # bytes of golden data in a wheel

Recorded: TypeAlias = tuple[str, DType, tuple[int, ...], bytes]
"""A tensor: name, element type, shape, bytes."""


@dataclass(frozen=True, slots=True)
class DrawnInput:
    """A golden input drawn evenly between ``low`` and ``high`` (``runtime/golden/drawn``)."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    seed: int
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class SampledResult:
    """A golden result of which ``count`` elements, and sums over blocks of ``block``, are kept."""

    name: str  # outputs/NAME or updates/NAME
    shape: tuple[int, ...]
    count: int
    block: int


@dataclass(frozen=True, slots=True)
class Golden:
    """Recorded inputs and outputs for the package's self-test (accuracy law).

    ``inputs`` are kept whole, ``drawn`` ones come from a seed. ``outputs`` and ``updates`` (the new
    values of tensors that the first call changes) are the float64 reference rounded to float32,
    integers and bools as they are; of ``sampled`` ones, some elements. ``eager_errors`` holds, per
    output and then per update, the largest absolute difference between eager and the reference, of
    integers and bools the number of elements that differ. ``limits`` say how far single elements
    may be off: ``bounds`` of floats as bfloat16; ``ranges`` of the integers and bools that rounding
    changes, in rows of position, lowest and highest value, and ``eager``'s own values of these;
    ``sums`` and their ``slack`` of sampled results. They are named bounds/outputs/NAME, and so on.
    ``note`` says what was left out and why; without results it is why there are none.
    """

    inputs: tuple[Recorded, ...]
    outputs: tuple[Recorded, ...]
    eager_errors: tuple[float, ...]
    updates: tuple[Recorded, ...] = ()
    limits: tuple[Recorded, ...] = ()
    drawn: tuple[DrawnInput, ...] = ()
    sampled: tuple[SampledResult, ...] = ()
    note: str = ""


def read_golden(value: str | float) -> float:
    """Bytes of golden data in a wheel, for "full", "none" or a number of megabytes."""
    text = str(value)
    if text in ("full", "none"):
        return math.inf if text == "full" else 0.0
    if re.fullmatch(r"\d+(\.\d*)?|\.\d+", text) and float(text) > 0:
        return float(text) * 1e6
    raise UsageError(
        f"golden data of {value!r}; accepted are 'full', 'none' and megabytes, such as 4"
    )
