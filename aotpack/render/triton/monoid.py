"""What a reduction is in Triton: texts of its parts, and functions of templates.

The kinds are in ``monoids.py`` and ``extremes.py``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from aotpack.ir.dtypes import DType
from aotpack.ir.ops.monoid import Monoid
from aotpack.ir.ops.monoids import MONOIDS
from aotpack.render.environment import render_function
from aotpack.render.triton.types import triton_literal


@dataclass(frozen=True, slots=True)
class DeviceFunction:
    """A function that kernels call: a macro of a template, and the context that it prints.

    It ``calls`` the combinations of these kinds.
    """

    name: str
    template: str
    macro: str
    context: object = None
    calls: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The source."""
        context = () if self.context is None else (self.context,)
        return render_function(self.template, self.macro, *context)


@dataclass(frozen=True, slots=True)
class TritonMonoid:
    """Texts for one monoid.

    ``lift`` uses ``{0}`` (the element), ``{index}`` (int64) and ``{type}`` (of the element),
    ``finalise`` the states ``{0}``...; ``combine`` is
    ``combine_<name>(a0, ..., b0, ...)``, a jit function for blocks and for single pairs. ``block``
    reduces a block along ``{axis}`` better than ``tl.reduce``, for kinds of type it is there for.
    ``group`` is ``group_<name>(elements)``: the states of the lanes of a tile of (steps, lanes,
    neighbours) with less work than lifting each element. Those that are not in the row have the
    identity; where it ``counts``, ``group_<name>(elements, count)`` is told. ``merge`` is
    ``merge_<name>(a0, ..., total, along)``: the states of a tile's lines from states that have
    ``total`` elements in a line, in fewer steps than by pairs.

    Kinds that find the first extreme have ``across``:
    ``across_<name>(a0, a1, axis)``: states (positions of 32 or 64 bits) reduced along a dimension,
    values before positions. Unless positions are given, they combine states a with states b of
    later elements. ``group_<name>(elements, start)`` counts positions from a lane's first element,
    which is at ``start``. There may be ``most_neighbours``, if not 0.
    """

    name: str
    lift: tuple[str, ...]
    combine: DeviceFunction
    finalise: tuple[str, ...]
    block: Mapping[str, str] = field(default_factory=dict)
    group: DeviceFunction | None = None
    merge: DeviceFunction | None = None
    across: DeviceFunction | None = None
    most_neighbours: int = 0
    counts: bool = False

    @property
    def meaning(self) -> Monoid:
        """The monoid that the texts compute."""
        return MONOIDS[self.name]

    def identity(self, dtype: DType) -> tuple[str, ...]:
        """The states of no element of ``dtype``, as literals."""
        return tuple(map(triton_literal, self.meaning.identities(dtype)))
