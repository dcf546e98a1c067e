"""Transposed convolutions by phases."""

from itertools import product

import pytest
import torch

from aotpack.ir.symbolic.integers import Int
from aotpack.ir.values import Const
from aotpack.lower.linalg.conv_transpose import Side
from tests.lower.oracle import Case, call, case, floats


def contributions(side: Side, size: int, at: int) -> list[tuple[int, int]]:
    """(input position, kernel offset) of the terms that phases find for an output position."""
    row, phase, conditions = side.place(Int.of(at))
    assert all(isinstance(condition, Const) for condition in conditions)
    if not all(isinstance(each, Const) and each.value for each in conditions):
        return []
    parts = [part for part in side.phases() if 0 <= int(phase) - part.first < part.count]
    return [
        (int(side.source(row, Int.of(term))), int(part.offset(phase - part.first, Int.of(term))))
        for part in parts
        for term in range(part.terms)
        if 0 <= int(side.source(row, Int.of(term))) < size
    ]


@pytest.mark.parametrize(("stride", "dilation"), [*product(range(1, 7), (1, 2, 3, 4))])
def test_phases_find_every_term_once(stride: int, dilation: int) -> None:
    for padding, kernel, size, more in product((0, 1, 5), (1, 2, 3, 4), (1, 4), (0, 1)):
        result = (size - 1) * stride - 2 * padding + dilation * (kernel - 1) + 1 + more
        side = Side(stride, padding, dilation, kernel, Int.of(max(1, result)))
        for at in range(result):
            pairs = product(range(size), range(kernel))
            wanted = [(i, o) for i, o in pairs if i * stride + o * dilation == at + padding]
            assert sorted(contributions(side, size, at)) == wanted, (side, at)


def test_a_kernel_of_whole_strides_is_one_product() -> None:
    assert len(Side(2, 1, 1, 4, Int.of(8)).phases()) == 1
    assert len(Side(1, 1, 2, 3, Int.of(8)).phases()) == 1
    assert [(p.first, p.count, p.terms) for p in Side(2, 0, 1, 3, Int.of(9)).phases()] == [
        (0, 1, 2),
        (1, 1, 1),
    ]
    assert [(p.count, p.terms) for p in Side(5, 0, 1, 2, Int.of(9)).phases()] == [(2, 1)]


def line(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor | None, *steps: int) -> Case:
    """Steps in eager's order: stride, padding, output padding, groups, dilation."""
    listed = [step if position == 3 else [step] for position, step in enumerate(steps)]
    return case("conv_transpose1d.default", x, w, bias, *listed)


LINES = [
    line(floats(2, 3, 5), floats(3, 4, 3), floats(4), 1, 1),
    line(floats(2, 3, 5), floats(3, 4, 3), None, 2, 0, 1),
    line(floats(2, 3, 5), floats(3, 4, 4), floats(4), 3, 2, 2),
    line(floats(2, 3, 5), floats(3, 4, 2), floats(4), 5, 1),
    line(floats(1, 4, 1), floats(4, 3, 1), floats(6), 4, 0, 3, 2),
    line(floats(2, 4, 6), floats(4, 1, 3), floats(4), 2, 1, 1, 4),
    line(floats(2, 3, 6), floats(3, 2, 3), floats(2), 4, 3, 5, 1, 6),
    line(floats(2, 3, 6), floats(3, 2, 3), floats(2), 1, 2, 0, 1, 2),
    line(floats(0, 3, 6), floats(3, 2, 3), floats(2), 2),
    line(floats(2, 3, 1), floats(3, 2, 4), floats(2), 1),
    line(floats(2, 4, 1), floats(4, 2, 3), floats(4), 4, 1, 3, 2, 2),
    line(floats(3, 6), floats(3, 2, 4), floats(2), 2, 1),
    *(
        line(floats(2, 8, 7).to(dtype), floats(8, 2, 3).to(dtype), floats(2).to(dtype), 2)
        for dtype in (torch.bfloat16, torch.float16, torch.float64)
    ),
]
PLANES = [
    case("conv_transpose2d.input", floats(*x), floats(*w), bias, *steps)
    for x, w, bias, *steps in [
        ((2, 4, 5, 3), (4, 3, 2, 2), floats(3), [2, 2]),
        ((2, 4, 5, 3), (4, 3, 4, 6), floats(6), [2, 3], [2, 3], [0, 0], 2),
        ((1, 3, 4, 5), (3, 2, 3, 2), floats(2), [2, 1], [1, 0], [1, 0], 1, [1, 3]),
        ((2, 3, 1, 4), (3, 2, 4, 4), floats(2), [1, 2], [0, 1]),
        ((1, 2, 3, 3), (2, 3, 7, 1), floats(3), [3, 2], [4, 0], [2, 1]),
    ]
]
SOLID = case(
    "conv_transpose3d.input", floats(1, 2, 3, 2, 2), floats(2, 2, 3, 2, 1), None, [2] * 3, [0], [1]
)


@pytest.mark.parametrize("case", [*LINES, *PLANES, SOLID], ids=str)
def test_yields_what_eager_yields(case: Case) -> None:
    case.check()


@pytest.mark.parametrize("kernel", [2, 3, 4])
@pytest.mark.parametrize("dilation", [1, 2])
def test_what_an_infinite_element_does_not_reach_stays_finite(kernel: int, dilation: int) -> None:
    x = floats(1, 2, 6)
    x[0, 0, 2], x[0, 1, 5] = torch.inf, torch.nan
    steps = (None, [3], [1], [2], 1, [dilation])
    (ours,), (eager,) = call("aten.conv_transpose1d.default", x, floats(2, 3, kernel), *steps)
    assert torch.equal(ours.isnan(), eager.isnan())
    assert torch.equal(ours.isinf(), eager.isinf())
