"""Concat in place: kernels write their pieces of a concatenation directly, without a copy.

    p[i, j] = sum over k of ...                      p = ...; y.0[i, j] = p[i, j]
    q[i, j] = ...                              ->    q = ...; y.1[i, j + 8] = q[i, j]
    y[i, j] = p[i, j] if j < 8 else q[i, j - 8]      y is y.0 and y.1 in one memory

Done if a kernel can fuse the store of its piece, and the remaining copies take no more launches
than before, or save more bytes than launching takes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby

from aotpack.devices import Gpu
from aotpack.ir.kernels.access import axes_in, points
from aotpack.ir.kernels.kernel import Kernel, kernel_uses
from aotpack.ir.operations import Pointwise
from aotpack.ir.ops.conditions import range_checks
from aotpack.ir.ops.fold import fold, integer_of
from aotpack.ir.program import (
    Buffer,
    ConcatBuffer,
    Operation,
    Program,
    in_place_pairs,
    reads,
    targets,
)
from aotpack.ir.rewrite import Rewriter
from aotpack.ir.symbolic.facts import known_equal, known_le, typical
from aotpack.ir.symbolic.integers import Axis, Int
from aotpack.ir.values import Apply, Guarded, Value
from aotpack.schedule.fusion.fuse import fuse
from aotpack.schedule.fusion.group import Group, join
from aotpack.schedule.program.realize import own_index

SHORTEST_RUN = 32  # contiguous bytes; shorter stores share sectors of memory


@dataclass(frozen=True, slots=True)
class Piece:
    """The value of ``low <= axis < high`` of a concatenation."""

    low: Int
    high: Int
    value: Value


def concat_in_place(program: Program, gpu: Gpu) -> Program:
    """Let kernels write their pieces of a concatenation in place, without a copy.

    Decided on the kernels of a trial fusion; the same object if no piece is worth it.
    """
    if not any(isinstance(one, Pointwise) and _pieces(one) for one in program.operations):
        return program
    kernels = fuse(program)
    producers = {n: kernels[position] for n, position in kernel_uses(kernels).producers.items()}
    kept = {update.value for update in program.updates}
    kept |= {base for o in program.operations for _, base in in_place_pairs(o)}
    found: dict[str, list[Pointwise]] = {}
    for kernel in kernels:
        for operation in _candidates(kernel):
            if operation.target not in kept:
                parts = _parts(operation, kernel, producers, program, gpu)
                found |= {operation.target: parts} if parts else {}
    return _with_parts(program, found) if found else program


def _candidates(kernel: Kernel) -> Iterator[Pointwise]:
    """Stored operations of a pointwise kernel that neither read nor feed its other members."""
    if kernel.template_op is not None or len(kernel.axes) > 1:
        return
    made = {name for member in kernel.members for name in targets(member.operation)}
    used = {name for member in kernel.members for name in reads(member.operation)}
    for member in kernel.members:
        operation = member.operation
        if not isinstance(operation, Pointwise) or made & {*reads(operation)}:
            continue
        is_whole = operation.index == own_index(operation.axes)
        if is_whole and operation.target in kernel.stored and operation.target not in used:
            yield operation


def _parts(
    operation: Pointwise,
    kernel: Kernel,
    producers: Mapping[str, Kernel],
    program: Program,
    gpu: Gpu,
) -> list[Pointwise]:
    """The writers of the pieces, if they save more than they cost; else none."""
    found = _pieces(operation)
    if found is None:
        return []
    axis, pieces = found
    alone = [
        _part(operation, axis, [piece], number, program) for number, piece in enumerate(pieces)
    ]
    saved = [_saved_bytes(part, operation, producers, program) for part in alone]
    made: list[Pointwise] = []
    copies = 0
    for is_copy, numbers in groupby(range(len(pieces)), lambda number: saved[number] == 0):
        run = [*numbers]
        together = [pieces[number] for number in run]
        copies += is_copy
        made += (
            [_part(operation, axis, together, run[0], program)]
            if is_copy
            else [alone[number] for number in run]
        )
    launches = copies - (len(kernel.members) == 1)
    return made if any(saved) and sum(saved) >= launches * gpu.launch_bytes else []


def _saved_bytes(
    part: Pointwise, whole: Pointwise, producers: Mapping[str, Kernel], program: Program
) -> int:
    """Typical bytes that are not read again if a kernel fuses a part; 0 if none can."""
    buffer = program.buffers[whole.target]
    if _run_bytes(part, buffer) < SHORTEST_RUN:
        return 0
    buffers = program.buffers | {part.target: replace(buffer, name=part.target)}
    wider = replace(program, buffers=buffers)
    for kernel in (producers[name] for name in reads(part) if name in producers):
        if isinstance(join(_group(kernel), part, wider), Group):
            return max(1, typical(points(part.axes)) * buffer.dtype.itemsize)
    return 0


def _run_bytes(part: Pointwise, buffer: Buffer) -> int:
    """The contiguous bytes of a part."""
    run = buffer.dtype.itemsize
    for place, size in zip(reversed(part.index), reversed(buffer.shape), strict=True):
        own = [leaf for leaf in place.leaves() if isinstance(leaf, Axis)]
        run *= typical(own[0].extent) if own else 1
        if not own or not known_equal(own[0].extent, size):
            return run
    return max(run, SHORTEST_RUN)


def _group(kernel: Kernel) -> Group:
    """A kernel as a group that operations can be added to."""
    written = tuple(name for member in kernel.members for name in targets(member.operation))
    return Group(kernel.axes, kernel.members, written, kernel.reads)


def _with_parts(program: Program, found: Mapping[str, list[Pointwise]]) -> Program:
    """The program with parts in place of the concatenations."""
    buffers = dict(program.buffers)
    operations: list[Operation] = []
    for operation in program.operations:
        parts = found.get(targets(operation)[0])
        operations += [operation] if parts is None else parts
        for part in parts or ():
            buffers[part.target] = replace(buffers[targets(operation)[0]], name=part.target)
    concats = tuple(
        ConcatBuffer(name, tuple(p.target for p in parts)) for name, parts in found.items()
    )
    return replace(program, buffers=buffers, operations=tuple(operations), concats=concats)


def _part(
    whole: Pointwise, axis: Axis, pieces: list[Piece], number: int, program: Program
) -> Pointwise:
    """The operation that writes neighbouring pieces; an axis of one element is dropped."""
    name = f"{whole.target}.{number}"
    while name in program.buffers:
        name += "_"
    low, high = pieces[0].low, pieces[-1].high
    single = known_equal(high - low, 1)
    mine = Axis(axis.name, high - low)
    moved = {axis: low if single else Int.of(mine) + low}
    rewrite = Rewriter(moved)
    value = rewrite(pieces[-1].value)
    for piece in reversed(pieces[:-1]):
        for condition in range_checks(moved[axis], low, piece.high):
            value = fold(Guarded(condition, rewrite(piece.value), value, value.dtype))
    axes = tuple(mine if a is axis else a for a in whole.axes if not (single and a is axis))
    index = tuple(part.substitute(moved) for part in whole.index)
    return Pointwise(name, axes, value, index, whole.origin)


# --- pieces of a value ---------------------------------------------------------------------------


def _pieces(operation: Pointwise) -> tuple[Axis, list[Piece]] | None:
    """The pieces of a value along the one axis that its guards compare, in order; at least two."""
    guards: list[Piece] = []
    axes: set[Axis] = set()
    value = operation.value
    while isinstance(value, Guarded):
        found = _interval(value.condition, operation.axes)
        if found is None:
            break
        axis, low, high = found
        axes.add(axis)
        guards.append(Piece(low, high, value.value))
        value = value.otherwise
    if len(axes) != 1:
        return None
    (axis,) = axes
    pieces = _in_order(guards, value, axis.extent)
    return (axis, pieces) if pieces and len(pieces) > 1 else None


def _in_order(guards: list[Piece], otherwise: Value, end: Int) -> list[Piece] | None:
    """The guarded pieces in order; ``otherwise`` fills the gaps between them.

    None if their order is not known for all sizes.
    """
    left, position = list(guards), Int.of(0)
    pieces: list[Piece] = []
    while left:
        after = [p for p in left if all(known_le(p.low, other.low) for other in left)]
        if not after or not known_le(position, after[0].low):
            return None
        (piece, *_) = after
        if not known_le(piece.low, piece.high):
            return None
        left.remove(piece)
        if not known_equal(position, piece.low):
            pieces.append(Piece(position, piece.low, otherwise))
        pieces.append(piece)
        position = piece.high
    if not known_le(position, end):
        return None
    if not known_equal(position, end):
        pieces.append(Piece(position, end, otherwise))
    return pieces


def _ordered(a: Int, b: Int) -> tuple[Int, Int] | None:
    """The smaller and the larger; None if that depends on the sizes."""
    if known_le(a, b):
        return a, b
    return (b, a) if known_le(b, a) else None


def _interval(condition: Value, axes: tuple[Axis, ...]) -> tuple[Axis, Int, Int] | None:
    """The axis and the interval for which a condition holds, if it compares one axis."""
    if isinstance(condition, Apply) and condition.op == "logical_and":
        one, other = (_interval(side, axes) for side in condition.args)
        if one is None or other is None or one[0] is not other[0]:
            return None
        lows, highs = _ordered(one[1], other[1]), _ordered(one[2], other[2])
        return (one[0], lows[1], highs[0]) if lows and highs else None
    if not isinstance(condition, Apply) or condition.op not in ("ge", "lt"):
        return None
    a, b = map(integer_of, condition.args)
    if a is None or b is None:
        return None
    for axis in axes:
        bound = Int.of(axis) - (a - b)
        if axes_in((bound,)).isdisjoint(axes):
            low, high = Int.of(0), axis.extent
            return (axis, bound, high) if condition.op == "ge" else (axis, low, bound)
    return None
