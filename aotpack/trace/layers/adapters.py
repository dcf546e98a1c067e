"""Low-rank adapters of PEFT: the factor of each becomes a tensor, which another adapter may change.

A layer with adapters has ``lora_A`` and a dict ``scaling`` of Python numbers by adapter. Numbers
become part of a program; tensors are weights, with names such as ``layer.scaling.default``.
"""

from collections.abc import Iterable, Iterator, Mapping

import torch
from torch import nn

_FACTORS = ("lora_A", "lora_embedding_A")


class Scaling(nn.Module):
    """The factor of each adapter, read as from a dict."""

    def __init__(self, factors: Mapping[str, float], dtype: torch.dtype) -> None:
        super().__init__()
        for adapter, factor in factors.items():
            self.register_buffer(adapter, torch.tensor(factor, dtype=dtype), persistent=False)

    def __getitem__(self, adapter: str) -> torch.Tensor:
        factor = self._buffers[adapter]
        assert factor is not None
        return factor

    def __contains__(self, adapter: object) -> bool:
        return adapter in self._buffers

    def __iter__(self) -> Iterator[str]:
        return iter(self._buffers)


def with_scaling(roots: Iterable[nn.Module]) -> None:
    """Change the layers with adapters of these modules, which are copies, in place."""
    for root in roots:
        for module in [*root.modules()]:
            factors = module.__dict__.get("scaling")
            has_adapters = any(name in module._modules for name in _FACTORS)
            if has_adapters and isinstance(factors, dict) and factors and _are_numbers(factors):
                module.scaling = Scaling(factors, _dtype(module))


def is_adapter(name: str) -> bool:
    """True for the name of a module, or a weight, of an adapter."""
    return any(part.startswith("lora_") for part in name.split("."))


def is_factor(name: str) -> bool:
    """True for the name of a weight that ``with_scaling`` made: each adapter has its own."""
    return name.split(".")[-2:-1] == ["scaling"]


def _are_numbers(factors: Mapping[object, object]) -> bool:
    return all(isinstance(one, (int, float)) for one in factors.values())


def _dtype(module: nn.Module) -> torch.dtype:
    """The type in which factors lose nothing."""
    wide = any(one.dtype == torch.float64 for one in module.parameters())
    return torch.float64 if wide else torch.float32
