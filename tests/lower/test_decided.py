"""What a decision reads in 16 bits is rounded, for all readers."""

import pytest

from aotpack.ir.program import Program
from aotpack.lower.decided import with_rounded_reads
from tests.schedule.programs import BF16, F32, Writer, apply, load


def program() -> Program:
    w = Writer()
    a, b = w.input("a", 8, dtype=BF16), w.input("b", 8, dtype=BF16)
    y = w.pointwise("y", [8], lambda i: apply("add", load(a, i), load(b, i)), dtype=BF16)
    v = w.pointwise("v", [8], lambda i: apply("neg", load(y, 7 - i)), dtype=BF16)
    z = w.pointwise("z", [8], lambda i: apply("exp", load(y, i)), dtype=F32)
    return w.program(w.pointwise("m", [8], lambda i: apply("floor", load(v, i))), z)


def rounded(decided: str) -> list[str]:
    """The texts of what is read rounded."""
    before = program()
    after = with_rounded_reads(before.operations, {decided}, before.buffers)
    text = "\n".join(map(str, (op.value for op in after)))  # type: ignore[union-attr]
    return [name for name in ("a", "y", "v") if f"round_bfloat16({name}[" in text]


@pytest.mark.parametrize(
    ("decided", "wanted"), [("v", ["y", "v"]), ("y", ["y"]), ("a", []), ("m", [])]
)
def test_reads_of_it_and_of_what_it_moves_are_rounded(decided: str, wanted: list[str]) -> None:
    assert rounded(decided) == wanted


def test_without_decisions_nothing_changes() -> None:
    before = program()
    assert with_rounded_reads(before.operations, set(), before.buffers) == before.operations
