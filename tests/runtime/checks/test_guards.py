"""Arguments that do not fit the signature are refused before any launch."""

from pathlib import Path

import numpy as np
import pytest
import torch

from aotpack.ir.dtypes import DType
from aotpack.ir.symbolic.integers import Int
from aotpack.runtime import ArgumentError, Model, load
from aotpack.stages import TensorSpec
from tests.runtime.fake_device import FakeDevice
from tests.runtime.packages import S, write_demo

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.row("S:H27", "S:H26")
@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (X.astype(np.float64), X, r"demo: argument 'x' has dtype float64; accepted: float32"),
        (
            X[0],
            X,
            r"'x' has 1 dimensions, shape \[3\]; accepted: 2, shape \[b, s\]\. .* x\[None\]\.$",
        ),
        (X[None], X, r"'x' has 3 dimensions, .*; accepted: 2, shape \[b, s\]\. .* Pass x\[0\]\.$"),
        (X[None, None], X, r"'x' has 4 dimensions, .*; accepted: 2, shape \[b, s\]\.$"),
        (np.ones((2, 2, 3), np.float32), X, r"'x' has 3 dim.*; accepted: 2, shape \[b, s\]\.$"),
        (np.ones((9, 3), np.float32), np.ones((9, 3), np.float32), "b 9 by its dimension 0.*1 to"),
        (np.ones((2, 33), np.float32), np.ones((2, 33), np.float32), "s 33.*s in 0 to 32"),
        (
            X,
            X[:1],
            r"'y' has size 1 in dimension 0; accepted: 2, for it is b with b = 2 \(from 'x'",
        ),
        (X, "text", "argument 'y': it is str, not a tensor"),
        (X, 1.5, "argument 'y': it is float, not a tensor; .* int for an int64 of no dim"),
        (X, 3, r"'y' has dtype int64; accepted: float32"),
        (X, X.astype(str), "'y' has dtype str1024; accepted: float32.* Strings are not accepted"),
        (X, X.astype(bytes), "'y' has dtype bytes256; .* Strings are not accepted: give numbers"),
        (X, X.astype(np.complex64), r"has dtype complex64; .* give the real ones, \.real, or mag"),
        (X, torch.ones(2, 3) * 1j, r"has dtype complex64; .* ones, \.real\.contiguous\(\), or"),
        (X, torch.from_numpy(X), "'y' is on cpu; this model runs on cuda:0"),
    ],
)
def test_guards(model: Model, device: FakeDevice, x: object, y: object, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        model(x, y)
    assert device.launches == []


@pytest.mark.parametrize("kind", [DType.BFLOAT16, DType.FLOAT8_E5M2])
def test_types_that_numpy_lacks_are_told_as_it_can_give_them(
    tmp_path: Path, device: FakeDevice, kind: DType
) -> None:
    x, own = np.ones(2, np.float32), TensorSpec("own", kind, (Int.of(2),))
    bits = (x.view("uint32") >> 16).astype("uint16")
    with load(write_demo(tmp_path / "demo", inputs=(own,)), device) as model:
        with pytest.raises(ArgumentError, match=rf"\.astype\(ml_dtypes\.{kind}\)") as told:
            model(X, X, x)
        recipe = '(x.view("uint32") >> 16).astype("uint16")'
        assert (recipe in str(told.value)) == (kind == DType.BFLOAT16)
        model(X, X, bits if kind == DType.BFLOAT16 else np.ones(2, np.uint8))


@pytest.mark.row("S:D2", "S:H27")
def test_noncontiguous_tensors_are_refused(package: Path) -> None:
    with load(package, FakeDevice((1, 0))) as model:
        x = torch.ones(3, 2).T
        with pytest.raises(ArgumentError, match=r"not contiguous.*Call \.contiguous\(\)"):
            model(x, x)


def test_the_size_of_an_argument_is_named_before_its_layout(package: Path) -> None:
    with load(package, FakeDevice((1, 0))) as model:
        with pytest.raises(
            ArgumentError, match=r"'y' has size 5 in dimension 1; accepted: 3, for it is s"
        ):
            model(torch.ones(2, 3), torch.ones(2, 7)[:, :5])
        with pytest.raises(ArgumentError, match=r"'y' is not contiguous"):
            model(torch.ones(2, 3), torch.ones(2, 7)[:, :3])


def test_formulas_are_solved_and_checked(tmp_path: Path, device: FakeDevice) -> None:
    mask = TensorSpec("mask", DType.BOOL, (2 * Int.of(S) + 1,))
    with load(write_demo(tmp_path / "demo", inputs=(mask,)), device) as model:
        model(X, X, np.ones(7, bool))
        with pytest.raises(ArgumentError, match=r"size 6 in dimension 0; accepted: 7.*2\*s \+ 1"):
            model(X, X, np.ones(6, bool))
