"""What a reduction is to every schedule: an identity, states, how they combine, what comes out.

The kinds themselves are in ``monoids.py`` and ``extremes.py``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
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

    ``states`` and ``results`` name the types, "same" standing for the argument's; ``identity`` has
    one of "low", "high" (the ends of the type) or a number for each state. ``lift`` takes the
    element and its flat position in the reduced axes; with two ``inputs`` the second is the
    position. Texts: ``lift_triton`` uses ``{0}``, ``{index}`` (int64) and ``{type}`` (of the
    element), ``finalise_triton`` the states ``{0}``...; ``combine_triton`` is the source of
    ``combine_<name>(a0, ..., b0, ...)``, a jit function for blocks and for single pairs;
    ``block_triton`` reduces a block along ``{axis}`` better than ``tl.reduce``, for kinds of type
    it is there for. ``group_triton`` is the source of ``group_<name>(elements, along)``: the states
    of a tile's lines with less work than lifting each element. ``merge_triton`` is the source of
    ``merge_<name>(a0, ..., total, along)``: the states of a tile's lines from states that have
    ``total`` elements in a line, in fewer steps than by pairs. They and ``across_triton`` may call
    ``across_uses``' combinations.

    Kinds whose last state is the position of the first extreme (of 32 or 64 bits) have
    ``across_triton``, the source of ``across_<name>(a0, a1, axis)``: states reduced along a
    dimension, values before positions. Unless positions are given, their combination is for
    states b of elements that lie behind those of a, and ``group_<name>(elements, start)`` takes a
    tile of (steps, lanes, neighbours) in the order of memory, for the state of each lane, with
    positions as if the first of its neighbours in the first step were at ``start``. Of these there
    may be ``most_neighbours``, if not 0.
    """

    name: str
    states: tuple[DType | None, ...]
    results: tuple[DType | None, ...]
    identity: tuple[Number | str, ...]
    lift: Callable[[Array, Array], States]
    combine: Callable[[States, States], States]
    finalise: Callable[[States], States]
    lift_triton: tuple[str, ...]
    combine_triton: str
    finalise_triton: tuple[str, ...]
    block_triton: Mapping[str, str] = field(default_factory=dict)
    group_triton: str = ""
    merge_triton: str = ""
    most_neighbours: int = 0
    across_triton: str = ""
    across_uses: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ("float", "int", "uint")
    inputs: int = 1

    @property
    def outputs(self) -> int:
        """The number of targets."""
        return len(self.results)

    @property
    def combine_name(self) -> str:
        """The name of the jit function in ``combine_triton``."""
        return f"combine_{self.name}"

    @property
    def group_name(self) -> str:
        """The name of the jit function in ``group_triton``."""
        return f"group_{self.name}"

    @property
    def merge_name(self) -> str:
        """The name of the jit function in ``merge_triton``."""
        return f"merge_{self.name}"

    @property
    def across_name(self) -> str:
        """The name of the jit function in ``across_triton``."""
        return f"across_{self.name}"

    @property
    def needs_order(self) -> bool:
        """True when states are combined in the order of their elements."""
        return bool(self.across_triton) and self.inputs == 1

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
        """The states of no element, as numbers of their types."""
        pairs = zip(self.identity, self.state_dtypes(dtype), strict=True)
        return tuple(_number(value, own) for value, own in pairs)

    def identity_triton(self, dtype: DType) -> tuple[str, ...]:
        """The states of no element, as Triton literals."""
        return tuple(map(literal, self.identities(dtype)))


def literal(value: Number) -> str:
    """A number as Triton text; infinities and NaN by name."""
    if isinstance(value, float) and not np.isfinite(value):
        return f'float("{value}")'
    return repr(value)


def _number(value: Number | str, dtype: DType) -> Number:
    if not isinstance(value, str):
        return float(value) if dtype.is_float else value
    if dtype.is_float:
        return -np.inf if value == "low" else np.inf
    limits = np.iinfo(dtype.facts.numpy or "")
    return int(limits.min if value == "low" else limits.max)


def source(name: str, parameters: str, *lines: str) -> str:
    """The jit function that combines states."""
    return function(f"combine_{name}", parameters, *lines)


def group(name: str, *lines: str) -> str:
    """The jit function for groups of neighbours, which lie along a dimension."""
    return function(f"group_{name}", "elements, along: tl.constexpr", *lines)


def merge(name: str, states: str, *lines: str) -> str:
    """The jit function that reduces a tile of states along a dimension."""
    return function(f"merge_{name}", f"{states}, total, along: tl.constexpr", *lines)


def function(name: str, parameters: str, *lines: str) -> str:
    """A jit function of these lines."""
    body = "".join(f"    {line}\n" for line in lines)
    return f"@triton.jit\ndef {name}({parameters}):\n{body}"
