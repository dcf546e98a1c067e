"""Low-rank adapters of PEFT: the factor of each becomes a tensor, which another adapter may change.

A layer with adapters has ``lora_A`` and a dict ``scaling`` of Python numbers by adapter. Numbers
become part of a program; tensors are weights, with names such as ``layer.scaling.default``.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import nn

from aotpack.trace.agreement.steps import CallFails, Calls, Seen, departure, seen_call, seen_calls
from aotpack.trace.host.copies import HostCopies
from aotpack.trace.methods import root_of
from aotpack.trace.operators.random.seeds import Example

_FACTORS = ("lora_A", "lora_embedding_A")


class Scaling(nn.Module, dict[str, torch.Tensor]):
    """The factor of each adapter, read as from a dict, which it is to who asks."""

    __eq__, __ne__ = object.__eq__, object.__ne__
    __hash__ = object.__hash__  # type: ignore[assignment]

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

    def __len__(self) -> int:
        return len(self._buffers)

    def get(self, adapter: str, default: Any = None) -> Any:
        return self._buffers.get(adapter, default)

    def keys(self) -> Any:
        return self._buffers.keys()

    def values(self) -> Any:
        return self._buffers.values()

    def items(self) -> Any:
        return self._buffers.items()


def with_scaling(calls: Calls, copies: HostCopies) -> None:
    """Change the layers with adapters of the called modules, which are copies, in place.

    Where a call takes the factors for numbers, as in a condition, all stay so.
    """
    roots = [root_of(module) for module, _ in calls.values()]
    layers = [one for root in roots for one in root.modules() if _has_factors(one)]
    if not layers:
        return
    weights = [one for root in roots for one in root.parameters()]
    has_values = not copies.without_values({str(n): one for n, one in enumerate(weights)})
    before = seen_calls(calls, has_values=has_values)
    factors = [(layer, layer.__dict__["scaling"]) for layer in dict.fromkeys(layers)]
    made = [Scaling(numbers, _dtype(layer)) for layer, numbers in factors]
    for (layer, _), scaling in zip(factors, made, strict=True):
        layer.scaling = scaling
    tensors = [one for scaling in made for one in scaling.buffers()]
    if not all(_is_kept(*calls[name], tensors, call) for name, call in before.items()):
        for layer, numbers in factors:
            del layer._modules["scaling"]
            layer.scaling = numbers


def _has_factors(module: nn.Module) -> bool:
    factors = module.__dict__.get("scaling")
    has_adapters = any(name in module._modules for name in _FACTORS)
    return has_adapters and isinstance(factors, dict) and bool(factors) and _are_numbers(factors)


def _is_kept(
    module: nn.Module, example: Example, factors: Iterable[torch.Tensor], before: Seen
) -> bool:
    """True if a call does with factors that are tensors what it did before."""
    try:
        found = seen_call(module, example, (), factors, has_values=before.has_values)
    except CallFails:
        return False
    return not departure(before.steps, found.steps)


def is_adapter(name: str) -> bool:
    """True for the name of a module, or a weight, of an adapter."""
    parts = name.split(".")
    return "modules_to_save" in parts or any(part.startswith("lora_") for part in parts)


def is_factor(name: str) -> bool:
    """True for the name of a weight that ``with_scaling`` made: each adapter has its own."""
    return name.split(".")[-2:-1] == ["scaling"]


def _are_numbers(factors: Mapping[object, object]) -> bool:
    return all(isinstance(one, (int, float)) for one in factors.values())


def _dtype(module: nn.Module) -> torch.dtype:
    """The type in which factors lose nothing."""
    wide = any(one.dtype == torch.float64 for one in module.parameters())
    return torch.float64 if wide else torch.float32
