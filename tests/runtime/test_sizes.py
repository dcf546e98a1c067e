from typing import Any

import pytest

from aotpack.runtime.errors import PackageError
from aotpack.runtime.files.schema import Mismatch
from aotpack.runtime.sizes import Size


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (5, 5),
        ("s", 7),
        ("2*s + b - 1", 16),
        ("(s + 15)//16*16", 16),
        ("-s%4", 1),
        ("min(s, b) + max(s, b, 20)", 23),
    ],
)
def test_evaluate(text: int | str, value: int) -> None:
    assert Size(text).evaluate({"s": 7, "b": 3}) == value


def test_solve() -> None:
    assert Size("2*s + b").solve("s", 17, {"b": 3}) == 7
    assert Size("2*s + b").solve("s", 18, {"b": 3}) is None
    assert Size("s//2").solve("s", 3, {}) is None


@pytest.mark.parametrize(
    "text",
    [
        *("s//0", "s%0", "1//(2-2)", "-" * 5000 + "s", "9" * 30, "1 + " * 400 + "s", "s" * 100_001),
        *("s.real", "open('f')", "s**9", "lambda: 0", "s if s else 1", "1.5", "s +", "min(s)"),
    ],
)
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(Mismatch, match="cannot be read: .*accepted: sizes, integers"):
        Size(text)


def test_a_division_by_zero_at_some_size_is_an_error_of_the_package() -> None:
    assert Size("8//(s - 1)").evaluate({"s": 3}) == 4
    with pytest.raises(PackageError, match=r"it divides by zero for \{'s': 1\}"):
        Size("8//(s - 1)").evaluate({"s": 1})


@pytest.mark.parametrize("entry", [True, None, 1.5, [1], {}])
def test_what_is_no_text_and_no_integer_is_refused(entry: Any) -> None:
    with pytest.raises(Mismatch, match="accepted: an integer, or a size expression"):
        Size(entry)
