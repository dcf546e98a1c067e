"""Complex tensors as pairs, and operands in a complex type."""

from typing import Any

import torch
from torch import Tensor


def like(x: Any, other: Tensor) -> Tensor:
    """A tensor or number in the type of another."""
    return in_type(x, other.dtype)


def in_type(x: Any, dtype: torch.dtype) -> Tensor:
    """A tensor or number in a type."""
    return x.to(dtype) if isinstance(x, Tensor) else torch.scalar_tensor(x, dtype=dtype)


def both(x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """Two operands in the complex type of both; one of them is complex."""
    dtype = torch.result_type(x, y)
    return in_type(x, dtype), in_type(y, dtype)


def pairs_of(x: Tensor) -> Tensor:
    """A complex tensor with both parts in a last dimension."""
    return torch.view_as_real(x)


def of_pairs(x: Tensor) -> Tensor:
    """The complex tensor of such pairs."""
    return torch.view_as_complex(x.contiguous())
