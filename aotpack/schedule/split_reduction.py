"""Split a long reduction with few results in two, so that all multiprocessors work (S:B9-B18).

    y[i] = sum over k of x[i, k]    ->    p[s, i] = sum over j of x[i, s*J + j]
                                          y[i] = sum over s of p[s, i]

Both halves are ordinary reductions, so they fuse and render like any other. Splits are exact: the
number of parts divides the length. Arg reductions are left whole.
"""

from dataclasses import replace
from math import isqrt

from aotpack.ir.access import contiguous, dot, local_slope
from aotpack.ir.facts import typical
from aotpack.ir.integers import Axis, Int, product
from aotpack.ir.nodes import (
    Apply,
    Buffer,
    Const,
    Load,
    Operation,
    Pointwise,
    Program,
    Reduction,
    loads,
)
from aotpack.ir.rewrite import Rewriter
from aotpack.schedule.group import digits

SAME_TWICE = frozenset("sum prod max min any all xor_sum logsumexp".split())  # kind of kind is kind
ENOUGH_ROWS = 132  # one for each multiprocessor of an H200 reads at full speed
PROGRAMS = 1056  # eight for each multiprocessor of an H200
COLUMNS_TOGETHER = 128  # neighbouring results a program makes when it walks down columns
WORTH_A_LAUNCH = 2**20  # elements; the second kernel costs about what reading these does
LONGEST_ROW = 16384  # up to here a row stays in registers and is not split
SHORTEST_ROW_PART, SHORTEST_COLUMN_PART = 4096, 128


def split_reductions(program: Program) -> Program:
    """Split what is worth it; the same object if nothing is."""
    buffers = dict(program.buffers)
    operations: list[Operation] = []
    for operation in program.operations:
        parts = _parts(operation, program) if isinstance(operation, Reduction) else 1
        if parts > 1 and isinstance(operation, Reduction):
            operations += _split(operation, parts, buffers)
        else:
            operations.append(operation)
    if len(operations) == len(program.operations):
        return program
    return replace(program, operations=tuple(operations), buffers=buffers)


def _parts(operation: Reduction, program: Program) -> int:
    """The number of parts, 1 to leave it whole."""
    length = product(axis.extent for axis in operation.inner).constant
    if length is None or operation.kind not in SAME_TWICE | {"welford"}:
        return 1
    results = typical(product(axis.extent for axis in operation.axes))
    if length * results < WORTH_A_LAUNCH:
        return 1
    if _walks_down_columns(operation, program):
        programs, shortest = -(-results // COLUMNS_TOGETHER), SHORTEST_COLUMN_PART
    elif results >= ENOUGH_ROWS:
        return 1
    else:
        programs, shortest = results, max(SHORTEST_ROW_PART, LONGEST_ROW if results > 1 else 0)
    wanted = min(PROGRAMS // max(1, programs), length // shortest)
    return _divisor_near(length, wanted) if wanted > 1 else 1


def _walks_down_columns(operation: Reduction, program: Program) -> bool:
    """True when neighbours in memory belong to different results."""
    if not operation.axes or not operation.inner:
        return False
    down = along = 0
    for load in loads(operation):
        offset = dot(load.index, contiguous(program.buffers[load.buffer].shape))
        along += local_slope(offset, operation.inner[-1]) == 1
        down += local_slope(offset, operation.axes[-1]) == 1
    return down > along


def _divisor_near(length: int, wanted: int) -> int:
    """The divisor of ``length`` closest to ``wanted``, within a factor of two; else 1."""
    small = [d for d in range(1, isqrt(length) + 1) if length % d == 0]
    divisors = [*small, *(length // d for d in small)]
    near = [d for d in divisors if wanted <= 2 * d and d <= 2 * wanted]
    return min(near, key=lambda d: (abs(d - wanted), d), default=1)


def _split(operation: Reduction, parts: int, buffers: dict[str, Buffer]) -> list[Operation]:
    part = Axis("part", Int.of(parts))
    step = Axis("step", product(a.extent for a in operation.inner) // parts)
    position = digits(operation.inner, Int.of(part) * step.extent + Int.of(step))
    args = tuple(map(Rewriter(position), operation.args))
    dtype = args[0].dtype
    names = tuple(f"{target}_part" for target in operation.targets)
    shape = (part.extent, *(axis.extent for axis in operation.axes))
    for name in names:
        buffers[name] = Buffer(name, dtype, shape)
    first = replace(
        operation, targets=names, axes=(part, *operation.axes), inner=(step,), args=args
    )
    pieces = [Load(name, tuple(map(Int.of, first.axes)), dtype) for name in names]
    if operation.kind in SAME_TWICE:
        return [first, replace(operation, inner=(part,), args=tuple(pieces))]
    return [first, *_merge_welford(operation, part, step, pieces, buffers)]


def _merge_welford(
    operation: Reduction, part: Axis, step: Axis, pieces: list[Load], buffers: dict[str, Buffer]
) -> list[Operation]:
    """Parts are equally long: means average, and their spread adds to the squares (Chan et al.)."""
    mean, squares = operation.targets
    dtype, shape = pieces[0].dtype, tuple(axis.extent for axis in operation.axes)
    spread, within = f"{squares}_between", f"{squares}_within"
    for name in (spread, within):
        buffers[name] = Buffer(name, dtype, shape)
    index = tuple(map(Int.of, operation.axes))
    count = Const(float(int(step.extent)), dtype)
    between = Apply("mul", (Load(spread, index, dtype), count), dtype)
    total = Apply("add", (Load(within, index, dtype), between), dtype)
    return [
        replace(operation, targets=(mean, spread), inner=(part,), args=(pieces[0],)),
        replace(operation, targets=(within,), inner=(part,), kind="sum", args=(pieces[1],)),
        Pointwise(squares, operation.axes, total, index, operation.origin),
    ]
