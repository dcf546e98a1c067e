"""Split a long reduction with few results in two, so that all multiprocessors work.

    y[i] = sum over k of x[i, k]    ->    p[s, i] = sum over j of x[i, s*J + j]
                                          y[i] = sum over s of p[s, i]

Both halves are ordinary reductions, so they fuse and render like any other. If no number of equal
parts is near the wanted one, the last part is padded with the identity, or the second half takes
what is in no part (``split_rest.py``). Of a dynamic length the number of parts is an expression,
as is their length: short ones are one part. ``merge_parts.py`` merges the parts.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import isqrt
from types import MappingProxyType

from aotpack.devices import Gpu, rounded_down
from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.access import (
    Strides,
    delinearize,
    dot,
    has_digits,
    in_order,
    local_slope,
    points,
)
from aotpack.ir.kernels.rows import LINE_BYTES
from aotpack.ir.operations import Reduction
from aotpack.ir.ops.monoids import MONOIDS
from aotpack.ir.program import Buffer, Operation, Program, loads
from aotpack.ir.rewrite import Rewriter
from aotpack.ir.symbolic.facts import bounds, known_equal, known_one, typical
from aotpack.ir.symbolic.integers import (
    LARGEST_SIZE,
    Axis,
    Int,
    ceil_div,
    content,
    maximum,
    minimum,
)
from aotpack.ir.uses import operation_uses
from aotpack.ir.values import Const, Guarded, Load, Value, walk
from aotpack.schedule.program.split.merge_parts import (
    MERGES,
    NEEDS_EQUAL_PARTS,
    has_neighbours,
    near_position,
)
from aotpack.schedule.program.split.row_aligned_split import aligned_rows
from aotpack.schedule.program.split.scattered_rows import Scattered, scattered_rows, strides_of
from aotpack.schedule.program.split.split_limits import Limits
from aotpack.schedule.program.split.split_rest import JOINS, Rest, args_at, less

MOST_TOGETHER = 64  # columns
ALIGNED = 8  # elements: parts of rows begin where whole vectors do
LEAST_UNITS = 4  # whole rows in a part of typical length: fewer would leave parts too unequal


NOTHING: Strides = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Parts:
    """``count`` parts of ``length`` elements: all, or but ``lanes`` at most for each part.

    Elements in no part may be more, but fewer than ``short``. Of ``scattered`` rows each part is
    one for each of the lanes, which are not counted.
    """

    count: Int
    length: Int
    lanes: int = 0
    short: int = 0
    scattered: Scattered | None = None


def rows_to_split(program: Program, gpu: Gpu, expected: Strides = NOTHING) -> frozenset[str]:
    """The first targets of reductions that are split because their rows are few."""
    producers = operation_uses(program.operations).producers
    return frozenset(
        operation.targets[0]
        for operation, parts in splits(program, gpu, expected=expected)
        if parts.scattered is None
        and aligned_rows(operation, producers) is None
        and not reduces_columns(operation, program, expected)
    )


def splits(
    program: Program,
    gpu: Gpu,
    resident: frozenset[str] = frozenset(),
    expected: Strides = NOTHING,
    *,
    is_host: bool = False,
) -> list[tuple[Reduction, Parts]]:
    """The reductions that are split, and their parts; ``resident`` rows stay whole."""
    limits = Limits(gpu, is_host)
    producers = operation_uses(program.operations).producers
    found = []
    for operation in program.operations:
        if isinstance(operation, Reduction):
            parts = _parts(operation, program, producers, limits, expected)
            is_whole = operation.targets[0] in resident
            if parts is not None and not (is_whole and parts.scattered is None):
                found.append((operation, parts))
    return found


def split_reductions(
    program: Program,
    gpu: Gpu,
    resident: frozenset[str] = frozenset(),
    expected: Strides = NOTHING,
    is_host: bool = False,
) -> Program:
    """Split long reductions with few results in two, so that all multiprocessors work.

    Reductions to the targets ``resident`` stay whole. The same object if no split pays. Buffers lie
    as ``expected``, or in their declared order.
    """
    found = splits(program, gpu, resident, expected, is_host=is_host)
    parts_of = {operation.targets[0]: parts for operation, parts in found}
    if not parts_of:
        return program
    buffers = dict(program.buffers)
    operations: list[Operation] = []
    for operation in program.operations:
        parts = parts_of.get(operation.targets[0]) if isinstance(operation, Reduction) else None
        if parts is not None and isinstance(operation, Reduction):
            down = reduces_columns(operation, program, expected)
            operations += _split(operation, parts, buffers, down=down)
        else:
            operations.append(operation)
    return replace(program, operations=tuple(operations), buffers=buffers)


def _parts(
    operation: Reduction,
    program: Program,
    producers: Mapping[str, Operation],
    limits: Limits,
    expected: Strides,
) -> Parts | None:
    """The parts of a reduction; None to keep it whole."""
    if operation.kind not in MERGES:
        return None
    rows = aligned_rows(operation, producers)
    if rows is not None:
        return Parts(*rows)
    scattered = scattered_rows(operation, program, expected)
    if scattered is not None:
        return _scattered_parts(operation, scattered, program, limits)
    whole = points(operation.inner)
    down = reduces_columns(operation, program, expected)
    length = _deciding_length(operation, program, whole, limits, down=down)
    most, shortest = _most_parts(operation, program, length, limits, down=down)
    wanted = min(most, length // shortest)
    if wanted <= 1:
        return None
    if whole.constant is None:
        return _dynamic_parts(operation, program, limits, most, shortest, down=down)
    aligned = 1 if down or length % ALIGNED else ALIGNED
    leaves = down and operation.kind in JOINS
    count = _leaving_least(length, wanted) if leaves else _divisor_near(length // aligned, wanted)
    if count > 1:
        return Parts(Int.of(count), Int.of(length // count), int(length % count > 0))
    if operation.kind in NEEDS_EQUAL_PARTS:
        return Parts(Int.of(wanted), Int.of(length // wanted // aligned * aligned), aligned)
    step = -(-length // wanted // aligned) * aligned
    return Parts(Int.of(-(-length // step)), Int.of(step))


def _scattered_parts(
    operation: Reduction, scattered: Scattered, program: Program, limits: Limits
) -> Parts | None:
    """The parts of scattered rows: as many as keep the GPU busy, if they are equally long."""
    length = typical(scattered.length)
    lanes = typical(scattered.lane.extent)
    results = typical(points(operation.axes)) * lanes
    is_small = length * results < limits.worth_a_launch and length * lanes <= limits.longest_unsplit
    if is_small or length < limits.shortest_column_part:
        return None
    wanted = min(
        _column_parts(operation, program, results, limits), length // limits.shortest_column_part
    )
    count = _divisor_near(length, wanted) if scattered.length.constant is not None else 1
    return Parts(Int.of(count), scattered.length // count, scattered=scattered)


def _deciding_length(
    operation: Reduction, program: Program, whole: Int, limits: Limits, *, down: bool
) -> int:
    """The length that decides: of a dynamic one the largest, if whole rows leave the GPU idle then.

    A kernel for short rows should not become two for the sake of long ones that it reads well.
    """
    results = typical(points(operation.axes))
    programs = _columns(operation, program, results) if down else results
    if whole.constant is not None or programs >= limits.enough_readers:
        return typical(whole)
    return int(min(bounds(whole)[1], LARGEST_SIZE))


def _columns(operation: Reduction, program: Program, results: int) -> int:
    """The programs that reduce whole columns."""
    width = max(program.buffers[load.buffer].dtype.itemsize for load in loads(operation))
    return max(1, -(-results // columns_together(width)))


def _column_parts(operation: Reduction, program: Program, results: int, limits: Limits) -> int:
    """The most parts of columns that keep the GPU busy."""
    return limits.column_programs // _columns(operation, program, results)


def _most_parts(
    operation: Reduction, program: Program, length: int, limits: Limits, *, down: bool
) -> tuple[int, int]:
    """The most parts that keep the GPU busy, 0 for none, and how long a part is at least."""
    results = typical(points(operation.axes))
    longest = limits.longest_column if down else limits.longest_unsplit
    if length * results < limits.worth_a_launch and length <= longest:
        return 0, 1
    if down:
        return _column_parts(operation, program, results, limits), limits.shortest_column_part
    if results >= limits.gpu.multiprocessors:
        return 0, 1  # a row for each multiprocessor reads at full speed
    whole = limits.gpu.longest_row if results > 1 else 0  # stays in registers instead
    most = min(limits.row_programs // max(1, results), limits.most_parts)
    return most, max(limits.shortest_row_part, whole)


def _dynamic_parts(
    operation: Reduction,
    program: Program,
    limits: Limits,
    most: int,
    shortest: int,
    *,
    down: bool,
) -> Parts:
    """Parts of any length, as many as are not shorter than a number, and ``most`` at most.

    Parts leave a rest if that is simple; those along rows only on processors. Else they are padded,
    which costs GPUs nothing (such rows end early), and of whole rows where a position in a row must
    be one in a part. A row too short for one part is all rest in a variance: next to a large mean,
    a part's mean in float32 would cost it digits, the more the shorter it is.
    """
    whole = points(operation.inner)
    aligned = 1 if down else ALIGNED
    count = minimum(rounded_down(most), maximum(1, whole // shortest))
    takes_digits = _takes_digits(operation, program)
    leaves = (limits.is_host or down) and not takes_digits and operation.kind in JOINS
    length = whole // (aligned * count) * aligned
    if operation.kind in NEEDS_EQUAL_PARTS:
        is_long = minimum(1, whole // shortest)
        return Parts(count, is_long * length, ALIGNED, shortest)
    if leaves:
        return Parts(count, length, lanes=aligned)
    row = content(whole)
    if takes_digits and row % aligned == 0 and shortest >= LEAST_UNITS * row:
        return Parts(count, ceil_div(whole // row, count) * row)
    return Parts(count, ceil_div(whole, count * aligned) * aligned)


def _takes_digits(operation: Reduction, program: Program) -> bool:
    """True when a flat position of the reduced axes must be taken apart to load an element."""
    flat = Axis("step", points(operation.inner))
    for load in (one for value in args_at(operation, Int.of(flat)) for one in walk((value,))):
        if isinstance(load, Load):
            buffer = program.buffers[load.buffer]
            offset = dot(load.index, in_order(buffer.shape, buffer.order))
            if has_digits((offset,), flat):
                return True
    return False


def columns_together(width: int) -> int:
    """The neighbouring results that a program makes when it reduces columns of such elements.

    Whole cache lines, and no more: with two float32 lines sums took 2 to 4 % longer (measured).
    """
    return min(MOST_TOGETHER, LINE_BYTES // width)


def reduces_columns(operation: Reduction, program: Program, expected: Strides = NOTHING) -> bool:
    """True when more loads are contiguous across results than along the reduced axes.

    A load that uses no inner axis, such as an earlier reduction's result, does not count.
    """
    across = [axis for axis in operation.axes if not known_one(axis.extent)]
    if not across or not operation.inner:
        return False
    down = along = 0
    inner = set(operation.inner)
    for load in loads(operation):
        offset = dot(load.index, strides_of(program.buffers[load.buffer], expected))
        if inner.isdisjoint(offset.leaves()):
            continue
        along += local_slope(offset, operation.inner[-1]) == 1
        down += local_slope(offset, across[-1]) == 1
    return down > along


def _leaving_least(length: int, wanted: int) -> int:
    """About ``wanted`` parts, so that the second kernel merges and reads least."""
    return min(range(wanted - wanted // 20, wanted + 1), key=lambda parts: parts + length % parts)


def _divisor_near(length: int, wanted: int) -> int:
    """The divisor of ``length`` closest to ``wanted``, within a factor of two; else 1."""
    small = [d for d in range(1, isqrt(length) + 1) if length % d == 0]
    divisors = [*small, *(length // d for d in small)]
    near = [d for d in divisors if d > 1 and wanted <= 2 * d and d <= 2 * wanted]
    return min(near, key=lambda d: (abs(d - wanted), d), default=1)


def _split(
    operation: Reduction, parts: Parts, buffers: dict[str, Buffer], *, down: bool
) -> list[Operation]:
    """Both halves. Elements in no part are left to the second, if parts leave any."""
    whole, merge = points(operation.inner), MERGES[operation.kind]
    part, step = Axis("part", parts.count), Axis("step", parts.length)
    position = Int.of(part) * parts.length + Int.of(step)
    if parts.scattered is not None:
        rewrite = Rewriter(delinearize(parts.scattered.others, position))
        axes = (part, *operation.axes, parts.scattered.lane)
        args = tuple(map(rewrite, operation.args))
        first = replace(operation, axes=axes, inner=(step,), args=args)
        return merge(operation, first, Rest(operation, first), buffers)
    args = args_at(operation, position)
    if not parts.lanes and not known_equal(parts.count * parts.length, whole):
        args = tuple(_within(position, whole, value, operation.kind) for value in args)
    first = replace(operation, axes=(part, *operation.axes), inner=(step,), args=args)
    if operation.kind in ("argmax", "argmin") and not down and has_neighbours(first):
        merge = near_position
    return merge(operation, first, Rest(operation, first, parts.lanes, parts.short), buffers)


def _within(position: Int, whole: Int, value: Value, kind: str) -> Guarded:
    """The value before the end, and the identity after it."""
    dtype = DType.INT32 if bounds(position)[1] <= LARGEST_SIZE else DType.INT64
    inside = less(position, whole, dtype)
    nothing = Const(MONOIDS[kind].identities(value.dtype)[0], value.dtype)
    return Guarded(inside, value, nothing, value.dtype)
