"""Rows in turn: copies are begun, awaited and read in the order that a ring of slots admits."""

from dataclasses import replace

import pytest
import torch

from tests.render.models import Softmax, rendered
from tests.render.triton.loops.rows import IN_LOOPS, IN_PIPELINE, LENGTH, shares_on, text
from tests.schedule.programs import BF16

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


def test_rows_use_the_stages_of_the_mailbox_in_turn() -> None:
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
    assert made.ring_bytes == 0 and not made.context.in_turn
    assert "async" not in text(made) and "turn" not in text(made)


def test_short_rows_are_not_taken_in_turn() -> None:
    kernels = rendered(Softmax(), torch.zeros(64, 1000)).kernels
    assert [kernel.ring_bytes for kernel in kernels] == [0]
