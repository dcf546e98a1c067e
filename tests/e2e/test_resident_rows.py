"""Few long rows: whole where a GPU holds them, in parts elsewhere; one package does both."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import aotpack
from aotpack.target import parse_targets

from .law import Tolerance, accuracy_complaint
from .oracle import agree, compile_all
from .test_long_rows import BF16, Rows, numbers

EACH = parse_targets(["sm_80", "sm_90", "sm_120", "cpu"])


def normed(x: torch.Tensor) -> Any:
    """Mean and variance."""
    return F.layer_norm(x, (x.shape[1],))


def shares(x: torch.Tensor) -> Any:
    """Maximum and sum of exponentials."""
    return x.softmax(1)


def sums(x: torch.Tensor) -> Any:
    """Rows that are held, and such as are read once, in one model."""
    return x.log_softmax(1), (x * x).sum(1), x.argmax(1)


def peaked(x: torch.Tensor) -> Any:
    """One number of all rows, and what is computed from it alone."""
    return x / (1 + x.abs().amax())


CASES = [
    (shares, 1, 33_024, torch.float32),  # parts in registers on two targets
    (shares, 2, 132_096, BF16),
    (normed, 1, 33_024, BF16),
    (sums, 2, 40_000, torch.float32),
    (peaked, 5, 34_816, torch.float32),  # in turn, as one row
]


@pytest.mark.row("C:B18", "C:B20")
@pytest.mark.parametrize(("function", "rows", "columns", "dtype"), CASES)
def test_each_target_agrees(
    function: Callable[..., Any], rows: int, columns: int, dtype: torch.dtype
) -> None:
    x = numbers(rows, columns, dtype)
    compiled = compile_all(Rows(function), (x,), targets=EACH)
    assert compiled.scheduled.per_arch
    assert {name: model.target for name, model in compiled.models.items()} == {
        str(target): str(target) for target in EACH
    }
    agree(compiled, (x,))


@pytest.mark.gpu
@pytest.mark.parametrize("function", [shares, normed, sums])
@pytest.mark.parametrize("dtype", [torch.float32, BF16])
@pytest.mark.parametrize(
    ("rows", "columns"), [(1, 33_024), (1, 262_144), (9, 128_256), (64, 50_304), (16, 131_072)]
)
def test_resident_rows_on_a_gpu(
    function: Callable[..., Any], rows: int, columns: int, dtype: torch.dtype
) -> None:
    x, module = numbers(rows, columns, dtype), Rows(function)
    model, given = aotpack.compile(module, (x,), target="native"), x.cuda()
    exact = module(given.double())
    for _ in range(3):  # launches, a recording, a graph
        found = (model(given), module(given), exact)
        answers = found if function is sums else tuple((one,) for one in found)
        for row in zip(*answers, strict=True):
            ours, eager, reference = (y.cpu() for y in row)
            assert accuracy_complaint(ours, eager, reference, Tolerance()) is None
