"""A model without inputs: built, verified, timed and called."""

from pathlib import Path

import pytest

from aotpack.cli import main

MODEL = """
import torch

class Table(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.rows = torch.nn.Parameter(torch.arange(6.0).view(2, 3))

    def forward(self):
        return {"twice": self.rows * 2, "most": self.rows.argmax(1)}

model = Table()
example_inputs = ()
"""


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    file = tmp_path / "table_model.py"
    file.write_text(MODEL)
    words = [str(file), "-o", str(tmp_path), "--name", "table", "--target", "cpu"]
    assert main(words) == 0
    return next(tmp_path.glob("*.whl"))


def test_every_verb_takes_it(wheel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(wheel), "--device", "cpu"]) == 0
    assert "largest error 0" in capsys.readouterr().out
    file = str(wheel.parent / "table_model.py")
    assert main(["verify", str(wheel), "--against", file, "--device", "cpu"]) == 0
    assert main(["inspect", str(wheel)]) == 0
    assert "float32[2, 3]" in capsys.readouterr().out
    assert main(["bench", str(wheel), "--repeat", "1", "--device", "cpu"]) == 0


def test_a_wrong_weight_fails(wheel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = wheel.parent / "table_model.py"
    file.write_text(MODEL.replace("arange(6.0)", "arange(1.0, 7.0)"))
    words = ["verify", str(wheel), "--against", str(file), "--device", "cpu"]
    assert main(words) == 1
    assert "WRONG" in capsys.readouterr().out
