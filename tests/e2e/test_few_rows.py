"""Products of few rows against eager and float64: types, sizes that no block divides, long sums."""

from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

from aotpack.ir.kernels.tiles import MatmulTile
from aotpack.target import parse_targets

from .oracle import agree, compile_all

pytestmark = pytest.mark.usefixtures("for_this_processor")
BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32


@dataclass(frozen=True)
class Case:
    rows: int
    columns: int
    depth: int
    dtype: torch.dtype = BF16


CASES = {
    "a row": Case(1, 24, 512),
    "half": Case(1, 16, 256, F16),
    "single": Case(1, 8, 384, F32),
    "rows that fill no block": Case(3, 16, 256, F32),
    "columns that fill no block": Case(2, 21, 256),
    "a depth that fills no step": Case(2, 8, 200),
    "an odd depth": Case(1, 8, 131, F32),
    "a depth of several groups": Case(2, 8, 256 * 17),
    "a last group with a gap": Case(1, 8, 256 * 33 + 8),
}


class Gated(nn.Module):
    """A product with all that goes into its kernel: bias, activation, a residual."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self.inner = nn.Linear(case.depth, case.columns)

    def forward(self, x: torch.Tensor, rest: torch.Tensor) -> torch.Tensor:
        return rest + F.silu(self.inner(x))


def drawn(case: Case) -> tuple[torch.Tensor, torch.Tensor]:
    made = torch.Generator().manual_seed(0)
    sides = (case.rows, case.depth), (case.rows, case.columns)
    x, rest = (torch.randn(*side, generator=made).to(case.dtype) for side in sides)
    return x, rest


@pytest.mark.parametrize("name", CASES)
def test_sums_are_those_of_eager(name: str) -> None:
    case = CASES[name]
    torch.manual_seed(0)
    compiled = compile_all(Gated(case).to(case.dtype), drawn(case))
    text = compiled.precompiled.rendered.as_text()
    assert "kernel_few_rows.py.jinja" in text
    agree(compiled, drawn(case))


class GatedUnit(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up = nn.Linear(256, 128, bias=False), nn.Linear(256, 128)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.silu(self.gate(x)) * self.up(x)


@pytest.mark.parametrize(("rows", "kernels"), [(1, 1), (2, 1), (3, 2)])
def test_the_products_of_a_gated_unit_share_a_kernel(rows: int, kernels: int) -> None:
    """If registers hold the sums of both. Processors have a kernel for each, as one has a bias."""
    torch.manual_seed(0)
    x = torch.randn(rows, 256, dtype=BF16)
    compiled = compile_all(GatedUnit().to(BF16), (x,))
    assert len(compiled.scheduled.on(80).kernels) == kernels
    assert all(len(one.products) < 2 for one in compiled.scheduled.on(0).kernels)
    agree(compiled, (x,))


class Quantised(nn.Module):
    """Weights of 8 bits, with a scale for each column and group of neighbours along k."""

    def __init__(self, depth: int, groups: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.randint(-127, 128, (16, depth), dtype=torch.int8))
        self.register_buffer("scale", torch.rand(16, groups, 1, dtype=BF16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale: torch.Tensor = self.scale  # type: ignore[assignment]
        parts = self.weight.unflatten(1, (scale.shape[1], -1))  # type: ignore[operator]
        return x @ (parts.to(x.dtype) * scale).flatten(1).t()


def test_rows_whose_sums_fill_no_registers_take_tiles() -> None:
    """float32 takes up to 8 rows, of weights of 8 bits fewer: a thread has 16 lanes of each sum."""
    torch.manual_seed(0)
    module = Quantised(512, 1)
    module.scale = module.scale.float()
    x = torch.randn(6, 512)
    compiled = compile_all(module, (x,), None, ({0: Dim("rows", min=1, max=40)},))
    for rows in (1, 4, 5, 8, 17):
        agree(compiled, (x[:1].repeat(rows, 1) * torch.arange(rows)[:, None],))


@pytest.mark.parametrize("groups", [1, 4])
def test_weights_of_eight_bits_are_widened_in_registers(groups: int) -> None:
    torch.manual_seed(0)
    x = torch.randn(1, 512, dtype=BF16)
    compiled = compile_all(Quantised(512, groups), (x,))
    (kernel,) = compiled.scheduled.on(80).kernels
    assert [one.tile.k for one in kernel.variants if isinstance(one.tile, MatmulTile)] == [512]
    agree(compiled, (x,))


def test_rows_are_columns_of_the_matrix_unit_on_hopper() -> None:
    """Where weights are many; programs share the sums of few columns."""
    case = Case(3, 256, 8192)
    torch.manual_seed(0)
    compiled = compile_all(Gated(case).to(BF16), drawn(case), targets=parse_targets("sm_90"))
    assert "acc = tl.zeros([64, 16], tl.float32)" in compiled.precompiled.rendered.as_text()
    agree(compiled, drawn(case), programs=False)


def test_the_form_follows_the_number_of_rows() -> None:
    """Each power of two has a kernel of its own; many rows take tiles."""
    case = Case(2, 16, 256)
    torch.manual_seed(0)
    rows = Dim("rows", min=1, max=64)
    compiled = compile_all(Gated(case).to(BF16), drawn(case), dynamic_shapes=({0: rows}, {0: rows}))
    for number in (1, 2, 20):
        agree(compiled, drawn(Case(number, 16, 256)))
