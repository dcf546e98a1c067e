"""A wrong answer is traced to the pass that made it; right passes are not accused."""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import torch

from aotpack.ir.kernels.kernel import Kernel
from aotpack.ir.program import Program
from aotpack.ir.rewrite import Rewriter, map_values
from aotpack.ir.values import Apply, Value
from aotpack.pipeline import Build, Source
from aotpack.schedule import PASSES
from aotpack.schedule.fusion.fuse import fuse
from aotpack.schedule.program.gelu import recognise_gelu
from aotpack.schedule.program.realize import realize
from aotpack.stages import Lowered, Rendered
from tests.e2e.models import Function
from tests.schedule.programs import numbered
from tools.bisect_pass import first_wrong, main

X = torch.linspace(-2, 2, 24).reshape(4, 6)


def lowered() -> Lowered:
    """Two kernels: a sum over rows, of what is then summed over columns."""
    return Build(
        Source(Function(lambda x: ((x.exp() + 1).cumsum(1) * 0.5).sum(0), 1), (X,))
    ).lowered


def halves_doubled(program: Program) -> Program:
    """Takes a product for a sum."""

    def change(value: Apply) -> Value | None:
        return Apply("add", value.args, value.dtype) if value.op == "mul" else None

    operations = (map_values(o, Rewriter({}, apply=change)) for o in program.operations)
    return replace(program, operations=tuple(operations))


def wrong_realize(program: Program) -> Program:
    return halves_doubled(realize(program))


def wrong_gelu(program: Program) -> Program:
    return recognise_gelu(halves_doubled(program))


def wrong_fuse(program: Program) -> tuple[Kernel, ...]:
    """Kernels of another program than the draft's."""
    return fuse(halves_doubled(program))


def backwards(program: Program, kernels: tuple[Kernel, ...]) -> tuple[Kernel, ...]:
    return kernels[::-1]


def test_right_passes_are_not_accused() -> None:
    assert first_wrong(lowered()) == ""
    assert first_wrong(lowered(), deterministic=True) == ""


@pytest.mark.parametrize(
    ("name", "function", "words"),
    [
        ("realize", wrong_realize, "output0: error"),
        ("recognise_gelu", wrong_gelu, "output0: error"),
        ("fuse", wrong_fuse, "output0: error"),
        ("order_kernels", backwards, "illegal: kernel "),
    ],
)
def test_a_planted_fault_is_found(name: str, function: Callable[..., Any], words: str) -> None:
    found = first_wrong(lowered(), passes=PASSES.replaced(name, function))
    assert found.startswith(f"wrong after pass {numbered(name)}: {words}")


def test_a_wrong_lowering_is_no_fault_of_a_pass() -> None:
    right = lowered()
    wrong = replace(right, program=halves_doubled(right.program))
    assert first_wrong(wrong).startswith("wrong after lowering: output0: error")


MODEL = """
import torch

model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.GELU()).{type}()
example_inputs = (torch.linspace(-2, 2, 24).reshape(4, 6).{type}(),)
dynamic_shapes = {{"input": {{0: torch.export.Dim("b", min=1, max=9)}}}}
"""


@pytest.mark.parametrize(("type", "target"), [("float", "interpreter"), ("bfloat16", "cpu")])
def test_one_command_asks_the_passes_and_the_target(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], type: str, target: str
) -> None:
    (tmp_path / "model.py").write_text(MODEL.format(type=type))
    assert main([str(tmp_path / "model.py"), "--target", target]) == 0
    told = capsys.readouterr().out
    assert "output0: largest error" in told and told.endswith("all passes are right\n")


def test_one_command_names_the_wrong_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = MODEL.replace("GELU()", "LayerNorm(5)").format(type="float")
    (tmp_path / "model.py").write_text(text)
    wrong = PASSES.replaced("realize", wrong_realize)
    assert main([str(tmp_path / "model.py")], passes=wrong) == 1
    told = capsys.readouterr().out
    assert told.startswith(f"wrong after pass {numbered('realize')}: output0: error")
    assert "all passes are right" not in told


class WrongTexts(Build):
    """Its kernels are of another GELU than its schedule."""

    @cached_property
    def rendered(self) -> Rendered:
        right = super().rendered
        texts = [kernel.text.replace("0.5", "0.75") for kernel in right.kernels]
        kernels = (replace(k, text=text) for k, text in zip(right.kernels, texts, strict=True))
        return replace(right, kernels=tuple(kernels))


def test_what_is_wrong_behind_right_passes_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "model.py").write_text(MODEL.format(type="float"))
    assert main([str(tmp_path / "model.py")], building=WrongTexts) == 1
    told = capsys.readouterr().out
    assert told.endswith("all passes are right; wrong on interpreter: look behind them\n")
