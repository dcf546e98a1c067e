"""Reductions of one level in one loop if they read something in common, else in loops apart."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from aotpack.ir.program import targets
from aotpack.render.emit.loop_fission import fission_groups
from tests.e2e.models import Function
from tests.e2e.oracle import agree, compile_all
from tests.schedule.programs import Writer, apply, load, schedule_of

ROW = 20_000  # elements: too many for registers


@pytest.mark.row("C:B10", "C:def10")
@pytest.mark.parametrize(
    ("function", "loops"),
    [
        (lambda x, z, c: ((x * c).sum(1), (z * c).amax(1)), 2),
        (lambda x, z, c: ((x * c).sum(1), (x + c).amax(1), (z * c).sum(1)), 2),
        (lambda x, z, c: ((x * c).sum(1), (z * c).sum(1), (x * z).sum(1)), 1),
        (lambda x, z, c: ((x.exp() * c).sum(1), (x.exp() + z).amax(1)), 1),
        (lambda x, z, c: ((x * c).sum(1), z * (c + 1)), 2),
    ],
)
def test_loops_of_one_level(function: Callable[..., Any], loops: int) -> None:
    torch.manual_seed(0)
    args = (torch.rand(2, ROW), torch.rand(2, ROW), torch.rand(2, 1))
    compiled = compile_all(Function(function, 3), args)
    assert len(compiled.scheduled.schedule.kernels) == 1
    (text,) = [k.text for k in compiled.precompiled.rendered.kernels if k.language == "triton"]
    assert text.count("for r_start in tl.range(") == loops, text
    agree(compiled, args)


def test_what_two_share_brings_a_third_to_them() -> None:
    w = Writer()
    x, y, z, c = (w.input(n, 4, 8) for n in "xyzc")
    a = w.reduction("a", [4], [8], lambda i, r: apply("mul", load(x, i, r), load(c, i, 0)))
    b = w.reduction("b", [4], [8], lambda i, r: apply("mul", load(y, i, r), load(c, i, 0)))
    d = w.reduction("d", [4], [8], lambda i, r: apply("mul", load(z, i, r), load(c, i, 0)))
    e = w.reduction("e", [4], [8], lambda i, r: apply("mul", load(x, i, r), load(z, i, r)))
    (kernel,) = schedule_of(w.program(a, b, d, e)).kernels
    inner = frozenset(kernel.axes[1:])
    groups = fission_groups([*kernel.members], kernel, inner)
    found = [[targets(member.operation)[0] for member in group] for group in groups]
    assert found == [["a", "d", "e"], ["b"]]
