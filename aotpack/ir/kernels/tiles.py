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
    """Blocks of ``y`` by ``x`` points of a kernel whose points form lines of ``width``.

    Accesses along either side read whole cache lines. With ``height`` that many lines form a plane,
    and blocks span ``z`` planes. Programs are numbered along a line of blocks, or down the columns
    of a ``band`` of such lines.
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

    A loop over blocks is unrolled ``unroll`` times. ``group`` neighbours along a row, which one
    thread loads together, are combined first. A cluster of programs may share a row of a loop, a
    part each.

    With a ``ring`` of blocks in shared memory the kernel is a row pipeline: programs go from row to
    row, at most ``resident`` at once, while the next blocks are loaded. Common reads stay in shared
    memory, except ``kept`` tensors, in registers.

    With ``look_back`` each block is a program, which waits for the blocks before it. ``unrolled``
    rows have ``r`` elements, each of them a line of the program: lanes are rows, or ``unroll``
    rows that lie ``apart`` from each other.
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
    unrolled: bool = False
    apart: int = 0

    @property
    def rows(self) -> int:
        """The rows of a block."""
        return self.x * (self.unroll if self.apart else 1)


@dataclass(frozen=True, slots=True)
class MatmulTile:
    """Output tiles of m x n, k a step; ``precision`` is how float32 factors are multiplied.

    With ``descriptors`` the hardware's copy engine loads factors that are rectangles of memory into
    shared memory. With ``most_programs`` the kernel is persistent: at most that many programs go
    through all tiles. With ``splits`` that many programs share the sum of a tile; the last of them
    to end adds the parts (split-K). Blocks have a power of two of columns: ``n`` of 192 are two.

    With ``at_once`` steps, whose elements of the right factor are in registers together, sums are
    of products of single elements: the form for few rows. With ``weights_first`` these elements
    are requested before the wait for the launch before. Products of ``run`` neighbours along k are
    added first, which a factor of the sum may scale. With ``swapped`` factors the right one
    gives the rows of a matrix unit: these are many, and the left one may have few. One that
    ``decodes`` has instructions for 8-bit floats. With ``in_matrix_unit`` compiled code multiplies
    one row and codes there (``one_row.py``): codes of the last ``in_shared`` steps of a warp come
    through shared memory, the others through registers. It is for ``shared_split`` bytes of shared
    memory on a multiprocessor, which the programs there take; 0 for any. At least
    ``least_programs`` are launched; those without a tile hold a place until the wait is over. Each
    program requests ``next_bytes`` of the codes ``next_codes``, of a later launch, into L2.

    With ``roles`` compiled code has a warp that requests factors through descriptors, besides
    ``num_warps`` that multiply. These may be two ``groups``, each with a tile of its own of a
    persistent kernel: one multiplies while the other runs its epilogue.
    """

    m: int
    n: int
    k: int
    num_warps: int
    num_stages: int
    precision: str = "ieee"
    descriptors: bool = False
    most_programs: int = 0
    splits: int = 1
    at_once: int = 0
    weights_first: bool = False
    swapped: bool = False
    roles: bool = False
    groups: int = 1
    decodes: bool = False
    run: int = 1
    in_matrix_unit: bool = False
    in_shared: int = 0
    shared_split: int = 0
    least_programs: int = 0
    next_codes: str = ""
    next_bytes: int = 0

    @property
    def columns(self) -> tuple[int, ...]:
        """The widths of the blocks that ``n`` columns are multiplied as, side by side."""
        bits = range(self.n.bit_length() - 1, -1, -1)
        return tuple(1 << bit for bit in bits if self.n >> bit & 1)

    @property
    def may_split(self) -> bool:
        """True if programs may share its sums: each has one tile, of one block."""
        return not (self.most_programs or self.roles) and len(self.columns) == 1


@dataclass(frozen=True, slots=True)
class AttentionTile:
    """``i`` queries a program, ``j`` keys a step; ``precision``, ``descriptors`` as for matmul.

    A tile for few queries has those of ``heads`` heads, which have the same keys, as rows; others
    have 0. With ``most_programs`` the keys are split between programs, at most so many in all; the
    last program of a tile to end adds the parts. With ``keys_first`` these request the cached keys
    and values of their first step before they wait for the launch before, without descriptors. With
    a ``cluster_size`` these are a cluster of so many for each tile, whose first program adds the
    parts, which come into its shared memory.

    With ``roles`` compiled code has a warp that requests keys and values through descriptors,
    besides groups of four warps that attend, each to its own rows of queries.
    """

    i: int
    j: int
    num_warps: int
    num_stages: int
    precision: str = "ieee"
    heads: int = 0
    most_programs: int = 0
    descriptors: bool = False
    roles: bool = False
    keys_first: bool = False
    cluster_size: int = 1

    @property
    def is_for_few(self) -> bool:
        """True for a tile of all queries of some heads, or of a part of them."""
        return self.heads > 0


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


@dataclass(frozen=True, slots=True)
class TurnsTile:
    """A counted loop in one launch: a program has ``rows`` by ``units`` elements of the state.

    The programs of a cluster have all units of their rows, and wait for each other in each turn.
    Products sum over blocks of ``depth``, 0 without any. So many ``together`` are one product,
    whose columns are those of a unit side by side; 1: each is alone.
    """

    rows: int
    units: int
    depth: int
    together: int
    cluster_size: int
    num_warps: int
    num_stages: int = 1  # loads of a turn must not move before the wait of that turn


Tile: TypeAlias = (
    PointwiseTile | Tile2D | ReductionTile | MatmulTile | AttentionTile | HostTile | TurnsTile
)
MAX_ARCH = 10_000  # above all
ANY_ARCH = (1, MAX_ARCH)
WARP = 32  # threads
SHORTEST_SIDE = 16  # points; a shorter side of accesses is not worth a dimension of a tile


@dataclass(frozen=True, slots=True)
class Variant:
    """A tile, for targets with ``arch_low <= arch <= arch_high``, while ``measure <= at_most``.

    Arch 0 is the CPU; GPUs have their compute capability. ``divisibility`` holds sizes with the
    numbers that divide them; the kernel is compiled to rely on that. A launch takes the first
    variant that fits. The last for each arch has ``at_most`` None and no divisibility, so one
    always fits. ``others`` are candidates that tuning times, best guess first.
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
        """True when it fits all sizes."""
        return self.at_most is None and not self.divisibility

    def takes(self, arch: int) -> bool:
        """True for an architecture in the range."""
        return self.arch_low <= arch <= self.arch_high


def cluster_size(tile: Tile) -> int:
    """The programs that share a row or keys; they run at once and can wait for each other."""
    if isinstance(tile, (ReductionTile, TurnsTile, AttentionTile)):
        return tile.cluster_size
    return 1


def shared_split(tile: Tile) -> int:
    """The bytes of a multiprocessor's shared memory that a tile is for; 0 for any."""
    return tile.shared_split if isinstance(tile, MatmulTile) else 0


def exchanges(tile: Tile) -> bool:
    """True if programs exchange states of scans and loops, or parts of sums, through memory."""
    if isinstance(tile, ReductionTile):
        return tile.look_back
    if isinstance(tile, AttentionTile):
        return tile.most_programs > 0 and tile.cluster_size == 1
    if isinstance(tile, TurnsTile):
        return tile.depth > 0
    return isinstance(tile, MatmulTile) and tile.splits > 1
