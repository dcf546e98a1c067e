"""JSON that all readers understand alike, and text that they do not."""

import pytest

from aotpack.runtime.files.strict_json import parse_json


def test_values_are_read() -> None:
    text = b'{"a": [1, 2.5, true, null, "\xc3\xa9"]}'
    assert parse_json(text) == {"a": [1, 2.5, True, None, "é"]}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b'{"a": 1, "b": 2, "a": 3}', "the key 'a' is there twice"),
        (b'{"a": NaN}', "NaN is no number in JSON"),
        (b"[-Infinity]", "-Infinity is no number"),
        (b'{"a": "\xff"}', "byte 7 is not UTF-8"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[1, 2", "Expecting"),
        (b"[" + b"9" * 5000 + b"]", "an integer has too many digits"),
        (b"\xef\xbb\xbf[1]", "it begins with a byte order mark"),
        ("[1]".encode("utf-16"), "byte 0 is not UTF-8"),
    ],
)
def test_what_readers_disagree_about_is_refused(text: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_json(text)
