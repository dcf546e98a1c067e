"""Timing on this machine's processors by the two command lines, and the file they write."""

import json
import warnings
from pathlib import Path

import pytest

from aotpack.cli import main
from aotpack.errors import UsageError
from aotpack.runtime.tuning_file import Times
from aotpack.stages import Decisions
from aotpack.target import CPU
from aotpack.tune import read_decisions
from aotpack.tune.decisions import quickest
from tests.tune.packages import PackedWeight, file_of, opened, packed, preferring

MODEL = """
import torch
model = torch.nn.Linear(24, 40)
example_inputs = (torch.linspace(-1, 1, 72).reshape(3, 24),)
dynamic_shapes = {"input": {0: torch.export.Dim("b", min=1, max=64)}}
name = "line"
"""
SLOW, QUICK = 5.0, 2.0


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> PackedWeight:
    return packed("products", CPU, tmp_path_factory.mktemp("tune"), Decisions(2))


def test_the_command_lines_build_tune_and_build_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, file = tmp_path / "line.py", tmp_path / "tuning.json"
    model.write_text(MODEL)
    words = [str(model), "-o", str(tmp_path), "--target", "cpu"]
    assert main([*words, "--candidates", "2"]) == 0
    (wheel,) = tmp_path.glob("*.whl")
    capsys.readouterr()
    assert main(["tune", str(wheel), "-o", str(file)]) == 0
    told = capsys.readouterr().out.splitlines()[-1]
    assert told.startswith(f"{file}: another form is quicker in ")
    assert told.endswith(f"; build with --tuning {file}, or load(tuning=)")
    (one,) = json.loads(file.read_text())["measured"]
    assert one["target"] == "cpu" and len(one["choices"]) == 2
    assert main([*words, "--tuning", str(file)]) == 0
    assert "decided 2 choices" in capsys.readouterr().out
    assert main(["tune", str(wheel), "-o", str(file)]) == 1
    assert "Build it with --candidates 2 or more" in capsys.readouterr().err
    assert main([*words, "--tuning", str(model)]) == 2
    assert "it is not JSON" in capsys.readouterr().err


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_decisions(tmp_path / "none.json")


def test_noise_does_not_decide_and_devices_of_a_target_count_alike() -> None:
    key = "k x 1"
    place = ("sm_90", key)

    def taken(*devices: dict[str, float]) -> str:
        named = {(f"gpu {n}", "sm_90"): {key: (Times({}, d),)} for n, d in enumerate(devices)}
        return quickest(named)[place]

    assert taken({"k": 100.0, "n": 98.0}) == "k"
    assert taken({"k": 100.0, "n": 90.0}) == "n"
    assert taken({"k": 100.0, "n": 90.0}, {"k": 1.0, "n": 1.2}) == "k"
    assert taken({"k": 100.0, "n": 50.0}, {"k": 1.0, "n": 1.2}) == "n"
    assert taken({"k": 100.0, "n": 50.0}, {"k": 1.0}) == "k"
    assert quickest({("gpu", "sm_90"): {key: (Times({}, {"n": 1.0}),)}}) == {place: "n"}
    assert quickest({("gpu", "sm_90"): {key: ()}}) == {}
    two = (Times({"b": 1}, {"k": 1.0, "n": 1.5}), Times({"b": 9}, {"k": 9.0, "n": 4.0}))
    assert quickest({("gpu", "sm_90"): {key: two}}) == {place: "k"}


def test_a_file_that_chooses_nothing_is_a_warning(package: PackedWeight, tmp_path: Path) -> None:
    with opened(package) as model:
        own = preferring(model, 1, 5)
    ((place, choices),) = own.items()
    elsewhere = {("another", place[1]): choices}
    cases = {
        "no entry is of this package, but of others": {place: {"of_another x 1": ()}},
        r"it has times of another \(cpu\), and this is .*tune here too": elsewhere,
        "of this package": {},
    }
    for told, tuning in cases.items():
        file = file_of(tuning, tmp_path / "files")
        with pytest.warns(RuntimeWarning, match=f"{file} chooses nothing: .*{told}"):
            opened(package, file).close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        opened(package, file_of({**own, **elsewhere}, tmp_path / "files")).close()


def test_a_package_with_one_form_of_each_kernel_says_so(tmp_path: Path) -> None:
    package = packed("parted", CPU, tmp_path, Decisions(1))
    file = file_of({}, tmp_path / "files")
    with pytest.warns(RuntimeWarning, match="one form of every kernel; build it with --candidates"):
        opened(package, file).close()
