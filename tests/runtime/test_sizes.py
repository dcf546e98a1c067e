import pytest

from aotpack.runtime.errors import PackageError
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
    "text", ["s.real", "open('f')", "s**9", "lambda: 0", "s if s else 1", "1.5", "s +", "min(s)"]
)
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(PackageError, match="the size .* cannot be read"):
        Size(text)
