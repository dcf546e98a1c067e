"""Rows in turn: copies are begun, awaited and read in the order that a ring of slots admits."""

import re
from dataclasses import replace

import pytest
import torch

from aotpack.ir.symbolic.integers import Int, Var
from aotpack.ir.values import Value
from aotpack.precompile.request import Request
from aotpack.precompile.worker import run_triton
from aotpack.stages import KernelSource
from aotpack.target import Target
from tests.render.models import Softmax, rendered, rendered_program
from tests.render.triton.loops.rows import IN_LOOPS, IN_PIPELINE, LENGTH, shares_on, text
from tests.schedule.programs import BF16, Writer, apply, load

OPERANDS = re.compile(r"tt\.elementwise_inline_asm \"[^\"]*mbarrier.* : ([^:]*) ->")
PART = LENGTH // 2 * 4  # bytes of a program's part of a row


def test_copies_are_begun_for_each_slot_before_the_first_row() -> None:
    lines = text(shares_on(IN_PIPELINE)).splitlines()
    begin = lines.index(f"for number in range({IN_PIPELINE.ring}):")
    rows = lines.index("for turn in range(tl.cdiv(6 - row, clusters)):")
    assert lines[0] == "mailbox = open_mailbox()" and lines[rows - 1] == "cluster_wait()"
    assert begin < next(n for n, line in enumerate(lines) if "async_copy(" in line) < rows


def test_a_block_is_awaited_once_and_its_slot_is_filled_when_it_was_read() -> None:
    first, last = text(shares_on(IN_PIPELINE)).split("for r_start in ")[1:]
    assert "async_wait_group(3 - r_start // 128)" in first and "async_copy" not in first
    assert "async_wait_group" not in last
    assert last.index("load_shared_float32(slot)") < last.index("async_copy(slot")


def test_rows_alternate_between_the_stages_of_the_mailbox() -> None:
    lines = text(shares_on(IN_PIPELINE))
    assert lines.count("stage = mailbox + turn % 2 * 16") == 1
    assert "mbarrier_wait(stage + 0, turn // 2 % 2)" in lines


@pytest.mark.parametrize(
    ("ring", "kept", "read"),
    [
        (4, 1, "kept0[r_start // 128]"),
        (2, 0, "load_shared_float32(ring + 1024 + (r_start // 128)*512)"),
    ],
)
def test_what_rows_have_in_common_is_read_once(ring: int, kept: int, read: str) -> None:
    made = shares_on(replace(IN_PIPELINE, ring=ring, kept=kept))
    before, rows = text(made).split("for turn in ")
    assert before.count("w_ptr") == 1 and "w_ptr" not in rows and read in rows
    assert made.ring_bytes == ring * 512 + (0 if kept else PART)


def test_two_elements_of_a_register_are_widened_where_they_are_read() -> None:
    tile = replace(IN_PIPELINE, r=256, ring=2, kept=0)
    made = shares_on(tile, BF16)
    assert "load_shared_bfloat16(slot)" in text(made) and ".to(tl.float32)" not in text(made)
    assert made.ring_bytes == 2 * 512 + PART // 2


def test_rows_from_memory_need_no_ring() -> None:
    made = shares_on(replace(IN_LOOPS, cluster_size=2))
    assert made.ring_bytes == 0 and not made.context.is_row_pipeline
    assert "async" not in text(made) and "turn" not in text(made)


def test_short_rows_have_no_row_pipeline() -> None:
    kernels = rendered(Softmax(), torch.zeros(64, 1000)).kernels
    assert [kernel.ring_bytes for kernel in kernels] == [0]


@pytest.mark.row("C:B18")
@pytest.mark.parametrize(("most", "is_wide"), [(1000, False), (200_000, True)])
def test_what_counts_turns_of_rows_has_32_bits(most: int, is_wide: bool) -> None:
    (kernel,) = [k for k in pipelined_kernels(Var("b", 1, most)) if "for turn in" in k.text]
    assert (".to(tl.int64)" in kernel.text) is is_wide
    made = run_triton(Request.of(kernel, Target("cuda", 90))).asm
    operands = OPERANDS.findall(made["ttir"])
    assert len(operands) >= 4 and {kind for row in operands for kind in row.split(", ")} == {"i32"}
    assert "mbarrier.try_wait" in made["ptx"]


def pipelined_kernels(count: Var) -> tuple[KernelSource, ...]:
    """Rows by a weight for each column, over their sums."""
    w = Writer((count,))
    x, weight = w.input("x", count, 24_640), w.input("w", 24_640)
    sums = w.reduction("s", [count], [24_640], lambda i, r: load(x, i, r))

    def value(i: Int, j: Int) -> Value:
        return apply("mul", apply("div", load(x, i, j), load(sums, i)), load(weight, j))

    return rendered_program(w.program(w.pointwise("y", [count, 24_640], value))).kernels
