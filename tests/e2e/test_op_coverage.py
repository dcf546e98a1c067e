"""The coverage tool: verdicts on samples, processes that die or hang, and the page it writes."""

import argparse
import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from tools import op_coverage, op_law, op_report, op_samples, op_verdicts
from tools.op_samples import Sample, Task, Verdict

FAKE = Task("fake", "float32")


def verdicts(op: str, numbers: list[int]) -> list[Verdict]:
    return list(op_verdicts.examine(Task(op, "float32"), numbers, "cpu", lambda samples: None))


def test_samples_that_pass_and_samples_that_are_refused() -> None:
    assert verdicts("add", [0, 1]) == [Verdict(0, "passed"), Verdict(1, "passed")]
    (refused,) = verdicts("geqrf", [0])
    assert refused.outcome == "refused" and "has no lowering" in refused.words


def sample(eager: torch.Tensor, reference: torch.Tensor) -> Sample:
    return Sample(0, torch.neg, (), None, (eager,), (reference,))


@pytest.mark.parametrize(
    ("ours", "words"),
    [
        (torch.tensor([1.0, 2.5]), "off by 0.5"),
        (torch.tensor([1.0, float("nan")]), "off by nan"),
        (torch.tensor([1, 2]), "not torch.float32"),
        (torch.tensor([[1.0, 2.0]]), "the shape is"),
    ],
)
def test_wrong_answers_are_noticed(ours: torch.Tensor, words: str) -> None:
    eager = torch.tensor([1.0, 2.0])
    verdict = op_law.judged(sample(eager, eager.double()), [ours])
    assert verdict.outcome == "wrong" and words in verdict.words


@pytest.mark.parametrize(
    ("ours", "outcome"), [([1, 0, 2], "passed"), ([0, 0, 2], "wrong"), ([2, 0, 1], "wrong")]
)
def test_positions_may_name_any_of_equal_elements(ours: list[int], outcome: str) -> None:
    x, order = torch.tensor([1.0, 1.0, 3.0]), torch.tensor([0, 1, 2])
    one = Sample(0, torch.argsort, (x,), None, (order,), (order,), is_free=True)
    assert op_law.judged(one, [torch.tensor(ours)]).outcome == outcome


@pytest.mark.parametrize(
    ("off", "outcome"), [(1e-6, "passed"), (1e-2, "wrong"), (float("nan"), "wrong")]
)
def test_near_misses_are_judged_by_the_worst_draw(off: float, outcome: str) -> None:
    def eager(x: torch.Tensor) -> torch.Tensor:
        return x + (x.abs() < 0.999) * 1e-6 if x.dtype is torch.float32 else x

    x = torch.ones(4)
    one = Sample(0, eager, (x,), pytree.tree_structure((x, (), {})), (x,), (x.double(),))
    missed = Verdict(0, "wrong", "off by little")
    found = op_law.redrawn(lambda given: [x + off for x in given[0]], [[x]], 0, one, missed)
    assert found.outcome == outcome


def results(
    monkeypatch: pytest.MonkeyPatch, folder: Path, deed: Callable[[int], Any]
) -> dict[str, Any]:
    """The line the pool writes for a task of three samples; ``deed`` acts on the second."""

    def examine(
        task: Task, numbers: Sequence[int], target: str, tell: Callable[[Sequence[int]], None]
    ) -> Iterator[Verdict]:
        for number in numbers:
            tell([number])
            if number == 1:
                deed(number)
            yield Verdict(number, "passed")

    monkeypatch.setattr(op_coverage, "examine", examine)
    monkeypatch.setattr(op_coverage, "sample_inputs", lambda task: [None] * 3)
    monkeypatch.setattr(op_coverage, "PATIENCE", 2.0)
    options = argparse.Namespace(jobs=1, samples=0, target="cpu", verbose=False)
    with (folder / "results.jsonl").open("w") as out:
        op_coverage.Pool(options, out).run([FAKE])
    (line,) = (folder / "results.jsonl").read_text().splitlines()
    return dict(json.loads(line))


def test_a_sample_that_kills_its_process_is_recorded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    line = results(monkeypatch, tmp_path, lambda _: os.kill(os.getpid(), signal.SIGKILL))
    assert line["counts"] == {"passed": 2, "crash": 1}
    assert line["failures"][0]["sample"] == 1 and "SIGKILL" in line["failures"][0]["words"]


def test_a_sample_that_hangs_is_cut(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    line = results(monkeypatch, tmp_path, lambda _: time.sleep(60))
    assert line["counts"] == {"passed": 2, "hang": 1}


def test_page_counts_what_counts(tmp_path: Path) -> None:
    lines = [
        {"op": "add", "dtype": "float32", "counts": {"passed": 3}, "failures": []},
        {
            "op": "special.zeta",
            "dtype": "float32",
            "counts": {"refused": 1},
            "failures": [
                {
                    "sample": 0,
                    "outcome": "refused",
                    "words": "no | lowering of 7 in int64 (2 calls)",
                }
            ],
        },
        {
            "op": "empty",
            "dtype": "float32",
            "counts": {"wrong": 1},
            "failures": [{"sample": 0, "outcome": "wrong", "words": "off by 3"}],
        },
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert op_report.write_report(tmp_path, tmp_path / "page.md") == 0
    page = (tmp_path / "page.md").read_text()
    assert "**75.0 %**" in page
    assert "| 1 | no \\| lowering of N in int64 | `special.zeta` |" in page
    assert [line for line in page.splitlines() if len(line) > 120 and line[0] != "|"] == []
    lines[2]["op"] = "sub"
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert op_report.write_report(tmp_path, tmp_path / "page.md") == 1


def test_samples_are_spread_evenly() -> None:
    assert op_samples.chosen_numbers(3, 5) == [0, 1, 2]
    assert op_samples.chosen_numbers(10, 4) == [0, 2, 5, 7]
