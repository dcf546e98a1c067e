"""Calls of foreign kernels in the IR: how they print, and what makes them illegal."""

from dataclasses import replace

import pytest

from aotpack.ir.dtypes import DType
from aotpack.ir.foreign import ENTRY, Configuration, Foreign, TritonKernel
from aotpack.ir.origin import Origin
from aotpack.ir.program import Buffer, Operation, Program, in_place_pairs, reads, targets
from aotpack.ir.symbolic.integers import Int
from aotpack.ir.verify.program import InvalidProgram, verify

KERNEL = TritonKernel(
    "copy", f"def {ENTRY}(x, y): copy(x, y, 4)", (("x", None), ("y", None), ("n", "4")), 4, 3
)
ONE = Int.of(1)
CALL = Foreign(("y",), ("b",), KERNEL, ("x", "y"), (ONE, ONE, ONE), Origin())


def program(call: Operation) -> Program:
    shapes = {"x": 4, "b": 4, "short": 3, "y": 4}
    buffers = {n: Buffer(n, DType.FLOAT32, (Int.of(size),)) for n, size in shapes.items()}
    return Program((), buffers, ("x", "b", "short"), (), (call,), ("y",))


def test_what_a_call_touches() -> None:
    assert (targets(CALL), reads(CALL), in_place_pairs(CALL)) == (("y",), ("b", "x"), (("y", "b"),))
    assert in_place_pairs(replace(CALL, bases=(None,))) == ()


@pytest.mark.row("S:A2")
def test_it_prints_as_a_launch() -> None:
    assert "once:\n    y = b\n    copy[(1, 1, 1)](x=x, y=y, n=4)" in str(program(CALL))


@pytest.mark.row("S:A2")
def test_it_prints_its_other_configurations() -> None:
    other = replace(KERNEL, parameters=(*KERNEL.parameters[:2], ("n", "8")))
    call = replace(CALL, others=(Configuration(other, (Int.of(2), ONE, ONE)),))
    assert "(x=x, y=y, n=4)\n    or copy[(2, 1, 1)](n=8)" in str(program(call))


def test_its_text_has_the_name_that_is_asked_for() -> None:
    assert KERNEL.text("copy_1") == "def copy_1(x, y): copy(x, y, 4)"
    assert KERNEL.passed == ("x", "y")


@pytest.mark.row("S:A4")
@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            replace(CALL, others=(Configuration(replace(KERNEL, parameters=()), CALL.grid),)),
            "copy takes 2 arguments, its targets among them",
        ),
        (replace(CALL, arguments=("x",)), "copy takes 2 arguments, its targets among them"),
        (replace(CALL, arguments=("x", "b")), "copy takes 2 arguments, its targets among them"),
        (replace(CALL, bases=("short",)), "is no version of short"),
        (replace(CALL, bases=("gone",)), "gone is not declared"),
    ],
)
def test_illegal_calls_are_refused(call: Foreign, words: str) -> None:
    verify(program(CALL))
    with pytest.raises(InvalidProgram, match=words):
        verify(program(call))


def test_what_a_call_reads_has_no_order_of_its_own() -> None:
    legal = program(CALL)
    other = replace(legal.buffers["x"], order=(0,))
    with pytest.raises(InvalidProgram, match="reads x of order"):
        verify(replace(legal, buffers={**legal.buffers, "x": other}))
