"""Calls of a body that several share: text, meaning, and what is illegal."""

from dataclasses import replace

import numpy as np
import pytest

from aotpack.ir.interpret.evaluate import evaluate
from aotpack.ir.origin import Origin
from aotpack.ir.program import Call, Program, Update, in_place_pairs, read_whole
from aotpack.ir.verify.invalid import InvalidProgram
from aotpack.ir.verify.program import verify
from tests.ir.programs import F32, ROW, J, S, apply, buffer, load, over, program

BODY = replace(
    program(
        [buffer(name, F32, S, 8) for name in ("a", "w", "kept", "y", "new")],
        [
            over("y", (ROW, J), apply("add", load("a", ROW, J), load("w", ROW, J))),
            over("new", (ROW, J), apply("mul", load("a", ROW, J), load("kept", ROW, J))),
        ],
        inputs="a kept w",
    ),
    outputs=("y",),
    inputs=("a", "kept"),
    weights=("w",),
    updates=(Update("kept", "new"),),
)
NAMES = ("x", "s0", "s1", "v", "b0", "b1", "c0", "c1")
FIRST = Call(("b0", "c0"), ("x", "s0", "v"), BODY, Origin(("first",)))
SECOND = Call(("b1", "c1"), ("b0", "s1", "v"), BODY, Origin(("second",)))


def calling(*calls: Call) -> Program:
    whole = program([buffer(name, F32, S, 8) for name in NAMES], [*calls], inputs="x s0 s1 v")
    updates = (Update("s0", "c0"), Update("s1", "c1"))
    return replace(
        whole, inputs=("x", "s0", "s1"), weights=("v",), outputs=("b1",), updates=updates
    )


def test_each_call_computes_on_its_own_arguments() -> None:
    legal = calling(FIRST, SECOND)
    verify(legal)
    rows = {name: np.random.default_rng(n).random((2, 8), np.float32) for n, name in
            enumerate(("x", "s0", "s1", "v"))}  # fmt: skip
    found = evaluate(legal, rows, rows, {S.name: 2})
    first = rows["x"] + rows["v"]
    np.testing.assert_array_equal(found["b1"], first + rows["v"])
    np.testing.assert_array_equal(found["s0"], rows["x"] * rows["s0"])
    np.testing.assert_array_equal(found["s1"], first * rows["s1"])


def test_a_call_changes_what_its_body_updates() -> None:
    assert in_place_pairs(FIRST) == (("c0", "s0"),)
    assert "s0" in read_whole(FIRST)
    assert in_place_pairs(replace(FIRST, targets=("b0",), body=replace(BODY, updates=()))) == ()


def test_the_text_shows_a_body_once() -> None:
    text = str(calling(FIRST, SECOND))
    assert "call with a=b0, kept=s1, w=v for b1=y, c1=new:  # second\n    # as above" in text
    assert text.count("a[i, j] + w[i, j]") == 1


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        (replace(FIRST, arguments=("x", "s0")), "the body takes and gives"),
        (replace(FIRST, targets=("b0",)), "nothing writes c0"),
        (
            replace(FIRST, body=replace(
                BODY, buffers={**BODY.buffers, "w": buffer("w", F32, S, 9)})),
            r"w: float32\[s, 9\] of the body is v: float32\[s, 8\]",
        ),
        (
            replace(FIRST, body=replace(BODY, inputs=("a",), weights=("kept", "w"))),
            "the body updates the weight kept",
        ),
    ],
)  # fmt: skip
def test_calls_that_do_not_fit_their_body_are_refused(wrong: Call, match: str) -> None:
    with pytest.raises(InvalidProgram, match=match):
        verify(calling(wrong, SECOND))
