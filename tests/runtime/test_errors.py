"""Suggestions in messages."""

import pytest

from aotpack.runtime.errors import did_you_mean

VERBS = ("build", "inspect", "verify")


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ("biuld", "; did you mean 'build'?"),
        ("VERIFY", "; did you mean 'verify'?"),
        ("insepct", "; did you mean 'inspect'?"),
    ],
)
def test_a_near_name_is_suggested(found: str, told: str) -> None:
    assert did_you_mean(found, VERBS) == told


@pytest.mark.parametrize("found", ["", "x", "model.py"])
def test_a_distant_name_suggests_nothing(found: str) -> None:
    assert did_you_mean(found, VERBS) == ""
