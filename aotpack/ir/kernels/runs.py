"""Factors that are one number for a run of neighbours along k, as scales of groups of codes are.

q[n, k] * s[n, k // 128]: s is one number for 16 neighbours
"""

from aotpack.ir.kernels.access import axes_in, axes_of, shared_length
from aotpack.ir.operations import Matmul
from aotpack.ir.rewrite import Rewriter
from aotpack.ir.symbolic.integers import Axis, Int
from aotpack.ir.values import Apply, Load, Value, walk


def split_run_scale(product: Matmul, run: int) -> tuple[Value, Value | None]:
    """The right factor without its scale, and the scale that is one for each ``run``, if any.

    A factor that is rounded after it is scaled keeps its scale.
    """
    right = product.rhs
    is_rounded = not product.wide and product.operand is not right.dtype
    if run == 1 or is_rounded or not isinstance(right, Apply) or right.op != "mul":
        return right, None
    codes, scale = right.args
    return (codes, scale) if _is_shared(scale, product, run) else (right, None)


def _is_shared(scale: Value, product: Matmul, run: int) -> bool:
    """True if a value is an element for each ``run`` neighbours along k, all within a part of k."""
    if not isinstance(scale, Load) or product.k not in axes_in(scale.index):
        return False
    loads = [one for one in walk((product.rhs,)) if isinstance(one, Load)]
    if shared_length(loads, product.k) % run:
        return False
    number, lane = Axis("run_number", product.k.extent // run), Axis("run_lane", Int.of(run))
    position = Int.of(number) * run + Int.of(lane)
    return lane not in axes_of((Rewriter({product.k: position})(scale),))
