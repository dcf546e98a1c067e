"""Flat axes as nests of loops over the digits that accesses use."""

import re

import pytest
import torch
from torch import nn

from aotpack.ir.symbolic.integers import Int
from aotpack.ir.values import Value
from aotpack.render.c.loops.nest import LEAST_LOOP
from aotpack.target import CPU
from tests.render.models import c_kernel, rendered
from tests.schedule.programs import Writer, load


@pytest.mark.parametrize("times", [2, 7, 8, 16])
def test_a_short_run_of_points_in_c_is_part_of_a_longer_one(times: int) -> None:
    """Copies of an element are no loop of their own unless they fill vectors."""
    model = nn.Upsample(scale_factor=(1.0, float(times)))
    (kernel,) = rendered(model, torch.randn(1, 3, 50, 60), targets=(CPU,)).kernels
    assert (f"const int64_t start = run % ({times});" in kernel.text) is (times >= LEAST_LOOP)


def loops(text: str) -> list[str]:
    """The variables of the loops, outermost first."""
    return re.findall(r"for \(int64_t (\w+) =", text)


def moved(*places: int) -> str:
    """A permutation of an image's axes, by itself."""
    shape = (3, 40, 50)
    w = Writer()
    x = w.input("x", *shape)

    def value(*index: Int) -> Value:
        return load(x, *(index[places.index(axis)] for axis in range(len(shape))))

    return c_kernel(w.program(w.pointwise("y", [shape[axis] for axis in places], value)))


def test_digits_that_accesses_use_are_loops_without_divisions() -> None:
    text = moved(1, 0, 2)
    assert loops(text) == ["run", "x2"]
    (body,) = re.findall(r"for \(int64_t x2 = .*?\n {8}\}", text, re.DOTALL)
    assert "x_ptr[" in body and not re.search(r"[/%]", body)


def test_an_axis_that_is_used_whole_stays_one_loop() -> None:
    text = moved(0, 1, 2)
    assert loops(text) == ["run", "x"] and "%" not in text
