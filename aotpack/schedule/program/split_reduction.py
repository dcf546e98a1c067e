"""Split a long reduction with few results in two, so that all multiprocessors work.

    y[i] = sum over k of x[i, k]    ->    p[s, i] = sum over j of x[i, s*J + j]
                                          y[i] = sum over s of p[s, i]

Both halves are ordinary reductions, so they fuse and render like any other. If no number of equal
parts is near the wanted one, the last part is padded with the identity. ``merge_parts.py`` merges
the parts.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import isqrt

from aotpack.devices import Gpu, rounded_down
from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.access import delinearize, dot, in_order, local_slope, points
from aotpack.ir.kernels.rows import LINE_BYTES
from aotpack.ir.kernels.tiles import WARP
from aotpack.ir.operations import Reduction
from aotpack.ir.ops.monoids import MONOIDS
from aotpack.ir.program import Buffer, Operation, Program, loads
from aotpack.ir.rewrite import Rewriter
from aotpack.ir.symbolic.facts import bounds, typical
from aotpack.ir.symbolic.integers import LARGEST_SIZE, Axis, Int, ceil_div
from aotpack.ir.uses import operation_uses
from aotpack.ir.values import Apply, Const, Guarded, IndexValue, Value
from aotpack.schedule.program.merge_parts import (
    MERGES,
    NEEDS_EQUAL_PARTS,
    has_neighbours,
    less,
    near_position,
    same_kind,
)
from aotpack.schedule.program.row_aligned_split import row_length

MOST_TOGETHER = 64  # columns
ALIGNED = 8  # elements: parts of rows begin where whole vectors do


@dataclass(frozen=True, slots=True)
class Limits:
    """The thresholds and part counts of splits.

    Measured on an H200 (docs/measurements/h200_few_long_rows.csv).
    """

    gpu: Gpu

    @property
    def row_programs(self) -> int:
        """As many of four warps as run at once: [4,2^22] took 19.5 us by a quarter, 19.0 by all."""
        return self.gpu.threads_at_once // (4 * WARP)

    @property
    def column_programs(self) -> int:
        """Programs that run at once, with the registers that sums of columns take."""
        return 8 * self.gpu.multiprocessors

    @property
    def most_parts(self) -> int:
        """Parts of a row: one program merges them while the GPU is otherwise idle.

        [1,2^26] took 69.0 us in 2048 parts, 66.6 in 528 (fp32, H200, 2026-11-21).
        """
        return 4 * self.gpu.multiprocessors

    @property
    def worth_a_launch(self) -> int:
        """Elements, of 4 bytes, that are read in the time of the second kernel's launch."""
        return self.gpu.launch_bytes // 4

    @property
    def longest_unsplit(self) -> int:
        """Elements of a row that one program reads in the time of a launch.

        Of 32768 elements two to eight sums are quicker whole, of 65536 in parts (H200, 2026-11-22).
        """
        return rounded_down(self.gpu.read_rate * self.gpu.launch / 2)

    @property
    def shortest_row_part(self) -> int:
        """Elements: a quarter of what a program can keep in registers."""
        return max(2, self.gpu.longest_row // 4)

    @property
    def shortest_column_part(self) -> int:
        """Rows of a program's 32 columns, with as many elements together."""
        return max(2, self.shortest_row_part // 32)


def rows_to_split(program: Program, gpu: Gpu) -> frozenset[str]:
    """The first targets of reductions that are split because their rows are few."""
    producers = operation_uses(program.operations).producers
    return frozenset(
        operation.targets[0]
        for operation in program.operations
        if isinstance(operation, Reduction)
        and row_length(operation, producers) is None
        and not _reduces_columns(operation, program)
        and _step(operation, program, producers, Limits(gpu)) is not None
    )


def split_reductions(program: Program, gpu: Gpu, resident: frozenset[str] = frozenset()) -> Program:
    """Split long reductions with few results in two, so that all multiprocessors work.

    Reductions to the targets ``resident`` stay whole. The same object if no split pays.
    """
    buffers = dict(program.buffers)
    operations: list[Operation] = []
    producers = operation_uses(program.operations).producers
    for operation in program.operations:
        step = None
        if isinstance(operation, Reduction) and operation.targets[0] not in resident:
            step = _step(operation, program, producers, Limits(gpu))
        if step is not None and isinstance(operation, Reduction):
            down = _reduces_columns(operation, program)
            operations += _split(operation, step, buffers, down=down)
        else:
            operations.append(operation)
    if len(operations) == len(program.operations):
        return program
    return replace(program, operations=tuple(operations), buffers=buffers)


def _step(
    operation: Reduction, program: Program, producers: Mapping[str, Operation], limits: Limits
) -> int | None:
    """The length of a part; None to keep the reduction whole."""
    if operation.kind not in MERGES:
        return None
    row = row_length(operation, producers)
    if row is not None:
        return row
    length = points(operation.inner).constant
    if length is None:
        return None
    results = typical(points(operation.axes))
    if length * results < limits.worth_a_launch and length <= limits.longest_unsplit:
        return None
    down = _reduces_columns(operation, program)
    if down:
        width = max(program.buffers[load.buffer].dtype.itemsize for load in loads(operation))
        programs, shortest = -(-results // columns_together(width)), limits.shortest_column_part
    elif results >= limits.gpu.multiprocessors:
        return None  # a row for each multiprocessor reads at full speed
    else:
        whole = limits.gpu.longest_row if results > 1 else 0  # stays in registers instead
        programs, shortest = results, max(limits.shortest_row_part, whole)
    together = max(1, programs)
    for_rows = min(limits.row_programs // together, limits.most_parts)
    most = limits.column_programs // together if down else for_rows
    wanted = min(most, length // shortest)
    if wanted <= 1:
        return None
    aligned = 1 if down or length % ALIGNED else ALIGNED
    if down and MERGES[operation.kind] is same_kind:
        return length // _leaving_least(length, wanted)
    equal = _divisor_near(length // aligned, wanted)
    if equal > 1:
        return length // equal
    rounded = -(-length // wanted // aligned) * aligned
    return None if operation.kind in NEEDS_EQUAL_PARTS else rounded


def columns_together(width: int) -> int:
    """The neighbouring results that a program makes when it reduces columns of such elements.

    Whole cache lines, and no more: with two float32 lines sums took 2 to 4 % longer (measured).
    """
    return min(MOST_TOGETHER, LINE_BYTES // width)


def _reduces_columns(operation: Reduction, program: Program) -> bool:
    """True when more loads are contiguous across results than along the reduced axes.

    A load that uses no inner axis, such as an earlier reduction's result, does not count.
    """
    if not operation.axes or not operation.inner:
        return False
    down = along = 0
    inner = set(operation.inner)
    for load in loads(operation):
        buffer = program.buffers[load.buffer]
        offset = dot(load.index, in_order(buffer.shape, buffer.order))
        if inner.isdisjoint(offset.leaves()):
            continue
        along += local_slope(offset, operation.inner[-1]) == 1
        down += local_slope(offset, operation.axes[-1]) == 1
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
    operation: Reduction, length: int, buffers: dict[str, Buffer], *, down: bool
) -> list[Operation]:
    """Both halves. For columns the second also reduces the elements in no part, if it can."""
    whole = points(operation.inner)
    merge = MERGES[operation.kind]
    leave = down and merge is same_kind
    parts = whole // length if leave else ceil_div(whole, length)
    part, step = Axis("part", parts), Axis("step", Int.of(length))
    position = Int.of(part) * length + Int.of(step)
    args = _args_at(operation, position)
    rest = int(whole) % length if whole.constant is not None else 0
    if rest and not leave:
        args = tuple(_within(position, whole, value, operation.kind) for value in args)
    first = replace(operation, axes=(part, *operation.axes), inner=(step,), args=args)
    if operation.kind in ("argmax", "argmin") and not down and has_neighbours(first):
        merge = near_position
    halves = merge(operation, first, buffers)
    if leave and rest:
        return [halves[0], _with_rest(operation, halves[1], length, int(parts))]
    return halves


def _args_at(operation: Reduction, position: Int) -> tuple[Value, ...]:
    """The reduced values at a flat position of the inner axes."""
    return tuple(map(Rewriter(delinearize(operation.inner, position)), operation.args))


def _with_rest(operation: Reduction, second: Operation, length: int, parts: int) -> Reduction:
    """The second half, with the few elements that are in no part.

    y[i] = sum over s of p[s, i]    ->    y[i] = sum over k of k < S ? p[k, i] : x[i, S*(J-1)+k]
    """
    assert isinstance(second, Reduction)
    whole = int(points(operation.inner))
    (part,), (piece,) = second.inner, second.args
    either = Axis(part.name, Int.of(parts + whole % length))
    position = Int.of(either)
    rest = _args_at(operation, position + parts * (length - 1))[0]
    piece = Rewriter({part: position})(piece)
    is_part = less(position, parts)
    other = Apply("logical_not", (is_part,), DType.BOOL)
    nothing = Const(MONOIDS[operation.kind].identities(piece.dtype)[0], piece.dtype)
    value = Guarded(is_part, piece, Guarded(other, rest, nothing, piece.dtype), piece.dtype)
    return replace(second, inner=(either,), args=(value,))


def _within(position: Int, whole: Int, value: Value, kind: str) -> Guarded:
    """The value before the end, and the identity after it."""
    dtype = DType.INT32 if bounds(position)[1] <= LARGEST_SIZE else DType.INT64
    inside = Apply("lt", (IndexValue(position, dtype), Const(int(whole), dtype)), DType.BOOL)
    nothing = Const(MONOIDS[kind].identities(value.dtype)[0], value.dtype)
    return Guarded(inside, value, nothing, value.dtype)
