"""Rows that programs take in turn, through a ring of blocks in shared memory."""

import re

import pytest

from aotpack.ir.symbolic.integers import Int, Var
from aotpack.ir.values import Value
from aotpack.precompile.request import Request
from aotpack.precompile.worker import run_triton
from aotpack.stages import KernelSource
from aotpack.target import Target
from tests.render.models import rendered_program
from tests.schedule.programs import Writer, apply, load

OPERANDS = re.compile(r"tt\.elementwise_inline_asm \"[^\"]*mbarrier.* : ([^:]*) ->")


@pytest.mark.row("C:B18")
@pytest.mark.parametrize(("most", "is_wide"), [(1000, False), (200_000, True)])
def test_what_counts_turns_of_rows_has_32_bits(most: int, is_wide: bool) -> None:
    (rendered,) = [k for k in in_turn(Var("b", 1, most)) if "for turn in" in k.text]
    assert (".to(tl.int64)" in rendered.text) is is_wide
    made = run_triton(Request.of(rendered, Target("cuda", 90))).asm
    operands = OPERANDS.findall(made["ttir"])
    assert len(operands) >= 4 and {kind for row in operands for kind in row.split(", ")} == {"i32"}
    assert "mbarrier.try_wait" in made["ptx"]


def in_turn(count: Var) -> tuple[KernelSource, ...]:
    """Rows by a weight for each column, over their sums."""
    w = Writer((count,))
    x, weight = w.input("x", count, 24_640), w.input("w", 24_640)
    sums = w.reduction("s", [count], [24_640], lambda i, r: load(x, i, r))

    def value(i: Int, j: Int) -> Value:
        return apply("mul", apply("div", load(x, i, j), load(sums, i)), load(weight, j))

    return rendered_program(w.program(w.pointwise("y", [count, 24_640], value))).kernels
