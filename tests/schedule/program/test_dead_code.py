"""Dead code: what no output needs is gone."""

import pytest

from aotpack.schedule.program.dead_code import remove_dead_code
from tests.schedule.programs import Writer, apply, load


@pytest.mark.row("S:L15", "S:inv17")
def test_drops_what_no_output_reads() -> None:
    w = Writer()
    x = w.input("x", 4)
    unread = w.pointwise("unread", [4], lambda i: apply("exp", load(x, i)))
    w.pointwise("further", [4], lambda i: apply("exp", load(unread, i)))
    y = w.pointwise("y", [4], lambda i: apply("neg", load(x, i)))
    program = remove_dead_code(w.program(y))
    assert [operation.target for operation in program.operations] == ["y"]
    assert list(program.buffers) == ["x", "y"]


def test_keeps_unread_inputs_and_weights() -> None:
    w = Writer()
    x, unread, weight = w.input("x", 4), w.input("unread", 4), w.weight("w", 4)
    w.pointwise("dead", [4], lambda i: load(unread, i))
    y = w.pointwise("y", [4], lambda i: load(x, i))
    program = remove_dead_code(w.program(y))
    assert {unread.name, weight.name} <= set(program.buffers)


@pytest.mark.row("S:inv18")
def test_nothing_dead_is_the_same_object() -> None:
    w = Writer()
    x = w.input("x", 4)
    y = w.pointwise("y", [4], lambda i: load(x, i))
    program = w.program(y)
    assert remove_dead_code(program) is program
