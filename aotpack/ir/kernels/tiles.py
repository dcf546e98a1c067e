"""Tiles: the block sizes a kernel is compiled with, and the variants a launch chooses from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from aotpack.ir.symbolic.integers import Int, Var


@dataclass(frozen=True, slots=True)
class PointwiseTile:
    """Blocks of ``x`` elements of a one-dimensional space."""

    x: int
    num_warps: int
    num_stages: int = 1


@dataclass(frozen=True, slots=True)
class Tile2D:
    """Blocks of ``y`` by ``x`` points of a kernel seen as lines of ``width`` points.

    An access along either side reads whole cache lines. With ``height`` the lines come in planes of
    so many, and blocks span ``z`` planes: a third direction. Programs go along a line of
    blocks, or down the columns of a ``band`` of lines.
    """

    width: Int
    y: int
    x: int
    num_warps: int
    num_stages: int = 1
    height: Int | None = None
    z: int = 0
    band: int = 1


@dataclass(frozen=True, slots=True)
class ReductionTile:
    """``x`` rows by ``r`` columns a block; ``persistent`` when ``r`` covers a row.

    A loop over blocks runs ``unroll`` steps at once. ``group`` neighbours along a row, which one
    thread loads together, are combined before they meet what came before them. A row of a
    loop may be shared by a cluster of programs, each of which walks over a part of it.
    With a ``ring`` of so many blocks in shared memory rows are taken in turn: ``resident`` at most
    are worked on at once, programs go from row to row, the blocks that follow are read meanwhile,
    and what all rows have in common stays in shared memory too; ``kept`` tensors of that, in
    registers.
    With ``look_back`` each block is a program, which waits for the blocks before it.
    """

    x: int
    r: int
    persistent: bool
    num_warps: int
    num_stages: int = 1
    unroll: int = 1
    group: int = 1
    cluster_size: int = 1
    resident: int = 0
    ring: int = 0
    kept: int = 0
    look_back: bool = False


@dataclass(frozen=True, slots=True)
class MatmulTile:
    """Output tiles of m x n, k a step; ``precision`` is how float32 factors are multiplied.

    With ``descriptors`` factors that are rectangles of memory are copied to shared memory by the
    hardware's copy engine. With ``most_programs`` the kernel is persistent: so many programs at
    most go through all tiles.
    """

    m: int
    n: int
    k: int
    num_warps: int
    num_stages: int
    precision: str = "ieee"
    descriptors: bool = False
    most_programs: int = 0


@dataclass(frozen=True, slots=True)
class AttentionTile:
    """``i`` queries a program, ``j`` keys a step; ``precision`` as for matmul."""

    i: int
    j: int
    num_warps: int
    num_stages: int
    precision: str = "ieee"


@dataclass(frozen=True, slots=True)
class HostTile:
    """Loops over host memory; ``along`` is the inner loop of a reduction: "r" or "x".

    ``short_axis`` is the axis of a product, "m" or "n", or of attention, "i", that has few points:
    then it is dot products.
    """

    along: str = "r"
    short_axis: str = ""
    num_warps: int = 1
    num_stages: int = 1


Tile: TypeAlias = PointwiseTile | Tile2D | ReductionTile | MatmulTile | AttentionTile | HostTile
MAX_ARCH = 10_000  # later than all
WARP = 32  # threads


@dataclass(frozen=True, slots=True)
class Variant:
    """A tile, for targets with ``arch_low <= arch <= arch_high``, while ``measure <= at_most``.

    Arch 0 is the processor's; GPUs have their compute capability. ``divisibility`` holds sizes
    with the numbers that divide them; the variant's kernel is compiled to rely on that.

    Variants of a kernel are tried in order for the arch at hand; the last for each arch has
    ``at_most`` None, no divisibility, and takes everything, so a choice always exists.
    ``others`` are what else a launch could take there, best guess first: what tuning times.
    """

    tile: Tile
    arch_low: int
    arch_high: int
    measure: Int
    at_most: int | None
    divisibility: tuple[tuple[Var, int], ...] = ()
    others: tuple[Tile, ...] = ()

    @property
    def tiles(self) -> tuple[Tile, ...]:
        """All candidates; the first is the cost model's choice."""
        return (self.tile, *self.others)

    @property
    def takes_everything(self) -> bool:
        """True when no size rules it out."""
        return self.at_most is None and not self.divisibility

    def takes(self, arch: int) -> bool:
        """True for an architecture it is for."""
        return self.arch_low <= arch <= self.arch_high


def cluster_size(tile: Tile) -> int:
    """How many programs share a row; they run at once and can wait for each other."""
    return tile.cluster_size if isinstance(tile, ReductionTile) else 1
