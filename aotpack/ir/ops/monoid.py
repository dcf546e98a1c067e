"""The interface of reductions: an identity, states, lift, combine and finalise.

The kinds are in ``monoids.py`` and ``extremes.py``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from aotpack.ir.dtypes import DType
from aotpack.ir.ops.reference import Array

States: TypeAlias = tuple[Array, ...]
Number: TypeAlias = bool | int | float
LAST_INDEX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Monoid:
    """A reduction of one value per element to ``outputs`` results.

    ``states`` and ``results`` are types, None for the argument's. ``identity`` has a number, or
    "low" or "high" (the ends of the type), for each state. ``lift`` takes the element and its flat
    position in the reduced axes; with two ``inputs`` the second is the position. ``kinds`` are the
    kinds of element type that it accepts.

    With ``finds_first`` the last state is the position of the first extreme. Unless positions are
    given, a schedule may then combine only states of consecutive elements.
    """

    name: str
    states: tuple[DType | None, ...]
    results: tuple[DType | None, ...]
    identity: tuple[Number | str, ...]
    lift: Callable[[Array, Array], States]
    combine: Callable[[States, States], States]
    finalise: Callable[[States], States]
    finds_first: bool = False
    kinds: tuple[str, ...] = ("float", "int", "uint")
    inputs: int = 1

    @property
    def outputs(self) -> int:
        """The number of targets."""
        return len(self.results)

    @property
    def needs_order(self) -> bool:
        """True when states must be combined in the order of their elements."""
        return self.finds_first and self.inputs == 1

    @property
    def gives_positions(self) -> bool:
        """True for argmax and its like."""
        return DType.INT64 in self.results

    def accepts(self, dtype: DType) -> bool:
        """True when elements may have this type."""
        return dtype.facts.kind in self.kinds

    def state_dtypes(self, dtype: DType) -> tuple[DType, ...]:
        """The types of the states for elements of ``dtype``."""
        return tuple(own or dtype for own in self.states)

    def result_dtypes(self, dtype: DType) -> tuple[DType, ...]:
        """The types of the results for elements of ``dtype``, before they are stored."""
        return tuple(own or dtype for own in self.results)

    def identities(self, dtype: DType) -> tuple[Number, ...]:
        """The states of an empty reduction, as numbers of their types."""
        pairs = zip(self.identity, self.state_dtypes(dtype), strict=True)
        return tuple(_number(value, own) for value, own in pairs)


def _number(value: Number | str, dtype: DType) -> Number:
    if not isinstance(value, str):
        return float(value) if dtype.is_float else value
    if dtype.is_float:
        return -np.inf if value == "low" else np.inf
    limits = np.iinfo(dtype.facts.numpy or "")
    return int(limits.min if value == "low" else limits.max)
