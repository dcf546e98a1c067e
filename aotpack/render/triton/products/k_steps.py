"""Sums of several digits, as those of convolutions, in steps within the lowest digit.

    k = 64 * k_step + lane;  k // 64 % 3 = k_step % 3;  k % 64 = lane

An index of a factor is then a number for each row, a number for the step, and the lane.
"""

from dataclasses import replace
from typing import NamedTuple

from aotpack.ir.kernels.access import has_digits
from aotpack.ir.kernels.tiles import MatmulTile
from aotpack.ir.operations import Matmul
from aotpack.ir.rewrite import Rewriter
from aotpack.ir.symbolic.facts import known_multiple
from aotpack.ir.symbolic.integers import Axis, Int
from aotpack.ir.values import IndexValue, Load, Value, walk
from aotpack.render.emit.frame import Frame


class Steps(NamedTuple):
    """The position of k as ``number * length + lane``, where digits of k then have no lane."""

    number: Axis
    lane: Axis

    def position(self) -> Int:
        """The value of k."""
        return Int.of(self.number) * self.lane.extent + Int.of(self.lane)


def steps_of(template_op: Matmul, tile: MatmulTile) -> Steps | None:
    """The steps of a sum of several digits, if each keeps to one value of the upper digits."""
    k = template_op.k
    if tile.descriptors or not known_multiple(k.extent, tile.k):
        return None
    steps = Steps(Axis("k_step", k.extent // tile.k), Axis("k_lane", Int.of(tile.k)))
    factors = (template_op.lhs, template_op.rhs)
    rewrite = Rewriter({k: steps.position()})
    if not any(_takes_digits(value, k) for value in factors):
        return None
    return None if any(_takes_digits(rewrite(value), steps.lane) for value in factors) else steps


def _takes_digits(value: Value, axis: Axis) -> bool:
    """True when indices of a value take digits of an axis."""
    return any(has_digits(_indices(inner), axis) for inner in walk((value,)))


def _indices(value: Value) -> tuple[Int, ...]:
    if isinstance(value, Load):
        return value.index
    return (value.index,) if isinstance(value, IndexValue) else ()


def in_steps(frame: Frame, k: Axis, steps: Steps, number: str) -> Frame:
    """The frame with the lanes of a step in place of k."""
    names = {axis: name for axis, name in frame.names.items() if axis is not k}
    names |= {steps.lane: frame.names[k], steps.number: number}
    blocks = tuple((steps.lane if axis is k else axis, size) for axis, size in frame.blocks)
    return replace(frame, names=names, blocks=blocks)
