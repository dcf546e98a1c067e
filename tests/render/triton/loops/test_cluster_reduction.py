"""A cluster reduces a row: who tells what to whom, in which order, and who need not."""

from dataclasses import replace

import pytest

from aotpack.ir.kernels.tiles import ReductionTile
from aotpack.render.triton.loops.cluster_reduction import ClusterReduction
from aotpack.render.triton.loops.loops import loop_kernel
from tests.render.triton.loops.rows import (
    IN_LOOPS,
    IN_REGISTERS,
    LENGTH,
    ROWS,
    shares,
    shares_on,
    text,
)
from tests.schedule.programs import Writer, load, schedule_of

PART = replace(IN_REGISTERS, r=512, cluster_size=2)


def test_states_are_sent_between_what_is_expected_and_what_is_awaited() -> None:
    lines = text(shares_on(PART)).splitlines()
    start = lines.index("cluster_wait()")
    assert lines[0] == "mailbox = open_mailbox()"
    assert lines[start + 1] == "mbarrier_expect(mailbox + 0, 8)"  # a word of each program
    assert lines[start + 2].startswith("send_32(mailbox + 8, mailbox + 0, ")
    assert lines[start + 3] == "mbarrier_wait(mailbox + 0, 0)"
    assert "receive_32(mailbox + 8)" in lines[start + 4]


def test_each_reduction_has_a_slot_and_all_meet_once() -> None:
    w = Writer()
    x = w.input("x", ROWS, LENGTH)
    sums = w.reduction("s", [ROWS], [LENGTH], lambda i, r: load(x, i, r))
    top = w.reduction("t", [ROWS], [LENGTH], lambda i, r: load(x, i, r), kind="max")
    schedule = schedule_of(w.program(sums, top), 90)
    (kernel,) = schedule.kernels
    made = loop_kernel(schedule, kernel, PART)
    assert text(made).count("cluster_wait()") == 1
    assert text(made).count("mbarrier_expect(") == 2
    opened = made.builder.functions["open_mailbox"]
    assert "[$0 + 0], 1;" in opened and "[$0 + 16], 1;" in opened and "mailbox[32]" in opened


@pytest.mark.parametrize("tile", [PART, replace(IN_LOOPS, cluster_size=2)])
def test_a_part_begins_behind_those_before_it(tile: ReductionTile) -> None:
    made = shares_on(tile)
    assert made.context.cluster is not None and made.context.cluster.length == str(LENGTH // 2)
    assert ("first + " in text(made)) is (not tile.persistent)  # else the template says so


@pytest.mark.parametrize("tile", [IN_REGISTERS, IN_LOOPS])
def test_whole_rows_need_no_mailbox(tile: ReductionTile) -> None:
    made = shares_on(tile)
    assert made.context.cluster is None and "mailbox" not in text(made)
    assert not {"open_mailbox", "cluster_wait"} & made.builder.functions.keys()


def test_stages_lie_one_behind_the_other() -> None:
    made = shares_on(PART)
    ClusterReduction(shares()[1], 2, stages=2).open(made.builder)
    opened = made.builder.functions["open_mailbox"]
    assert "[$0 + 0], 1;" in opened and "[$0 + 16], 1;" in opened and "mailbox[32]" in opened
