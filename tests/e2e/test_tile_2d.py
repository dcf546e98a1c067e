"""Bands of lines of tiles: every tile is met once, whatever is left of lines and columns."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from aotpack.devices import H200
from aotpack.schedule.tiles import tile_2d
from aotpack.target import INTERPRETER

from .oracle import compile_all


class AddTransposed(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y.t()


@pytest.mark.row("S:D17", "C:C2")
@pytest.mark.parametrize(("rows", "columns"), [(130, 65), (64, 200), (330, 17)])
@pytest.mark.parametrize("band", [1, 2, 16])
def test_a_band_takes_every_tile_once(
    rows: int, columns: int, band: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tile_2d, "BAND", band)
    args = torch.randn(rows, columns), torch.randn(columns, rows)
    small = replace(H200, l2=0)  # so that every line of tiles fills it
    compiled = compile_all(AddTransposed(), args, targets=(INTERPRETER,), gpu=small)
    model = compiled.models["interpreter"]
    assert torch.equal(model(*args), AddTransposed()(*args))
