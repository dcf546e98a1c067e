"""What a kernel reads from registers and others read from memory is one number (C:E)."""

import pytest

from aotpack.ir.dtypes import DType
from aotpack.ir.program import Program, targets
from aotpack.ir.symbolic.integers import Var
from aotpack.schedule.fusion.fuse import fuse
from aotpack.schedule.fusion.rounding import match_rounding
from tests.schedule.programs import BF16, F32, Writer, apply, load

B, S = Var("b", 1, 16), Var("s", 1, 32)


def program(*, is_shared: bool, dtype: DType = BF16) -> Program:
    """``y`` and its rows' maxima in one kernel; its columns' sums, if any, in another."""
    w = Writer((B, S))
    x = w.input("x", B, S)
    y = w.pointwise("y", [B, S], lambda i, j: apply("exp", load(x, i, j)), dtype=dtype)
    top = w.reduction("top", [B], [S], lambda i, r: load(y, i, r), kind="max")
    if not is_shared:
        return w.program(y, top)
    return w.program(y, top, w.reduction("columns", [S], [B], lambda j, r: load(y, r, j)))


@pytest.mark.row("C:E1")
def test_a_result_that_another_kernel_reads_is_rounded_for_its_own() -> None:
    before = program(is_shared=True)
    after, kernels = match_rounding(before, fuse(before))
    pairs = zip(after.operations, before.operations, strict=True)
    (changed,) = (new for new, old in pairs if new is not old)
    assert targets(changed) == ("top",)
    assert "round_bfloat16(y[" in str(after)
    assert changed in [member.operation for member in kernels[0].members]


@pytest.mark.parametrize(
    "before", [program(is_shared=False), program(is_shared=True, dtype=F32)], ids=["alone", "wide"]
)
def test_others_are_not(before: Program) -> None:
    kernels = fuse(before)
    assert match_rounding(before, kernels) == (before, kernels)
