"""Timing on this machine's processors by the two command lines, and the file they write."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from aotpack.cli import main
from aotpack.errors import UsageError
from aotpack.runtime.devices.timing import hardware
from aotpack.runtime.errors import AotpackError
from aotpack.runtime.plan import Launch, Plan, first
from aotpack.runtime.safetensors import read_safetensors
from aotpack.runtime.tuning import tune_sizes
from aotpack.runtime.tuning.tune import tune
from aotpack.runtime.tuning.tune_sizes import main_sizes, single_sizes
from aotpack.runtime.tuning_file import Times, merged, read_tuning, tuning_text
from aotpack.stages import Decisions
from aotpack.target import CPU
from aotpack.tune import read_decisions
from aotpack.tune.decisions import quickest
from tests.tune.packages import PackedWeight, opened, packed

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


@pytest.mark.row("C:K1", "S:N7")
def test_every_form_of_every_choice_is_timed(package: PackedWeight) -> None:
    lines: list[str] = []
    ((place, choices),) = tune(package.folder, "cpu", report=lines.append).items()
    with opened(package) as model:
        assert place == (hardware(model.device), "cpu")
        assert tuple(choices) == model.manifest.choices
    assert len(lines) == len(choices) == 4
    for key, (times,) in choices.items():
        assert times.sizes == {"b": 5 if "while b <= 16" in key else 64}
        assert len(times.microseconds) == 2 and min(times.microseconds.values()) > 0
        assert key.split(" x ")[0] in times.microseconds


def test_sizes_are_the_example_s_the_largest_and_powers_of_two(package: PackedWeight) -> None:
    golden = read_safetensors(package.folder / "golden.safetensors")
    with opened(package) as model:
        assert main_sizes(model, golden) == [{"b": 5}, {"b": 64}]
        sizes = [sizes["b"] for sizes in single_sizes(model, {"b": 5})]
    assert sizes == [1, 2, 4, 8, 16, 32, 64]


def test_what_takes_long_is_not_timed(
    package: PackedWeight, monkeypatch: pytest.MonkeyPatch
) -> None:
    golden = read_safetensors(package.folder / "golden.safetensors")
    monkeypatch.setattr(tune_sizes, "_HOST", tune_sizes.Limits(1e9, 2 * 16 * 2 * 40 * 24))
    with opened(package) as model:
        assert main_sizes(model, golden) == [{"b": 5}, {"b": 16}]
        assert [sizes["b"] for sizes in single_sizes(model, {"b": 5})] == [1, 2, 4, 8, 16]


@pytest.mark.row("S:N3")
def test_a_form_that_spills_is_taken_only_where_all_do(tmp_path: Path) -> None:
    package = packed("products", CPU, tmp_path, Decisions(2))
    key = package.product.rendered.choices[0]
    fused = key.split(" x ")[0]

    def timed(spilling: list[str]) -> tuple[set[str], str]:
        """The forms that have times, and the one that is taken."""
        file = package.folder / "manifest.json"
        manifest = json.loads(file.read_text())
        for name in spilling:
            manifest["kernels"][name]["binaries"]["cpu"]["spills"] = 256
        file.write_text(json.dumps(manifest))
        found = tune(package.folder, "cpu")
        (choices,) = found.values()
        return set(choices[key][0].microseconds), quickest(found)["cpu", key]

    names, taken = timed([fused])
    assert names == {taken} != {fused}
    names, _ = timed([kernel.name for kernel in package.product.rendered.kernels])
    assert names == {taken, fused}


def test_the_command_lines_build_tune_and_build_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, file = tmp_path / "line.py", tmp_path / "tuning.json"
    model.write_text(MODEL)
    words = [str(model), "-o", str(tmp_path), "--target", "cpu"]
    assert main([*words, "--candidates", "2"]) == 0
    (wheel,) = tmp_path.glob("*.whl")
    assert main(["tune", str(wheel), "-o", str(file)]) == 0
    (one,) = json.loads(file.read_text())["measured"]
    assert one["target"] == "cpu" and len(one["choices"]) == 2
    assert main([*words, "--tuning", str(file)]) == 0
    assert "decided 2 choices" in capsys.readouterr().out
    assert main(["tune", str(wheel), "-o", str(file)]) == 1
    assert "Build it with --candidates 2 or more" in capsys.readouterr().err
    assert main([*words, "--tuning", str(model)]) == 2
    assert "it is not JSON" in capsys.readouterr().err


def test_the_package_tunes_itself_without_compilers(package: PackedWeight, tmp_path: Path) -> None:
    file = tmp_path / "own.json"
    program = (
        "import runpy, sys\n"
        "for name in ('torch', 'triton', 'aotpack', 'cuda', 'jinja2'): sys.modules[name] = None\n"
        f"sys.argv = ['products', 'tune', '-o', {str(file)!r}]\n"
        "runpy.run_module('products', run_name='__main__')"
    )
    command = [sys.executable, "-B", "-c", program]
    subprocess.run(command, check=True, cwd=package.folder.parent, env={}, capture_output=True)
    ((_, choices),) = read_tuning(file).items()
    assert len(choices) == 4


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
    with pytest.raises(UsageError, match=reason):
        read_decisions(file)


def test_a_missing_file_and_no_candidates_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_decisions(tmp_path / "none.json")
    with pytest.raises(UsageError, match="candidates=0; accepted: 1 or more"):
        read_decisions(None, 0)


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


def test_several_launches_at_one_place_share_its_number() -> None:
    a, b, c = (Launch(name, (1, 1, 1), ()) for name in "abc")
    plan = Plan((), (), (first("key", (a, b), c), c))
    assert list(plan.steps()) == [(0, a), (0, b), (1, c)]
