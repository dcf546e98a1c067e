"""``fallback="torch"``: what cannot be lowered is run by torch, when and only when asked for."""

import json
import re
import sys
import warnings
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import aotpack
from aotpack.cli import main
from aotpack.emit.package import reseal
from aotpack.errors import AotpackError, UnsupportedError, UsageError
from aotpack.runtime import load, verify
from aotpack.runtime.command import main as package_main
from aotpack.runtime.command import summary
from aotpack.runtime.manifest import read_manifest
from aotpack.runtime.selftest import Report

X = torch.randn(4, 5)
ROWS = torch.export.Dim("rows", min=1, max=64)


@torch.library.custom_op("aot_fallback::spread", mutates_args=())
def spread(
    x: Tensor, others: list[Tensor], rows: int, *, scale: float = 2.0
) -> tuple[Tensor, Tensor]:
    whole = x * scale + sum(others) * rows
    return whole, whole.sum(0)


@spread.register_fake
def _(x: Tensor, others: list[Tensor], rows: int, *, scale: float = 2.0) -> tuple[Tensor, Tensor]:
    return torch.empty_like(x), x.new_empty(x.shape[1:])


@torch.library.custom_op("aot_fallback::as_type", mutates_args=())
def as_type(x: Tensor, dtype: torch.dtype) -> Tensor:
    """The columns of the result lie side by side."""
    return (x.t().contiguous().to(dtype) * 2).t()


@as_type.register_fake
def _(x: Tensor, dtype: torch.dtype) -> Tensor:
    return x.new_empty(x.shape[::-1], dtype=dtype).t()


class Mixed(nn.Module):
    """Kernels, two calls, views of what goes in, both results of one, an output straight out."""

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        whole, sums = spread(x.exp().t().t(), [y, y + 1], x.shape[0], scale=float("0.5"))
        half = as_type(whole.relu(), torch.bfloat16)
        return whole, half, sums * 2 + half.float().sum(0)


class Turned(nn.Module):
    """A call reads whole what is also a result, with columns side by side."""

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        turned = x.relu().t() + 1
        return spread(turned, [turned], 3)[0] + y.t(), turned


class Changing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("state", torch.ones(4, 5))

    def forward(self, x: Tensor) -> Tensor:
        self.state.copy_(spread(x, [self.state], 2)[0])
        return self.state + 1


def compiled(module: nn.Module, args: tuple[Any, ...], target: str, shapes: Any = None) -> Any:
    with pytest.warns(UserWarning, match=r"calls torch for(.|\n)*aot_fallback.spread.default"):
        return aotpack.compile(module, args, dynamic_shapes=shapes, target=target, fallback="torch")


@pytest.mark.row("S:H8", "S:H9", "S:H10", "S:H11")
@pytest.mark.parametrize("target", ["cpu", "interpreter"])
def test_torch_runs_what_cannot_be_lowered(target: str) -> None:
    model = compiled(Mixed(), (X, X), target, ({0: ROWS}, {0: ROWS}))
    for rows in (4, 1, 33):
        given = (torch.randn(rows, 5), torch.randn(rows, 5))
        for ours, theirs in zip(model(*given), Mixed()(*given), strict=True):
            torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
def test_calls_read_rows_of_results_with_columns_side_by_side(target: str) -> None:
    model = compiled(Turned(), (X, X), target)
    for ours, theirs in zip(model(X, X), Turned()(X, X), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_calls_work_on_state() -> None:
    model = compiled(Changing(), (X,), "cpu")
    eager = Changing()
    for _ in range(3):
        torch.testing.assert_close(model(X), eager(X))
    torch.testing.assert_close(torch.from_dlpack(model.state["state"]), eager.state)


def test_the_wheel_says_so_and_holds_no_pickle(tmp_path: Path) -> None:
    shapes = ({0: ROWS}, {0: ROWS})
    options = {"dynamic_shapes": shapes, "targets": "cpu", "name": "mixed"}
    with pytest.warns(UserWarning, match="as_type"):
        wheel = aotpack.build(Mixed(), (X, X), out=tmp_path, fallback="torch", **options)
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (name for name in names if name.endswith("METADATA"))
        assert "Requires-Dist: torch" in archive.read(metadata).decode().splitlines()
        archive.extractall(tmp_path)
        manifest = json.loads(archive.read("mixed/manifest.json"))
    assert not [name for name in names if name.endswith((".pkl", ".pt", ".pickle"))]
    wheel_folder = tmp_path / "mixed"
    (called,) = (c for c in manifest["calls"].values() if "as_type" in c["operator"])
    assert called["args"] == [{"passed": 0}, {"dtype": "bfloat16"}]
    assert "no lowering" in called["reason"]
    report = verify(wheel_folder, "cpu")
    assert report.is_passed and "torch runs aot_fallback.as_type.default, aot" in str(report)
    assert "torch     aot_fallback.spread.default: this op" in summary(read_manifest(wheel_folder))
    watched = load(wheel_folder, "cpu", debug="nan")
    torch.testing.assert_close(watched(X, X)[2], Mixed()(X, X)[2])


def test_nothing_of_it_without_need(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wheel = aotpack.build(nn.ReLU(), (X,), out=tmp_path, targets="cpu", fallback="torch")
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith("METADATA"))
        assert "Requires-Dist: torch" not in archive.read(metadata).decode()
        assert "Call" not in archive.read("model/wrapper.py").decode()


def test_the_default_is_an_error_that_says_what_else_there_is() -> None:
    with pytest.raises(UnsupportedError, match=r"spread.default(.|\n)*--fallback torch"):
        aotpack.compile(Mixed(), (X, X), target="cpu")
    with pytest.raises(UsageError, match="fallback='eager'; accepted are 'error' and 'torch'"):
        aotpack.compile(Mixed(), (X, X), target="cpu", fallback="eager")


class DataDependent(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.ops.aten.unique_dim(x.view(1, 3), 0)[0]


class OfNothing(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.ops.aot_fallback.made(3) + x


class InPlace(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x * 2
        torch.ops.aot_fallback.add_one(y)
        return y


@torch.library.custom_op("aot_fallback::add_one", mutates_args=("x",))
def add_one(x: Tensor) -> None:
    x.add_(1)


torch.library.define("aot_fallback::made", "(int n) -> Tensor")
torch.library.impl("aot_fallback::made", "default", lambda n: torch.ones(n))
torch.library.register_fake("aot_fallback::made", lambda n: torch.empty(n))


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (DataDependent(), "depends on the data"),
        (OfNothing(), "no tensor says on which device"),
        (InPlace(), r"add_one.default: it changes its arguments in place.*register_lowering"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_torch_cannot_run_here_is_refused(module: nn.Module, words: str) -> None:
    with pytest.raises(AotpackError, match=words) as caught:
        aotpack.compile(module, (torch.randn(3),), target="cpu", fallback="torch")
    assert "or build with --fallback" not in str(caught.value)


def test_a_failing_call_and_a_missing_operator_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails: list[bool] = []

    @torch.library.custom_op("aot_fallback::fails", mutates_args=())
    def failing(x: Tensor) -> Tensor:
        if fails:
            raise ValueError("not today")
        return x.clone()

    failing.register_fake(torch.empty_like)

    class Fails(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.ops.aot_fallback.fails(x) + 1

    with pytest.warns(UserWarning):
        model = aotpack.compile(Fails(), (X,), target="cpu", fallback="torch")
        wheel = aotpack.build(Fails(), (X,), out=tmp_path, targets="cpu", fallback="torch")
    fails.append(True)
    with pytest.raises(AotpackError, match="aot_fallback.fails.default through torch .*not today"):
        model(X)
    fails.clear()
    torch.testing.assert_close(model(X), X + 1)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    file = tmp_path / "model" / "manifest.json"
    file.write_text(file.read_text().replace("aot_fallback.fails", "aot_elsewhere.fails"))
    reseal(file.parent)
    (record,) = tmp_path.glob("*.dist-info/RECORD")
    record.unlink()
    with pytest.raises(AotpackError, match="no operator aot_elsewhere.fails.*Import what defines"):
        load(tmp_path / "model", "cpu")
    (tmp_path / "elsewhere.py").write_text(ELSEWHERE)
    monkeypatch.syspath_prepend(tmp_path)
    command = [str(tmp_path / "model" / "__main__.py"), ["verify", "--device", "cpu"]]
    assert package_main(*command) == 1
    command[1] += ["--import", "elsewhere"]
    assert package_main(*command) == 0
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "torch", None)
        with pytest.raises(AotpackError, match="it cannot be imported .*Install torch"):
            load(tmp_path / "model", "cpu")


ELSEWHERE = """
import torch

@torch.library.custom_op("aot_elsewhere::fails", mutates_args=())
def fails(x: torch.Tensor) -> torch.Tensor:
    return x.clone()
"""
MODEL = """
import torch

class Spread(torch.nn.Module):
    def forward(self, x):
        return torch.ops.aot_fallback.spread(x, [x], 2)[0] + 1

model, example_inputs = Spread(), (torch.ones(2, 3),)
"""


def test_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "spreading.py"
    file.write_text(MODEL)
    command = ["build", str(file), "-o", str(tmp_path / "dist"), "--target", "cpu"]
    assert main(command) == 1
    assert "--fallback torch" in capsys.readouterr().err
    assert main([*command, "--fallback", "torch"]) == 0
    told = capsys.readouterr().out
    assert "through torch: aot_fallback.spread.default (1 call): this operator has no low" in told
    assert "spreading.py:6" in told
    with pytest.raises(SystemExit, match="2"):
        main([*command, "--fallback", "eager"])
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    assert main(["inspect", str(wheel)]) == 0
    row = r"torch +runs aot_fallback.spread.default: this operator has no lowering"
    assert re.search(row, capsys.readouterr().out)
    monkeypatch.chdir(tmp_path)
    checked = ["verify", str(wheel), "--device", "cpu"]
    assert main([*checked, "--import", "spreading"]) == 0
    assert "load and call: " in capsys.readouterr().out
    assert main([*checked, "--import", "nowhere"]) == 1
    assert "--import 'nowhere': No module named 'nowhere'" in capsys.readouterr().err


def test_what_verify_says_of_torch() -> None:
    calls, did = ("aten.x.default",), ("open for writing: /f",)
    ours, theirs = Report((), did), Report((), did, calls)
    assert not ours.is_passed and str(ours) == "load and call: open for writing: /f: WRONG"
    assert theirs.is_passed and "torch runs aten.x.default; it did what" in str(theirs)
    assert str(Report((), (), calls)).endswith("no socket used: ok; torch runs aten.x.default")
