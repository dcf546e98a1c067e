"""A language of kernels: what its folder answers to the stage, which knows no language."""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TypeAlias

from aotpack.ir.kernels.kernel import Kernel, Schedule
from aotpack.ir.kernels.tiles import Tile
from aotpack.ir.kernels.traffic import Work
from aotpack.ir.symbolic.integers import Int, Var
from aotpack.render.emit.reserved import Reserved
from aotpack.render.emit.texts import Texts
from aotpack.stages import KernelArg, TensorMap

Divisibility: TypeAlias = tuple[tuple[Var, int], ...]
"""Sizes with the numbers that divide them."""

GluonText: TypeAlias = Callable[[str], str] | None
"""The text under a name, for a kernel that has one."""


@dataclass(frozen=True, slots=True)
class RenderedKernel:
    """A kernel of one tile: its text, what a launch passes to it, how many programs it has.

    ``text`` gives the text under a name, which begins with ``name``. A ring of ``ring_bytes`` lies
    in shared memory, besides what the language takes. One that ``streams`` begins with reads that
    need no earlier launch, so it starts early however many programs it has. One that
    ``reads_early`` reads state and inputs before it waits for earlier launches.
    """

    name: str
    text: Callable[[str], str]
    parameters: tuple[KernelArg, ...]
    arguments: tuple[str, ...]  # buffers, then sizes, in the order of ``parameters``
    tile: Tile
    work: Work
    programs: Int
    ring_bytes: int = 0
    is_ours: bool = True  # else the user's: its text stays as it is
    streams: bool = False
    reads_early: bool = False
    maps: tuple[TensorMap, ...] = ()  # of descriptors that the text makes at its begin
    gluon_text: GluonText = None  # the same with roles of warps, or layouts of its own
    gluon_maps: tuple[TensorMap, ...] = ()  # of descriptors that it takes besides
    gluon_warps: int = 0  # of its first role; 0: those of the tile


KernelRenderer: TypeAlias = Callable[[Schedule, Kernel, Tile, Divisibility], RenderedKernel]
SharedLaunchRenderer: TypeAlias = Callable[
    [Schedule, tuple[Kernel, ...], tuple[Tile, ...], Divisibility], RenderedKernel
]


@dataclass(frozen=True, slots=True)
class Language:
    """A language by the name of its folder.

    It has a text for each operator and reduction of the IR, and names for itself. ``render`` makes
    a kernel of one of its ``tiles``; ``horizontal`` and ``last_block`` make one of all kernels of a
    launch. ``stores`` finds the parameters that a text stores through. A text waits for the
    launches before its own, where it gains by that, unless ``without_early_start`` changes it. It
    admits the next launch at its end, unless ``admitting_first`` changes it. One that may do so
    earlier too is changed by ``admitting_at_end``.
    """

    name: str
    comment_mark: str
    operators: Texts
    monoids: Collection[str]
    names: Reserved
    tiles: tuple[type[Tile], ...]
    render: KernelRenderer
    horizontal: SharedLaunchRenderer | None = None
    last_block: SharedLaunchRenderer | None = None
    stores: re.Pattern[str] | None = None
    without_early_start: Callable[[str], str] | None = None
    admitting_first: Callable[[str], str] | None = None
    admitting_at_end: Callable[[str], str] | None = None
