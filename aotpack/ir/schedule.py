"""What scheduling decides: which operations share a kernel, on which tiles, with which memory.

A Schedule is a list of kernels in launch order. A kernel has a few axes of its own; each member
operation is bound to them: its axes are expressions in the kernel's axes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

from aotpack.ir.control import Branch, Loop
from aotpack.ir.nodes import (
    Attention,
    Buffer,
    Foreign,
    Matmul,
    Operation,
    Program,
    Reduction,
    Scatter,
    overwritten,
)
from aotpack.ir.symbolic.integers import Axis, Int, Var, ceil_div


@dataclass(frozen=True, slots=True)
class Member:
    """An operation inside a kernel. ``binding`` gives each of its axes in the kernel's axes.

    ``outer`` members have no inner dimension: they run once for each ``x``, not for each (x, r).
    """

    operation: Operation
    binding: tuple[tuple[Axis, Int], ...]
    outer: bool


@dataclass(frozen=True, slots=True)
class PointwiseTile:
    """Blocks of ``x`` elements of a one-dimensional space."""

    x: int
    num_warps: int
    num_stages: int = 1


@dataclass(frozen=True, slots=True)
class PlaneTile:
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
    In a ``chain`` each block is a program of its own, which waits for those before it.
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
    chain: bool = False


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

    ``few`` is the axis of a product, "m" or "n", or of attention, "i", that has few points: then
    it is dot products.
    """

    along: str = "r"
    few: str = ""
    num_warps: int = 1
    num_stages: int = 1


Tile: TypeAlias = PointwiseTile | PlaneTile | ReductionTile | MatmulTile | AttentionTile | HostTile
MAX_ARCH = 10_000  # later than all


@dataclass(frozen=True, slots=True)
class Variant:
    """A tile, for targets with ``arch_low <= arch <= arch_high``, while ``measure <= at_most``.

    Arch 0 is the processor's; GPUs have their compute capability. ``promises`` are sizes with what
    they must be multiples of for this variant; its kernel is compiled to rely on that.

    Variants of a kernel are tried in order for the arch at hand; the last for each arch has
    ``at_most`` None, promises nothing and takes everything, so a choice always exists.
    ``others`` are what else a launch could take there, best guess first: what tuning times.
    """

    tile: Tile
    arch_low: int
    arch_high: int
    measure: Int
    at_most: int | None
    promises: tuple[tuple[Var, int], ...] = ()
    others: tuple[Tile, ...] = ()

    @property
    def tiles(self) -> tuple[Tile, ...]:
        """All candidates; the first is the cost model's choice."""
        return (self.tile, *self.others)

    @property
    def takes_everything(self) -> bool:
        """True when no size rules it out."""
        return self.at_most is None and not self.promises

    def takes(self, arch: int) -> bool:
        """True for an architecture it is for."""
        return self.arch_low <= arch <= self.arch_high


@dataclass(frozen=True, slots=True)
class Apart:
    """Why the operation that makes a buffer is not in the kernel of another."""

    buffer: str
    other: str
    reason: str


@dataclass(frozen=True, slots=True)
class Kernel:
    """One launch. ``axes`` are (x,) or (x, r) for loops, the anchor's own axes for templates.

    ``stored`` are the buffers written to memory; other targets of members stay in registers.
    A kernel that ``joins`` runs on GPUs in the launch of the kernel before it, at the same time.
    ``unfused`` kernels, one after the other, do the same: another form of the launch.
    ``apart`` says why its operations are in no kernel that was there before them.
    One that ``completes`` the kernel before it joins it too: each of its programs is run by the
    last of those that make what it reads, which arrive at one of the ``counters``.
    In ``exchange`` the programs of a chain leave each other the states of their blocks.
    ``counters`` are zero when a launch begins, and when it has ended.
    A branch or loop is a kernel of its own, without axes or variants: in its place run the
    schedules of its ``parts``, as often as its condition says.
    """

    name: str
    axes: tuple[Axis, ...]
    members: tuple[Member, ...]
    stored: tuple[str, ...]
    reads: tuple[str, ...]
    variants: tuple[Variant, ...] = ()
    joins: bool = False
    unfused: tuple[Kernel, ...] = ()
    apart: tuple[Apart, ...] = ()
    exchange: tuple[Buffer, ...] = ()
    completes: bool = False
    counters: tuple[Buffer, ...] = ()
    parts: tuple[Schedule, ...] = ()

    @property
    def control(self) -> Branch | Loop | None:
        """The operation whose parts run in place of a kernel, if this is one."""
        first = self.members[0].operation
        return first if isinstance(first, (Branch, Loop)) else None

    @property
    def anchor(self) -> Matmul | Attention | None:
        """The template operation this kernel is built around, if any."""
        first = self.members[0].operation
        return first if isinstance(first, (Matmul, Attention)) else None

    @property
    def scatter(self) -> Scatter | None:
        """The scatter that is this kernel's only member, if it is one."""
        first = self.members[0].operation
        return first if isinstance(first, Scatter) else None

    @property
    def foreign(self) -> Foreign | None:
        """The call of code that is not ours that is this kernel's only member, if it is one."""
        first = self.members[0].operation
        return first if isinstance(first, Foreign) else None

    @property
    def reductions(self) -> tuple[Reduction, ...]:
        """The reductions among its members, in order."""
        operations = (member.operation for member in self.members)
        return tuple(one for one in operations if isinstance(one, Reduction))

    @property
    def is_opaque(self) -> bool:
        """True for what is no loop nest of ours: a foreign call, a branch or a loop."""
        return self.foreign is not None or self.control is not None

    @property
    def bases(self) -> dict[str, str]:
        """The buffers in whose memory results lie, because they are overwritten, by result."""
        return dict(overwritten(self.members[0].operation))


def launches(kernels: tuple[Kernel, ...]) -> tuple[tuple[Kernel, ...], ...]:
    """The kernels of each launch."""
    found: list[tuple[Kernel, ...]] = []
    for kernel in kernels:
        if kernel.joins:
            found[-1] += (kernel,)
        else:
            found.append((kernel,))
    return tuple(found)


def cluster_size(tile: Tile) -> int:
    """How many programs share a row; they run at once and can wait for each other."""
    return tile.cluster_size if isinstance(tile, ReductionTile) else 1


def gpu_variants(kernel: Kernel) -> tuple[Variant, ...]:
    """The variants that some GPU may take."""
    return tuple(variant for variant in kernel.variants if variant.arch_high > 0)


def block_count(kernel: Kernel, tile: PointwiseTile | ReductionTile) -> Int:
    """The number of programs of a loop kernel; programs that share a row are one."""
    rows = ceil_div(kernel.axes[0].extent, tile.x)
    if isinstance(tile, ReductionTile) and tile.chain:
        return rows * ceil_div(kernel.axes[1].extent, tile.r)
    return rows


WARP = 32  # threads
CHAIN_GROUP = 256  # programs of a chain that look at each other's blocks


def places_in_chain(kernel: Kernel, tile: ReductionTile) -> Int:
    """For each row: a place for each block of a chain, and one for each group of blocks."""
    blocks = ceil_div(kernel.axes[1].extent, tile.r)
    return blocks + ceil_div(blocks, CHAIN_GROUP)


def in_lines(kernel: Kernel, width: Int, height: Int | None = None) -> Kernel:
    """A pointwise kernel over (y, x): line and place in the line, instead of the flat position.

    With ``height`` over (z, y, x): plane, line in the plane, place in the line.
    """
    (flat,) = kernel.axes
    lines, x = flat.extent // width, Axis("x", width)
    y = Axis("y", lines if height is None else height)
    line = Int.of(y)
    axes: tuple[Axis, ...] = (y, x)
    if height is not None:
        z = Axis("z", lines // height)
        line, axes = Int.of(z) * height + line, (z, y, x)
    position = {flat: line * width + Int.of(x)}
    members = tuple(
        Member(
            member.operation,
            tuple((axis, value.substitute(position)) for axis, value in member.binding),
            outer=False,
        )
        for member in kernel.members
    )
    return replace(kernel, axes=axes, members=members)


@dataclass(frozen=True, slots=True)
class Lifetime:
    """An intermediate lives from launch ``first`` to ``last`` in the memory of ``storage``.

    That is itself, another intermediate, or the output or updated tensor it is turned into.
    """

    buffer: str
    storage: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Schedule:
    program: Program
    kernels: tuple[Kernel, ...]
    strides: dict[str, tuple[Int, ...]]  # of every buffer, in elements
    lifetimes: tuple[Lifetime, ...]

    def is_own(self, life: Lifetime) -> bool:
        """False for an intermediate in the memory of an output or of a tensor that is updated."""
        updated = (update.name for update in self.program.updates)
        return life.storage not in (*self.program.outputs, *updated)

    def __str__(self) -> str:
        from aotpack.ir.printer import schedule_text

        return schedule_text(self)


@dataclass(frozen=True, slots=True)
class OwnSchedule:
    """What runs on architectures from ``arch_low`` to ``arch_high`` instead."""

    arch_low: int
    arch_high: int
    schedule: Schedule

    def takes(self, arch: int) -> bool:
        """True for an architecture it is for."""
        return self.arch_low <= arch <= self.arch_high

    def __str__(self) -> str:
        last = "later ones" if self.arch_high == MAX_ARCH else f"sm_{self.arch_high}"
        return f"# on sm_{self.arch_low} to {last}\n{self.schedule}\n"
