"""How scatters are written: an atomic instruction, swaps, or a masked store."""

import pytest
import torch
from torch import nn

from aotpack.stages import Rendered
from tests.render.models import rendered

F32, F64, I32, I64 = torch.float32, torch.float64, torch.int32, torch.int64


class Reduced(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def forward(self, x: torch.Tensor, n: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return x.scatter_reduce(1, n, v, self.kind)


class Copied(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: torch.Tensor, n: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return x.index_copy(self.dim, n, v)


def last_text(product: Rendered) -> str:
    """The text of the scatter, which comes after the copy of its base."""
    assert len(product.kernels) == 2
    return product.kernels[-1].text


def reduced(kind: str, dtype: torch.dtype) -> str:
    x, v = torch.zeros(4, 9, dtype=dtype), torch.zeros(4, 5, dtype=dtype)
    return last_text(rendered(Reduced(kind), x, torch.zeros(4, 5, dtype=I64), v))


def copied(dim: int, *shape: int) -> str:
    x, n = torch.zeros(shape), torch.arange(2)
    v = torch.zeros(*(2 if k == dim else size for k, size in enumerate(shape)))
    return last_text(rendered(Copied(dim), x, n, v))


@pytest.mark.row("S:B2", "C:F12")
@pytest.mark.parametrize(
    ("kind", "dtype", "instruction"),
    [
        ("sum", F32, "tl.atomic_add("),
        ("sum", F64, "tl.atomic_add("),
        ("sum", I64, "tl.atomic_add("),
        ("amax", I32, "tl.atomic_max("),
        ("amin", I64, "tl.atomic_min("),
        ("amax", F32, "tl.atomic_cas("),
        ("amin", F64, "tl.atomic_cas("),
        ("prod", I32, "tl.atomic_cas("),
        ("prod", F32, "tl.atomic_cas("),
    ],
)
def test_instruction(kind: str, dtype: torch.dtype, instruction: str) -> None:
    text = reduced(kind, dtype)
    assert text.count("tl.atomic_") == 1 and instruction in text
    assert "tl.store" not in text


def test_swaps_compare_bits_as_wide_as_the_element() -> None:
    assert "tl.int64), bitcast=True" in reduced("amax", F64)
    assert "tl.int64), bitcast=True" not in reduced("amax", F32)


def test_set_is_a_masked_store() -> None:
    text = copied(0, 100, 32)
    assert "tl.atomic" not in text and "tl.store(" in text and "mask=" in text
