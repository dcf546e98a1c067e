"""Guards along an inner loop that become its bounds, and such as stay guards."""

import pytest

from aotpack.ir.dtypes import DType
from aotpack.ir.ops.conditions import range_checks
from aotpack.ir.symbolic.integers import Axis, Int
from aotpack.ir.values import Apply, Const, Guarded, IndexValue, Load, Value
from aotpack.render.c.window import window
from tests.render.models import c_kernel
from tests.schedule.programs import F32, Writer, apply, load


def test_a_window_in_c_has_bounds_and_no_masks() -> None:
    """A weight, which all columns share, is read where there is a column inside."""
    w = Writer()
    x, weight = w.input("x", 6, 70), w.weight("weight", 6, 3)

    def term(row: Int, column: Int, tap: Int) -> Value:
        index = Int.of(column) + tap - 1
        inside = range_checks(index, 0, 70)
        product = apply("mul", load(x, row, index), load(weight, row, tap))
        both = Apply("logical_and", tuple(inside), DType.BOOL)
        return Guarded(both, product, Const(0.0, F32), F32)

    text = c_kernel(w.program(w.reduction("y", [6, 70], [3], term)))
    head, inside = text.split("if (low < high) {")
    loop = inside.split("< high; ")
    assert "weight_ptr[" not in head and "weight_ptr[" in loop[0]
    assert "weight_ptr[" not in loop[1] and "x_ptr[" in loop[1] and "?" not in loop[1]


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
