"""What a loop kernel is built with: parts of rows, and what is forgotten between passes."""

from dataclasses import replace

from aotpack.ir.symbolic.integers import Int
from aotpack.render.triton.loops.loop_builder import WholeRow
from tests.render.triton.loops.rows import IN_REGISTERS, LENGTH, shares_on
from tests.schedule.programs import BF16, F32

PART = replace(IN_REGISTERS, r=512, cluster_size=2)


def test_a_program_has_its_share_of_a_row() -> None:
    assert shares_on(IN_REGISTERS).builder.length == Int.of(LENGTH)
    assert shares_on(PART).builder.length == Int.of(LENGTH // 2)


def test_a_whole_row_is_as_it_is() -> None:
    share, builder = WholeRow(), shares_on(IN_REGISTERS).builder
    (reduction,) = builder.kernel.reductions
    lines = list(builder.root.lines())
    share.open(builder)
    assert share.merged(builder, reduction, ["t1"]) == ["t1"] and share.in_row("rest") == "rest"
    assert list(builder.root.lines()) == lines


def test_packed_rows_alone_are_forgotten() -> None:
    for dtype, is_packed in ((BF16, True), (F32, False)):
        builder = shares_on(PART, dtype).builder
        count = len(builder.root.names)
        builder.forget()
        assert (len(builder.root.names) < count) is is_packed
