"""Windows of convolutions that a product reads where they lie, with no copy.

Windows inside the image have their elements at the same distances from their first one. Those of
neighbouring positions are a fixed step apart, as rows of a product are.
"""

from collections.abc import Iterator

from aotpack.ir.kernels.access import slope
from aotpack.ir.ops.fold import integer_of
from aotpack.ir.symbolic.integers import Axis, Indirect, Int
from aotpack.ir.values import Apply, Load, Value
from aotpack.render.c.products.split import Split
from aotpack.render.c.window import Window, slides
from aotpack.render.emit.kernel_builder import KernelBuilder

DEEPEST = 1152  # elements of a window, whose places are listed
MOST_RUNS = 64
NARROWEST = 24  # of images with edges: in narrower ones most rows of a kernel touch an edge


def window_step(
    builder: KernelBuilder, value: Value, found: Window | None, s: Split, k: Split
) -> int | None:
    """The step between windows of neighbouring positions; None if they are copied."""
    depth, runs = k.axis.extent.constant, Int.of(1) if k.row is None else k.row.extent
    if depth is None or depth > DEEPEST or (runs.constant or MOST_RUNS + 1) > MOST_RUNS:
        return None
    assert isinstance(value, Load)
    offset = builder.offset(value)
    first = {axis: Int.of(0) for axis in k.axes}
    places, step = offset - offset.substitute(first), slope(offset, s.column)
    if step is None or step <= 0 or not set(places.leaves()) <= {*k.axes}:
        return None
    if any(isinstance(leaf, Indirect) for leaf in offset.leaves()):
        return None
    if found is None:
        return step
    width = None if s.width is None else s.width.constant
    is_wide = width is None or width >= NARROWEST
    fits = found.moves and slides(found, s.column) and _is_strictest_at_ends(found, k.row)
    return step if is_wide and fits else None


def _is_strictest_at_ends(found: Window, runs: Axis | None) -> bool:
    """True if all runs are inside where the first and the last one are."""
    if runs is None:
        return True
    count = runs.extent.constant
    assert count is not None
    for index in _compared(found):
        values = [index.substitute({runs: Int.of(run)}) for run in range(count)]
        rises = [[(one - values[0]).constant, (values[-1] - one).constant] for one in values]
        if any(rise is None or rise < 0 for pair in rises for rise in pair):
            return False
    return True


def _compared(found: Window) -> Iterator[Int]:
    """Indices that are bounded: those of limits, and those of conditions."""
    for limit in found.limits:
        yield limit.start
    for condition in found.conditions:
        assert isinstance(condition, Apply)
        index = integer_of(condition.args[0])
        assert index is not None  # windows have compared indices alone
        yield index
