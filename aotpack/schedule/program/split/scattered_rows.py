"""Rows that lie scattered in memory, reduced with neighbours of memory in neighbouring lanes.

A group norm of images with channels innermost reduces ``c`` of the channels of a group and all
positions ``k``, so a row is many short runs. Each channel is reduced alone, then a group:

    y[i, g] = sum over c, k of x[i, k, g*C + c]

    p[s, i, g, c] = sum over j of x[i, s*J + j, g*C + c]
    y[i, g] = sum over s, c of p[s, i, g, c]
"""

from collections.abc import Mapping
from dataclasses import dataclass

from aotpack.ir.kernels.access import Strides, dot, in_order, local_slope, points
from aotpack.ir.kernels.rows import LINE_BYTES
from aotpack.ir.operations import Reduction
from aotpack.ir.program import Buffer, Program, loads
from aotpack.ir.symbolic.facts import typical
from aotpack.ir.symbolic.integers import Axis, Int

KINDS = ("sum", "prod", "max", "min", "any", "all", "xor_sum", "welford")


@dataclass(frozen=True, slots=True)
class Scattered:
    """Runs along ``lane``, which the last axis of results continues; ``others`` are reduced too."""

    lane: Axis
    others: tuple[Axis, ...]

    @property
    def length(self) -> Int:
        """The number of runs of a row."""
        return points(self.others)


def scattered_rows(operation: Reduction, program: Program, expected: Strides) -> Scattered | None:
    """How the rows of a reduction are scattered; None for rows of whole cache lines."""
    if operation.kind not in KINDS or not operation.axes:
        return None
    found: set[Axis | None] = set()
    for load in loads(operation):
        buffer = program.buffers[load.buffer]
        offset = dot(load.index, strides_of(buffer, expected))
        if not set(operation.inner).isdisjoint(offset.leaves()):
            found.add(_lane(operation, offset, buffer.dtype.itemsize))
    lane = found.pop() if len(found) == 1 else None
    if lane is None:
        return None
    return Scattered(lane, tuple(axis for axis in operation.inner if axis is not lane))


def strides_of(buffer: Buffer, expected: Mapping[str, tuple[Int, ...]]) -> tuple[Int, ...]:
    """The strides that are expected of a buffer, or those of its declared order."""
    return expected.get(buffer.name) or in_order(buffer.shape, buffer.order)


def _lane(operation: Reduction, offset: Int, itemsize: int) -> Axis | None:
    """The reduced axis along memory, if its run is short and an axis of results continues it."""
    for axis in operation.inner:
        size = axis.extent.constant
        if size is None or local_slope(offset, axis) != 1 or size * itemsize >= LINE_BYTES:
            continue
        goes_on = any(local_slope(offset, one) == size for one in operation.axes)
        others = (one for one in operation.inner if one is not axis)
        return axis if goes_on and typical(points(tuple(others))) > 1 else None
    return None
