"""Bands of lines of tiles: every tile is met once, whatever is left of lines and columns."""

import pytest
import torch
from torch import nn

import aotpack
from aotpack.schedule.tiles import tile_2d as plane


class AddTransposed(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y.t()


@pytest.mark.row("S:D17", "C:C2")
@pytest.mark.parametrize(("rows", "columns"), [(130, 65), (64, 200), (330, 17)])
@pytest.mark.parametrize("band", [1, 2, 16])
def test_a_band_takes_every_tile_once(
    rows: int, columns: int, band: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plane, "HALF_L2", 0)
    monkeypatch.setattr(plane, "BAND", band)
    args = torch.randn(rows, columns), torch.randn(columns, rows)
    model = aotpack.compile(AddTransposed(), args, target="interpreter")
    assert torch.equal(model(*args), AddTransposed()(*args))
