"""Modules whose weight is made of codes where it is used, in place of linear layers and embeddings.

A layer keeps its class's forward: the class made here has ``weight`` as a property. Layers that
share a weight share its codes.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn

from aotpack.errors import UsageError
from aotpack.ir.ops.quantization import Quantization
from aotpack.trace.host.copies import HostCopies
from aotpack.trace.layers.adapters import is_adapter
from aotpack.trace.quantize.codes import Quantized, quantized, refusal, weight_of

CODES, SCALES, ZEROS = "weight_codes", "weight_scales", "weight_zeros"


@dataclass(frozen=True, slots=True)
class _Layer:
    """A layer by its name, in the order of the model."""

    name: str
    module: nn.Module
    weight: torch.Tensor


def quantize(
    modules: Iterable[nn.Module],
    quantization: Quantization | None,
    package: str,
    copies: HostCopies,
) -> tuple[str, ...]:
    """Change the layers of modules in place; a line for each, with its error or why it stays.

    Weights without values, of which ``copies`` knows, get codes without values.
    """
    if quantization is None:
        return ()
    layers = _layers(modules)
    made: dict[int, tuple[Quantized, str]] = {}
    lines, changed = [], 0
    for layer in layers:
        why = refusal(layer.weight, quantization)
        if why is not None:
            lines.append(f"{layer.name}: kept, {why}")
            continue
        if id(layer.weight) not in made:
            is_absent = bool(copies.without_values({"weight": layer.weight}))
            how = partial(_without_values, copies) if is_absent else _with_error
            made[id(layer.weight)] = how(layer.weight, quantization)
        codes, error = made[id(layer.weight)]
        with_codes(layer.module, codes, quantization.kind, layer.weight.dtype)
        lines.append(f"{layer.name}: {error}")
        changed += 1
    if not changed:
        reasons = "; ".join(lines) or "it has neither nn.Linear nor nn.Embedding"
        raise UsageError(
            f"packaging {package}: quantize={str(quantization)!r} finds no layer: {reasons}. Leave "
            "the option out, or give a group that divides the rows."
        )
    return tuple(lines)


def _layers(modules: Iterable[nn.Module]) -> list[_Layer]:
    found: dict[int, _Layer] = {}
    for root in modules:
        for name, module in root.named_modules():
            weight = module._parameters.get("weight")
            kinds = isinstance(module, (nn.Linear, nn.Embedding))
            if is_adapter(name):  # files have its weights as they are
                continue
            if kinds and weight is not None and weight.is_floating_point():
                found.setdefault(id(module), _Layer(name or "the model", module, weight))
    return list(found.values())


def _without_values(
    copies: HostCopies, weight: torch.Tensor, quantization: Quantization
) -> tuple[Quantized, str]:
    """Codes that have sizes alone."""
    made = quantized(torch.empty_like(weight, device="meta"), quantization)
    absent = Quantized(copies.of(made.codes), copies.of(made.scales))
    stored = made.codes.nbytes + made.scales.nbytes
    return absent, f"no values yet, {stored:,} bytes of {weight.nbytes:,}"


def _with_error(weight: torch.Tensor, quantization: Quantization) -> tuple[Quantized, str]:
    """The codes, and how far the weight is from what they stand for."""
    made = quantized(weight, quantization)
    again = weight_of(made, quantization.kind, torch.float32)
    wide = weight.detach().float()
    size, error = wide.norm(), (again - wide).norm()
    share = float(error / size) if size else 0.0
    stored = made.codes.nbytes + made.scales.nbytes
    return made, f"error {share:.2%} of the weight's norm, {stored:,} bytes of {weight.nbytes:,}"


def with_codes(module: nn.Module, made: Quantized, kind: str, dtype: torch.dtype) -> None:
    """Give the layer codes, scales and zero points in place of its weight.

    Its weight has the type of the scales, which a cast of the model changes.
    """

    def weight(self: nn.Module) -> torch.Tensor:
        held = Quantized(getattr(self, CODES), getattr(self, SCALES), getattr(self, ZEROS, None))
        return weight_of(held, kind, held.scales.dtype)

    own = type(module)
    module.__class__ = type(own.__name__, (own,), {"weight": property(weight)})
    del module._parameters["weight"]
    module.register_buffer(CODES, made.codes)
    module.register_buffer(SCALES, made.scales.to(dtype))
    if made.zeros is not None:
        module.register_buffer(ZEROS, made.zeros)
