"""Kernels and schedules: which operations share a launch, over which axes, in which tiles.

Each member operation is bound to the kernel's axes: its own axes are expressions over them. A
Schedule is a list of kernels in launch order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from math import ceil
from textwrap import indent

from aotpack.ir.foreign import Foreign
from aotpack.ir.kernels.tiles import (
    MAX_ARCH,
    MatmulTile,
    PointwiseTile,
    ReductionTile,
    Variant,
    exchanges,
)
from aotpack.ir.operations import Attention, Matmul, Reduction, Scatter, ranges
from aotpack.ir.program import (
    AS_ABOVE,
    Buffer,
    Control,
    Operation,
    Program,
    control_text,
    ending_lines,
    in_place_pairs,
    index_tuple,
    later_calls,
    operation_text,
    reads,
    targets,
    weight_program_lines,
)
from aotpack.ir.symbolic.facts import bounds
from aotpack.ir.symbolic.integers import Axis, Int, ceil_div, product
from aotpack.ir.uses import Uses


@dataclass(frozen=True, slots=True)
class Member:
    """An operation inside a kernel. ``binding`` gives each of its axes in the kernel's axes.

    ``outer`` members have no inner dimension: they run once for each ``x``, not for each (x, r).
    """

    operation: Operation
    binding: tuple[tuple[Axis, Int], ...]
    outer: bool


@dataclass(frozen=True, slots=True)
class NotFused:
    """The reason why the operation that makes a buffer is not in the kernel of another buffer."""

    buffer: str
    other: str
    reason: str


@dataclass(frozen=True, slots=True)
class Kernel:
    """One launch. ``axes`` are (x,) or (x, r) for loops, else those of the template operation.

    ``stored`` are the buffers written to memory; other targets of members stay in registers. A
    kernel that ``shares_launch`` runs on GPUs in the launch of the kernel before it. ``unfused``
    kernels, run in order, compute the same: another form of the launch. ``not_fused`` says why its
    operations are not in earlier kernels.

    One that ``runs_in_last_block`` shares that launch too: each of its programs is run by the last
    program to arrive of those that make its operands. ``counters`` count arrivals; they are zero
    before and after each launch. ``exchange`` holds what programs read of each other: the block
    states of a look-back scan, parts of sums, the state of a loop in two turns.

    A branch or loop is a kernel without axes: the schedules of its ``parts`` run in its place, as
    its condition says. The variants of a loop have its turns in one launch, after its first part.
    """

    name: str
    axes: tuple[Axis, ...]
    members: tuple[Member, ...]
    stored: tuple[str, ...]
    reads: tuple[str, ...]
    variants: tuple[Variant, ...] = ()
    shares_launch: bool = False
    unfused: tuple[Kernel, ...] = ()
    not_fused: tuple[NotFused, ...] = ()
    exchange: tuple[Buffer, ...] = ()
    runs_in_last_block: bool = False
    counters: tuple[Buffer, ...] = ()
    parts: tuple[Schedule, ...] = ()

    @property
    def control(self) -> Control | None:
        """The branch or loop that this kernel stands for, if any."""
        first = self.members[0].operation
        return first if isinstance(first, Control) else None

    @property
    def template_op(self) -> Matmul | Attention | None:
        """The template operation this kernel is built around, if any."""
        first = self.members[0].operation
        return first if isinstance(first, (Matmul, Attention)) else None

    @property
    def products(self) -> tuple[Matmul, ...]:
        """The products among its members, in order, all of one left factor."""
        operations = (member.operation for member in self.members)
        return tuple(one for one in operations if isinstance(one, Matmul))

    @property
    def sums(self) -> tuple[Matmul | Reduction, ...]:
        """The products and reductions among its members, in order."""
        operations = (member.operation for member in self.members)
        return tuple(one for one in operations if isinstance(one, (Matmul, Reduction)))

    @property
    def scatter(self) -> Scatter | None:
        """The scatter that is this kernel's only member, if any."""
        first = self.members[0].operation
        return first if isinstance(first, Scatter) else None

    @property
    def foreign(self) -> Foreign | None:
        """The foreign call that is this kernel's only member, if any."""
        first = self.members[0].operation
        return first if isinstance(first, Foreign) else None

    @property
    def reductions(self) -> tuple[Reduction, ...]:
        """The reductions among its members, in order."""
        operations = (member.operation for member in self.members)
        return tuple(one for one in operations if isinstance(one, Reduction))

    @property
    def is_opaque(self) -> bool:
        """True for a foreign call, a branch or a loop: its accesses are unknown."""
        return self.foreign is not None or self.control is not None

    @property
    def bases(self) -> dict[str, str]:
        """The base of each result that overwrites one in its memory."""
        return dict(in_place_pairs(self.members[0].operation))


@dataclass(frozen=True, slots=True)
class Lifetime:
    """An intermediate lives from launch ``first`` to ``last`` in the memory of ``storage``.

    ``storage`` is itself, another intermediate, or the output or updated tensor that it becomes.
    """

    buffer: str
    storage: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Schedule:
    """Kernels in launch order. ``weights`` is the schedule of the weight program, if there is one.

    In that one, ``given`` are the strides of its outputs, which their readers chose.
    """

    program: Program
    kernels: tuple[Kernel, ...]
    strides: dict[str, tuple[Int, ...]]  # of every buffer, in elements
    lifetimes: tuple[Lifetime, ...]
    given: Mapping[str, tuple[Int, ...]] = field(default_factory=dict)
    weights: Schedule | None = None

    @property
    def result_storages(self) -> frozenset[str]:
        """The outputs and updated tensors, in whose memory an intermediate may lie."""
        updated = (update.name for update in self.program.updates)
        return frozenset((*self.program.outputs, *updated))

    def __str__(self) -> str:
        return schedule_text(self)


@dataclass(frozen=True, slots=True)
class ArchSchedule:
    """The schedule for architectures ``arch_low`` to ``arch_high``, in place of the general one."""

    arch_low: int
    arch_high: int
    schedule: Schedule

    def takes(self, arch: int) -> bool:
        """True for an architecture in the range."""
        return self.arch_low <= arch <= self.arch_high

    def __str__(self) -> str:
        return f"# on {arch_range(self.arch_low, self.arch_high)}\n{self.schedule}\n"


def arch_range(low: int, high: int) -> str:
    """A range of architectures as text; processors have 0."""
    if high == 0:
        return "cpu"
    return f"sm_{low} to {'later ones' if high == MAX_ARCH else f'sm_{high}'}"


def launches(kernels: tuple[Kernel, ...]) -> tuple[tuple[Kernel, ...], ...]:
    """The kernels of each launch."""
    found: list[tuple[Kernel, ...]] = []
    for kernel in kernels:
        if kernel.shares_launch:
            found[-1] += (kernel,)
        else:
            found.append((kernel,))
    return tuple(found)


def kernel_uses(kernels: tuple[Kernel, ...]) -> Uses[int]:
    """The kernels that store and read each buffer, by position."""
    return Uses.of((position, one.stored, one.reads) for position, one in enumerate(kernels))


def member_uses(kernel: Kernel) -> Uses[Member]:
    """The members that write and read each buffer, in memory or in registers."""
    return Uses.of((one, targets(one.operation), reads(one.operation)) for one in kernel.members)


def gpu_variants(kernel: Kernel) -> tuple[Variant, ...]:
    """The variants for GPUs."""
    return tuple(variant for variant in kernel.variants if variant.arch_high > 0)


def block_count(kernel: Kernel, tile: PointwiseTile | ReductionTile) -> Int:
    """The number of programs of a loop kernel; a cluster that shares a row counts as one."""
    if not isinstance(tile, ReductionTile):
        return ceil_div(kernel.axes[0].extent, tile.x)
    rows = ceil_div(kernel.axes[0].extent, tile.rows)
    return rows * ceil_div(kernel.axes[1].extent, tile.r) if tile.look_back else rows


LOOK_BACK_GROUP = 256  # blocks whose programs read each other's states


def most_tiles(matmul: Matmul, variant: Variant, tile: MatmulTile) -> int:
    """The most tiles of a product's result that a variant may be launched for."""
    rows = bounds(matmul.m.extent)[1]
    if variant.at_most is not None and variant.measure is matmul.m.extent:
        rows = min(rows, variant.at_most)
    columns = bounds(matmul.n.extent)[1]
    batch = bounds(product(axis.extent for axis in matmul.batch))[1]
    return int(batch * ceil(rows / tile.m) * ceil(columns / tile.n))


def look_back_slots(kernel: Kernel, tile: ReductionTile) -> Int:
    """The slots of a row: one for each block, and one for each group of blocks."""
    blocks = ceil_div(kernel.axes[1].extent, tile.r)
    return blocks + ceil_div(blocks, LOOK_BACK_GROUP)


def unflattened(kernel: Kernel, width: Int, height: Int | None = None) -> Kernel:
    """A pointwise kernel over (y, x), line and position in the line, instead of one flat axis.

    With ``height`` over (z, y, x): plane, line in the plane, position in the line.
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


def taken_by(schedule: Schedule, arches: Collection[int]) -> Schedule:
    """The schedule with only the variants that some of these architectures take."""

    def taken(kernel: Kernel) -> Kernel:
        fitting = tuple(v for v in kernel.variants if any(map(v.takes, arches)))
        return replace(kernel, variants=fitting)

    return _with_kernels(schedule, taken)


def with_exchanges_of(schedule: Schedule, arches: Collection[int]) -> Schedule:
    """The schedule without exchange memory that no variant of these architectures uses."""

    def trimmed(kernel: Kernel) -> Kernel:
        taken = (v for v in kernel.variants if any(map(v.takes, arches)))
        uses = any(exchanges(tile) for variant in taken for tile in variant.tiles)
        is_kept = uses or kernel.runs_in_last_block
        return kernel if is_kept else replace(kernel, exchange=(), counters=())

    return _with_kernels(schedule, trimmed)


def _with_kernels(schedule: Schedule, change: Callable[[Kernel], Kernel]) -> Schedule:
    """The schedule with each kernel changed, those of parts and of the weight program too."""
    return _Changed(change)(schedule)


class _Changed:
    """Schedules with other kernels; a part of several calls stays one object."""

    def __init__(self, change: Callable[[Kernel], Kernel]) -> None:
        self._change = change
        self._done: dict[int, tuple[Schedule, Schedule]] = {}  # old ones stay alive

    def __call__(self, schedule: Schedule) -> Schedule:
        if id(schedule) not in self._done:
            kernels = tuple(
                replace(self._change(kernel), parts=tuple(map(self, kernel.parts)))
                for kernel in schedule.kernels
            )
            weights = None if schedule.weights is None else self(schedule.weights)
            new = replace(schedule, kernels=kernels, weights=weights)
            self._done[id(schedule)] = schedule, new
        return self._done[id(schedule)][1]


# --- text --------------------------------------------------------------------------------------

_INDENT = "    "


def schedule_text(schedule: Schedule) -> str:
    """Kernels in launch order, their variants and members, then the lifetimes of intermediates."""
    lines = weight_program_lines(schedule.weights)
    again = later_calls(kernel.members[0].operation for kernel in schedule.kernels)
    for position, kernel in enumerate(schedule.kernels):
        lines += [*_kernel(kernel, is_known=position in again), ""]
    for name, strides in schedule.strides.items():
        lines.append(f"strides {schedule.program.buffers[name]}: {index_tuple(strides)}")
    for life in schedule.lifetimes:
        lines.append(
            f"memory {life.buffer} in {life.storage}: launches {life.first} to {life.last}"
        )
    return "\n".join([*lines, *ending_lines(schedule.program)]) + "\n"


def why_text(schedule: Schedule) -> str:
    """The reasons why operations with common buffers are in different kernels, one a line."""
    lines = [
        f"{each.buffer} is not in the kernel of {each.other}: {each.reason}"
        for kernel in schedule.kernels
        for each in kernel.not_fused
    ]
    return "\n".join([*lines, ""])


def _kernel(kernel: Kernel, *, is_known: bool) -> list[str]:
    lines = [f"kernel {kernel.name} over {ranges(kernel.axes) or 'one point'}"]
    lines[0] += ", in the launch of the one before" if kernel.shares_launch else ""
    lines[0] += ", by the last programs to arrive" if kernel.runs_in_last_block else ""
    lines.append(f"{_INDENT}reads {', '.join(kernel.reads)}; stores {', '.join(kernel.stored)}")
    if kernel.control is not None:
        parts = kernel.parts or kernel.control.parts
        known = [AS_ABOVE] if is_known else [str(part) for part in parts]
        lines += [f"{_INDENT}in one launch: {_variant(variant)}" for variant in kernel.variants]
        return [*lines, indent(control_text(kernel.control, known), _INDENT)]
    lines += [f"{_INDENT}{_variant(variant)}" for variant in kernel.variants]
    for member in kernel.members:
        bound = ", ".join(f"{axis} = {index}" for axis, index in member.binding)
        place = "once a row, " if member.outer else ""
        lines.append(f"{_INDENT}with {place}{bound or 'no axes'}")
        body = operation_text(member.operation).splitlines()
        lines += [f"{_INDENT}{_INDENT}{line}" for line in body]
    return lines


def _variant(variant: Variant) -> str:
    limit = "" if variant.at_most is None else f" while {variant.measure} <= {variant.at_most}"
    limit += "".join(f" where {size} % {factor} == 0" for size, factor in variant.divisibility)
    others = "".join(f"; or {tile}" for tile in variant.others)
    return f"tile {variant.tile} for arch {variant.arch_low} to {variant.arch_high}{limit}{others}"
