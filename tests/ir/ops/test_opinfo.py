"""Facts about operators: what they cost, and where they jump."""

import numpy as np
import pytest

from aotpack.ir.ops.opinfo import Cost
from aotpack.ir.ops.optable import OPS

STEP = 2.0**-30
JUMPS_AT = {  # an operand, or two, beside which the result makes a step
    "floor": [1.0],
    "ceil": [1.0 + STEP],
    "trunc": [1.0],
    "round": [0.5 + STEP],
    "floordiv": [3.0, 1.5],
    "truncdiv": [3.0, 1.5],
    "remainder": [3.0, 1.5],
    "fmod": [3.0, 1.5],
    "sign": [STEP / 2],
    "ge": [1.0, 1.0],
    "lt": [1.0, 1.0],
    "eq": [1.0, 1.0],
}
SMOOTH = {"add": 2, "mul": 2, "abs": 1, "relu": 1, "maximum": 2, "exp": 1, "div": 2, "sqrt": 1}


def change(name: str, operands: list[float]) -> float:
    """By how much the result changes when the first operand is a little less."""
    dtype = np.dtype(np.bool_ if OPS[name].result == "bool" else np.float64)
    sides = [operands, [operands[0] - STEP, *operands[1:]]]
    results = [OPS[name].compute([np.array([x]) for x in side], dtype) for side in sides]
    return abs(float(results[0][0]) - float(results[1][0]))


@pytest.mark.parametrize("name", JUMPS_AT)
def test_a_discontinuous_operator_makes_whole_steps(name: str) -> None:
    assert OPS[name].is_discontinuous
    assert change(name, JUMPS_AT[name]) >= 0.9


@pytest.mark.parametrize("name", SMOOTH)
def test_a_continuous_operator_makes_none(name: str) -> None:
    assert not OPS[name].is_discontinuous
    for operands in ([1.0, 1.0], [0.5, 2.0], [3.0, 1.5]):
        assert change(name, operands[: SMOOTH[name]]) < 1e-6


def test_costs_are_ordered() -> None:
    one, few, many = (OPS[name].cost for name in ("add", "floor", "exp"))
    assert (one, few, many) == (Cost.ONE, Cost.FEW, Cost.MANY)
    assert one < few < many


def test_a_misspelled_name_would_be_missed_in_these_counts() -> None:
    costs = [info.cost for info in OPS.values()]
    assert [costs.count(cost) for cost in (Cost.ONE, Cost.FEW)] == [25, 9]
    assert sum(info.is_discontinuous for info in OPS.values()) == 18
