"""Files of measured times: they merge, print in order, and say what is wrong with them."""

from pathlib import Path

import pytest

from aotpack.runtime.errors import AotpackError
from aotpack.runtime.tuning_file import Times, gain_text, merged, read_tuning, tuning_text

SLOW, QUICK = 5.0, 2.0


def test_files_merge_by_key_and_print_in_order(tmp_path: Path) -> None:
    old = {("a", "cpu"): {"k x 1": (Times({}, {"k": SLOW}),), "n x 1": (Times({}, {"n": SLOW}),)}}
    new = {("a", "cpu"): {"k x 1": (Times({"b": 1}, {"k": QUICK}),)}, ("b", "cpu"): {}}
    both = merged(old, new)
    assert both[("a", "cpu")] == old[("a", "cpu")] | new[("a", "cpu")]
    assert list(both) == [("a", "cpu"), ("b", "cpu")]
    (tmp_path / "t.json").write_text(tuning_text(both))
    assert read_tuning(tmp_path / "t.json") == both
    assert tuning_text(dict(reversed(both.items()))) == tuning_text(both)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("no", "it is not JSON"),
        ("[]", "another kind"),
        ("[" * 100_000, "nested too deeply"),
        ('{"schema": 1, "schema": 1}', "the key 'schema' is there twice"),
        ('{"schema": 2, "measured": []}', "it has schema 2"),
        ('{"schema": 1}', "an entry is missing"),
        (tuning_text({("a", "b"): {"k": (Times({}, {"k": 0.0}),)}}), "a time is not above 0"),
    ],
)
def test_other_files_are_refused(text: str, reason: str, tmp_path: Path) -> None:
    file = tmp_path / "tuning.json"
    file.write_text(text)
    with pytest.raises(AotpackError, match=reason):
        read_tuning(file)


def test_a_device_is_no_tuning_file() -> None:
    with pytest.raises(AotpackError, match="cannot be read"):
        read_tuning(Path("/dev/zero"))


def test_the_gain_is_a_sum_over_choices() -> None:
    quick = (Times({"b": 1}, {"k": SLOW, "n": QUICK}), Times({"b": 2}, {"k": SLOW, "n": QUICK}))
    slow = (Times({}, {"m": QUICK, "o": SLOW}),)
    found = {("a", "cpu"): {"k x 1": quick, "m x 1": slow}}
    told = "another form is quicker in 1 of 2 choices: 6.0 us in place of 12.0 us"
    assert gain_text(found) == told
    assert gain_text({("a", "cpu"): {"m x 1": slow}}) == "another form is quicker in 0 of 1 choices"
    assert gain_text({}) == "another form is quicker in 0 of 0 choices"
