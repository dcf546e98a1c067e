"""``verify --against`` takes a model with the wheel's signature, and tells what differs."""

from pathlib import Path

import pytest

from aotpack.cli import main

MODEL = """
import torch

class Both(torch.nn.Module):
    def forward(self, x, k):
        return (x * k).relu(), (x > 0).sum(0)

model = Both()
example_inputs = (torch.linspace(-1, 1, 12).reshape(4, 3), torch.tensor(1.5))
name = "both"
"""
METHODS = """
import torch
from aotpack import Method

x = torch.linspace(-1, 1, 12).reshape(4, 3)

class Two(torch.nn.Module):
    def sums(self, x):
        return x.sum(1)

    def signs(self, x):
        return x > 0

two = Two()
methods = {"sums": Method(two.sums, (x,)), "signs": Method(two.signs, (x,))}
name = "two"
"""
CLASSES = """
from dataclasses import dataclass
from typing import NamedTuple
import torch

class Pair(NamedTuple):
    least: torch.Tensor
    most: torch.Tensor

class Ends(torch.nn.Module):
    def forward(self, x):
        return Pair(x.amin(1), x.amax(1))

model, example_inputs, name = Ends(), (torch.linspace(-1, 1, 12).reshape(4, 3),), "ends"
"""
FIRST, SECOND = "(x * k).relu()", "(x > 0).sum(0)"
ROWS = "--dynamic", "x:0=batch[2:8]"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of the model for a number of batch."""
    folder = tmp_path_factory.mktemp("against")
    file = folder / "both_model.py"
    file.write_text(MODEL)
    assert main([str(file), "-o", str(folder), "--target", "cpu", *ROWS]) == 0
    return next(folder.glob("*.whl"))


def compared(wheel: Path, place: Path, text: str, *words: str) -> int:
    """The exit code of a comparison with the model in ``text``."""
    (place / "given.py").write_text(text)
    given = str(place / "given.py")
    return main(["verify", str(wheel), "--device", "cpu", "--against", given, *words])


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("", "", ROWS),
        ("(-1, 1, 12).reshape(4, 3)", "(-2, 1, 18).reshape(6, 3)", ()),
        ("torch.tensor(1.5))", "torch.tensor(0.5))", ("--dynamic", "x:0=others[2:4]")),
    ],
    ids=["same", "other size", "other name and range"],
)
def test_a_model_alike_is_compared(
    wheel: Path, tmp_path: Path, old: str, new: str, words: tuple[str, ...]
) -> None:
    assert compared(wheel, tmp_path, MODEL.replace(old, new), *words) == 0


FILTERED = """
import torch

class Filtered(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gains = torch.nn.Parameter(torch.ones(17))

    def forward(self, x):
        return torch.fft.irfft(torch.fft.rfft(x) * self.gains)

model, example_inputs, name = Filtered(), (torch.linspace(-1, 1, 64).reshape(2, 32),), "filtered"
"""


def test_tables_of_the_lowering_are_no_weights_of_the_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "model.py").write_text(FILTERED)
    assert main([str(tmp_path / "model.py"), "-o", str(tmp_path), "--target", "cpu"]) == 0
    (wheel,) = tmp_path.glob("*.whl")
    assert compared(wheel, tmp_path, FILTERED) == 0
    assert compared(wheel, tmp_path, FILTERED.replace("gains", "factors")) == 2
    assert "its weights include gains, which" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("first", "second", "ours", "theirs"),
    [
        (".double()", "", "'output0' is float32[batch, 3]", "float64[4, 3]"),
        (".bfloat16()", "", "'output0' is float32[batch, 3]", "bfloat16[4, 3]"),
        ("[:1]", "", "'output0' is float32[batch, 3]", "float32[1, 3]"),
        ("[None]", "", "'output0' is float32[batch, 3]", "float32[1, 4, 3]"),
        ("", ".int()", "'output1' is int64[3]", "int32[3]"),
        (", -x", "", "returns (output0, output1)", "(output0, output1, output2)"),
    ],
)
def test_other_results_fail(
    wheel: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    first: str,
    second: str,
    ours: str,
    theirs: str,
) -> None:
    other = MODEL.replace(FIRST, FIRST + first).replace(SECOND, SECOND + second)
    assert compared(wheel, tmp_path, other) == 1
    assert f"{ours}; {tmp_path / 'given.py'} has {theirs}. Give" in capsys.readouterr().err


def test_another_structure_fails(
    wheel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = MODEL.replace(f"{FIRST}, {SECOND}", f"{{'output0': {FIRST}, 'output1': {SECOND}}}")
    assert compared(wheel, tmp_path, other) == 1
    error = capsys.readouterr().err
    assert "it returns (output0, output1); " in error
    assert "has {'output0': output0, 'output1': output1}. Give" in error


def test_another_class_of_the_same_name_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "ends_model.py"
    file.write_text(CLASSES)
    assert main([str(file), "-o", str(tmp_path), "--target", "cpu"]) == 0
    (wheel,) = tmp_path.glob("*.whl")
    assert compared(wheel, tmp_path, CLASSES) == 0
    other = CLASSES.replace("class Pair(NamedTuple)", "@dataclass\nclass Pair")
    other += "torch.export.register_dataclass(Pair)\n"
    assert compared(wheel, tmp_path, other) == 1
    error = capsys.readouterr().err
    assert "are Pair, a named tuple of least, most; " in error
    assert "has Pair, a dataclass of least, most. Give" in error


@pytest.mark.parametrize(
    ("old", "new", "words", "told"),
    [
        ("tensor(1.5)", "tensor(1.5, dtype=torch.float64)", (), "argument 'k' is float32[]"),
        ("reshape(4, 3)", "reshape(1, 4, 3)", (), "argument 'x' is float32[batch, 3]"),
        ("reshape(4, 3)", "reshape(3, 4)", (), "has size 4 in dimension 1; accepted: 3"),
        ("reshape(4, 3)", "repeat(3).reshape(12, 3)", (), "makes batch 12"),
        ("torch.tensor(1.5))", "1.5)", (), "its inputs are x, k"),
        ("", "", ("--dtype", "bfloat16"), "with the same --dtype as the build"),
    ],
)
def test_other_inputs_are_refused(
    wheel: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    old: str,
    new: str,
    words: tuple[str, ...],
    told: str,
) -> None:
    assert compared(wheel, tmp_path, MODEL.replace(old, new, 1), *words) == 2
    error = capsys.readouterr().err
    assert told in error and "astype" not in error


@pytest.mark.parametrize(
    "words", [("--dtype", "bfloat16"), ("--strict",), ROWS, ("--fallback=torch",)]
)
def test_tracing_options_need_a_model(
    wheel: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    assert main(["verify", str(wheel), "--device", "cpu", *words]) == 2
    option = words[0].partition("=")[0]
    assert f"{option} says how the model of --against is traced" in capsys.readouterr().err


def test_a_gpu_for_a_package_of_processors_names_the_option(
    wheel: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", str(wheel), "--device", "0"]) == 1
    assert "on a command line --device cpu." in capsys.readouterr().err


def test_each_method_is_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "two_model.py"
    file.write_text(METHODS)
    assert main([str(file), "-o", str(tmp_path), "--target", "cpu"]) == 0
    (wheel,) = tmp_path.glob("*.whl")
    assert compared(wheel, tmp_path, METHODS) == 0
    assert compared(wheel, tmp_path, METHODS.replace("x > 0", "(x > 0).int()")) == 1
    told = "method 'signs': its result 'output0' is bool[4, 3]; "
    assert told in capsys.readouterr().err
    assert compared(wheel, tmp_path, METHODS.replace('"signs":', '"other":')) == 2
    told = f"it has the methods signs, sums; {tmp_path / 'given.py'} has the methods sums, other. G"
    assert told in capsys.readouterr().err
    assert compared(wheel, tmp_path, MODEL) == 2
    assert "given.py has one forward and no methods. Give the model" in capsys.readouterr().err


QUANTIZED = """
import torch

torch.manual_seed(0)
model = torch.nn.Linear(16, 8)
example_inputs = (torch.linspace(-1, 1, 32).reshape(2, 16),)
name = "quantized"
"""


def test_a_quantised_wheel_is_compared_with_a_quantised_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "quantized_model.py"
    file.write_text(QUANTIZED)
    how = ("--quantize", "int8")
    assert main([str(file), "-o", str(tmp_path), "--target", "cpu", *how]) == 0
    (wheel,) = tmp_path.glob("*.whl")
    assert compared(wheel, tmp_path, QUANTIZED, *how) == 0
    assert compared(wheel, tmp_path, QUANTIZED) == 2
    error = capsys.readouterr().err
    assert "its weights include weight_codes" in error and "the --quantize of the build" in error
