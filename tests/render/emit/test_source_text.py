"""Digests and comments: what tells two texts apart."""

import pytest

from aotpack.render.emit.source_text import digest, without_comments


@pytest.mark.parametrize("mark", ["#", "//"])
def test_lines_that_are_comments_do_not_count(mark: str) -> None:
    text = f"{mark} one\nx = 1\n    {mark} two\ny = 2 {mark} three\n"
    assert without_comments(text, mark) == f"x = 1\ny = 2 {mark} three\n"


def test_a_comment_of_another_language_is_a_line() -> None:
    assert without_comments("#pragma once\n", "//") == "#pragma once\n"


def test_digests_are_short_and_tell_texts_apart() -> None:
    assert len(digest("a")) == 8 and digest("a") == digest("a") != digest("b")
