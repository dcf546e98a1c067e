"""A short run of the fuzzer of the parsers, and what it makes of a parser that is not strict."""

import argparse
import json
from pathlib import Path

import pytest

from tools.fuzz_parsers import by_lines, main
from tools.fuzz_targets import Target, changed_bytes, changed_json


def test_nothing_but_errors_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--runs", "60", "--engine", "lines"]) == 0
    *workers, last = capsys.readouterr().out.splitlines()
    assert last == "0 of 3 workers failed"
    assert [line.split()[-1] for line in workers] == ["ok"] * 3


def test_a_parser_that_trusts_its_input_is_found(tmp_path: Path) -> None:
    def trusting(data: bytes) -> None:
        sum(json.loads(data)["shape"])

    seeds = (b'{"shape": [1, 2], "name": "x"}',)
    options = argparse.Namespace(seed=0, runs=500, seconds=60, folder=tmp_path)
    structured = Target(trusting, seeds, lambda data, rng: changed_json(data, rng, (), 0))
    with pytest.raises((KeyError, TypeError)):
        by_lines(structured, options)
    with pytest.raises(ValueError, match=r"Expecting|Invalid|Unterminated|Extra|decode"):
        by_lines(Target(trusting, seeds, changed_bytes), options)
    assert (tmp_path / "input").read_bytes() != seeds[0]
