"""Guards along an inner loop that become its bounds, and such as stay guards."""

import pytest
import torch
from torch import nn

from aotpack.ir.dtypes import DType
from aotpack.ir.symbolic.integers import Axis, Int
from aotpack.ir.values import Apply, Const, Guarded, IndexValue, Load, Value
from aotpack.render.c.window import window
from aotpack.target import CPU
from tests.render.models import rendered
from tests.schedule.programs import F32


def test_a_window_of_a_depthwise_convolution_in_c_has_bounds_and_no_masks() -> None:
    """A weight, which all columns share, is read where there is a column inside."""
    model = nn.Conv2d(6, 6, 3, padding=1, groups=6, bias=False)
    (kernel,) = rendered(model, torch.randn(2, 6, 9, 70), targets=(CPU,)).kernels
    head, inside = kernel.text.split("if (low < high) {")
    loop = inside.split("for (int64_t x3 = low; x3 < high; x3++) {")
    assert "weight_ptr[" not in head and "weight_ptr[" in loop[0]
    assert "weight_ptr[" not in loop[1] and "input_ptr[" in loop[1] and "?" not in loop[1]


AXIS = Axis("w", Int.of(70))
K = Axis("k", Int.of(3))
SHIFTED = Int.of(AXIS) + Int.of(K) - 1


def guarded(*conditions: Value, otherwise: float = 0.0, index: Int = SHIFTED) -> Guarded:
    """An element of a row, where all conditions hold."""
    whole = conditions[0]
    for condition in conditions[1:]:
        whole = Apply("logical_and", (whole, condition), DType.BOOL)
    return Guarded(whole, Load("x", (index,), F32), Const(otherwise, F32), F32)


def compared(op: str, index: Int, bound: int) -> Value:
    numbers = (IndexValue(index, DType.INT64), Const(bound, DType.INT64))
    return Apply(op, numbers, DType.BOOL)


def test_comparisons_along_the_axis_are_limits_and_others_conditions() -> None:
    found = window(
        guarded(
            compared("ge", SHIFTED, 0), compared("lt", SHIFTED, 70), compared("lt", Int.of(K), 2)
        ),
        AXIS,
    )
    assert found is not None and found.moves
    assert [(one.step, one.is_upper) for one in found.limits] == [(1, False), (1, True)]
    assert len(found.conditions) == 1


def test_what_stands_still_along_the_axis_is_told() -> None:
    found = window(guarded(compared("ge", SHIFTED, 0), index=Int.of(K)), AXIS)
    assert found is not None and not found.moves


@pytest.mark.parametrize(
    "value",
    [
        guarded(compared("ne", SHIFTED, 0)),
        guarded(compared("ge", 5 - Int.of(AXIS), 0)),  # from above
        guarded(compared("ge", Int.of(AXIS) % 7, 0)),  # no straight line
        guarded(compared("ge", SHIFTED, 0), otherwise=1.0),
        Load("x", (SHIFTED,), F32),
    ],
    ids=["ne", "downwards", "remainder", "one", "unguarded"],
)
def test_other_guards_are_no_windows(value: Value) -> None:
    assert window(value, AXIS) is None
