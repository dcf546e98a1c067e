"""The complete text of a user's kernel: its definitions, and an entry for what a launch passes."""

from aotpack.ir.foreign import ENTRY
from aotpack.trace.triton.triton_source import TritonSource


def test_the_entry_has_the_passed_parameters_alone() -> None:
    text = TritonSource().with_entry("copy", (("x", None), ("y", None), ("n", "4")))
    assert f"def {ENTRY}(x, y):" in text
    assert "copy(x=x, y=y, n=4)" in text
    assert text.startswith("import triton\nimport triton.language as tl\n")


def test_a_constant_that_is_passed_becomes_a_parameter() -> None:
    text = TritonSource().with_entry("copy", (("x", None), ("n", None)))
    assert f"def {ENTRY}(x, n):" in text and "copy(x=x, n=n)" in text
