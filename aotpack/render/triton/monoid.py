"""The shape of a reduction in Triton: texts of its parts, and jit functions named after it.

The kinds are in ``monoids.py`` and ``extremes.py``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from aotpack.ir.dtypes import DType
from aotpack.ir.ops.monoid import Monoid
from aotpack.ir.ops.monoids import MONOIDS
from aotpack.render.triton.types import triton_literal


@dataclass(frozen=True, slots=True)
class TritonMonoid:
    """Texts for one monoid.

    ``lift`` uses ``{0}`` (the element), ``{index}`` (int64) and ``{type}`` (of the element),
    ``finalise`` the states ``{0}``...; ``combine`` is the source of
    ``combine_<name>(a0, ..., b0, ...)``, a jit function for blocks and for single pairs. ``block``
    reduces a block along ``{axis}`` better than ``tl.reduce``, for some kinds of type. ``group`` is
    the source of ``group_<name>(elements, along)``: the states of a tile's lines, with less work
    than lifting each element. ``merge`` is the source of ``merge_<name>(a0, ..., total, along)``:
    the states of a tile's lines from states of ``total`` elements a line, in fewer steps than by
    pairs. These and ``across`` may call the combinations of the kinds ``uses``.

    Kinds that find the first extreme have ``across``, the source of
    ``across_<name>(a0, a1, axis)``: states (positions of 32 or 64 bits) reduced along a dimension,
    values before positions. Unless positions are given, they combine states a with states b of
    later elements. ``group_<name>(elements, start)`` takes a tile of (steps, lanes, neighbours) in
    the order of memory and gives the state of each lane, with positions counted from its first
    element, which is at ``start``. There may be ``most_neighbours``, if not 0.
    """

    name: str
    lift: tuple[str, ...]
    combine: str
    finalise: tuple[str, ...]
    block: Mapping[str, str] = field(default_factory=dict)
    group: str = ""
    merge: str = ""
    across: str = ""
    uses: tuple[str, ...] = ()
    most_neighbours: int = 0

    @property
    def meaning(self) -> Monoid:
        """The monoid that the texts compute."""
        return MONOIDS[self.name]

    @property
    def combine_name(self) -> str:
        """The name of the jit function in ``combine``."""
        return f"combine_{self.name}"

    @property
    def group_name(self) -> str:
        """The name of the jit function in ``group``."""
        return f"group_{self.name}"

    @property
    def merge_name(self) -> str:
        """The name of the jit function in ``merge``."""
        return f"merge_{self.name}"

    @property
    def across_name(self) -> str:
        """The name of the jit function in ``across``."""
        return f"across_{self.name}"

    def identity(self, dtype: DType) -> tuple[str, ...]:
        """The states of no element of ``dtype``, as literals."""
        return tuple(map(triton_literal, self.meaning.identities(dtype)))


def combination(name: str, parameters: str, *lines: str) -> str:
    """The jit function that combines states."""
    return jit_function(f"combine_{name}", parameters, *lines)


def grouping(name: str, *lines: str) -> str:
    """The jit function for groups of neighbours, which lie along a dimension."""
    return jit_function(f"group_{name}", "elements, along: tl.constexpr", *lines)


def merging(name: str, states: str, *lines: str) -> str:
    """The jit function that reduces a tile of states along a dimension."""
    return jit_function(f"merge_{name}", f"{states}, total, along: tl.constexpr", *lines)


def jit_function(name: str, parameters: str, *lines: str) -> str:
    """A jit function of these lines."""
    body = "".join(f"    {line}\n" for line in lines)
    return f"@triton.jit\ndef {name}({parameters}):\n{body}"
