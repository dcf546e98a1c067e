"""Rows with room behind them, through every oracle: who writes them, who reads them, what is there.

What lies in a gap may be a NaN, on which no answer and no look for NaN may depend.
"""

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.functional import layer_norm

from aotpack import compile as compile_model
from aotpack.emit import write_package
from aotpack.ir.kernels.kernel import Schedule
from aotpack.ir.kernels.rows import row_of
from aotpack.ir.program import Program
from aotpack.precompile.interpreter.device import InterpreterDevice
from aotpack.runtime import load
from aotpack.runtime.selftest import check_golden
from aotpack.target import INTERPRETER

from .oracle import TARGETS, agree, compile_all

N = 1027  # elements of a row: its room is 1088 in 16 bits
BATCH = {"x": {0: torch.export.Dim("b", min=1, max=9)}}
Body = Callable[["OddRows", torch.Tensor], object]


class OddRows(nn.Module):
    """Products make rows of an odd length, and something reads them."""

    def __init__(self, body: Body, length: int = N) -> None:
        super().__init__()
        self.body = body
        self.into, self.other = nn.Linear(4, length), nn.Linear(4, length)
        self.out = nn.Parameter(torch.randn(length, 4) / length**0.5)

    def forward(self, x: torch.Tensor) -> object:
        return self.body(self, x)


def rows(count: int) -> torch.Tensor:
    return torch.randn(count, 4).half()


def joined(m: OddRows, x: torch.Tensor) -> torch.Tensor:
    return torch.cat([m.into(x), m.other(x)]) @ m.out


CASES: dict[str, tuple[int, list[str], Body]] = {
    "kept in registers": (N, ["linear"], lambda m, x: layer_norm(m.into(x), (N,))),
    "walked over": (4099, ["exp"], lambda m, x: m.into(x).exp().sum(-1)),
    "factor of a product": (N, ["linear", "softmax"], lambda m, x: m.into(x).softmax(-1) @ m.out),
    "infinite in the gap": (N, ["log"], lambda m, x: m.into(x).square().log().argmin(-1)),
    "in parts": (N, ["cat"], joined),
}


@pytest.mark.row("S:D5")
@pytest.mark.parametrize("name", CASES)
def test_rows_with_room(name: str) -> None:
    torch.manual_seed(0)
    length, expected, body = CASES[name]
    targets = TARGETS if name == "factor of a product" else (INTERPRETER,)
    compiled = compile_all(
        OddRows(body, length).half(), (rows(3),), dynamic_shapes=BATCH, targets=targets
    )
    schedule = compiled.scheduled.schedule
    assert padded_in(schedule) == expected
    agree(compiled, (rows(3),))
    agree(compiled, (rows(1),))


def padded_in(schedule: Schedule) -> list[str]:
    """The buffers whose rows have room, but the parts of others."""
    buffers = schedule.program.buffers.values()
    rows = ((b.name, row_of(b.shape, schedule.strides[b.name])) for b in buffers)
    return [name for name, row in rows if row is not None and "." not in name]


@pytest.mark.row("S:D5")
def test_a_pointwise_kernel_of_its_own_goes_line_by_line() -> None:
    def apart(program: Program) -> Program:
        changed = {"mul": replace(program.buffers["mul"], unfusable=True)}
        return replace(program, buffers={**program.buffers, **changed})

    torch.manual_seed(0)
    module = OddRows(lambda m, x: (m.into(x) * m.other(x)).softmax(-1) @ m.out).half()
    x = rows(3)
    model = compile_model(module, (x,), target="interpreter", passes=[apart])
    torch.testing.assert_close(model(x), module(x), atol=1e-3, rtol=1e-3)


@pytest.mark.row("S:D5")
def test_factors_end_where_rows_do(tmp_path: Path) -> None:
    """The first product's tiles do not reach the end of the room: what is there stays a NaN."""
    torch.manual_seed(0)
    module = OddRows(lambda m, x: m.into(x) @ m.out).half()
    compiled = compile_all(module, (rows(3),), targets=(INTERPRETER,), golden=1e6)
    assert padded_in(compiled.scheduled.schedule) == ["linear"]
    write_package(compiled.precompiled, tmp_path)
    with closing(load(tmp_path, InterpreterDevice())) as model:
        assert [check for check in check_golden(model, model) if not check.is_passed] == []


@pytest.mark.row("S:D5", "C:K5")
def test_nobody_finds_a_nan_in_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the last column the product is 0, and its quotient by itself a NaN."""
    monkeypatch.setenv("AOTPACK_DEBUG", "nan")
    torch.manual_seed(0)
    module = OddRows(lambda m, x: ((t := m.into(x)) / t).amax(-1)).half()
    x = rows(3)
    model = compile_model(module, (x,), target="interpreter")
    torch.testing.assert_close(model(x), torch.ones(3).half())
