"""Modules whose weight is made of codes where it is used, in place of linear layers and embeddings.

A layer keeps its class's forward: the class made here has ``weight`` as a property. Layers that
share a weight share its codes.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn

from aotpack.errors import UsageError
from aotpack.ir.ops.quantization import Quantization
from aotpack.trace.host.copies import HostCopies
from aotpack.trace.layers.adapters import is_adapter
from aotpack.trace.layers.properties import with_property
from aotpack.trace.methods import root_of
from aotpack.trace.quantize.codes import Quantized, quantized, refusal, weight_of
from aotpack.trace.quantize.written import Calls, written_weights

CODES, SCALES, ZEROS = "weight_codes", "weight_scales", "weight_zeros"
_ROWS = 1024  # at a time, as float64


@dataclass(frozen=True, slots=True)
class _Layer:
    """A layer by its name, in the order of the model."""

    name: str
    module: nn.Module
    weight: torch.Tensor


def quantize(
    calls: Calls, quantization: Quantization | None, package: str, copies: HostCopies
) -> tuple[str, ...]:
    """Change layers of the called modules in place; a line for each: its error, or why it stays.

    Weights without values, of which ``copies`` knows, get codes without values.
    """
    if quantization is None:
        return ()
    layers = _layers(map(root_of, (module for module, _ in calls.values())))
    weights = {str(id(layer.weight)): layer.weight for layer in layers}
    absent = {*copies.without_values(weights)}
    written = written_weights(calls, [*weights.values()], has_values=not absent)
    made: dict[int, tuple[Quantized, str]] = {}
    lines, changed = [], 0
    for layer in layers:
        key, is_absent = id(layer.weight), str(id(layer.weight)) in absent
        why = refusal(layer.weight, quantization, has_values=not is_absent)
        why = "forward changes it" if key in written else why
        if any(hasattr(layer.module, name) for name in (CODES, SCALES, ZEROS)):
            why = f"it has an attribute that codes need: {CODES}, {SCALES} or {ZEROS}"
        if why is not None:
            lines.append(f"{layer.name}: kept, {why}")
            continue
        if key not in made:
            how = partial(_without_values, copies) if is_absent else _with_error
            made[key] = how(layer.weight, quantization)
        codes, error = made[key]
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
    """The codes, and how far the weight is from what the package makes of them."""
    made = quantized(weight, quantization)
    again = weight_of(made, quantization.kind, weight.dtype)
    size, error = 0.0, 0.0
    for start in range(0, len(again), _ROWS):
        wide = weight.detach()[start : start + _ROWS].double()
        size += float(wide.square().sum())
        error += float((again[start : start + _ROWS].double() - wide).square().sum())
    share = math.sqrt(error / size) if size else 0.0
    stored = made.codes.nbytes + made.scales.nbytes
    return made, f"error {share:.2%} of the weight's norm, {stored:,} bytes of {weight.nbytes:,}"


def with_codes(module: nn.Module, made: Quantized, kind: str, dtype: torch.dtype) -> None:
    """Give the layer codes, scales and zero points in place of its weight.

    Its weight has the type of the scales, which a cast of the model changes.
    """

    def weight(self: nn.Module) -> torch.Tensor:
        held = Quantized(getattr(self, CODES), getattr(self, SCALES), getattr(self, ZEROS, None))
        return weight_of(held, kind, held.scales.dtype)

    with_property(module, "weight", weight)
    del module._parameters["weight"]
    module.register_buffer(CODES, made.codes)
    module.register_buffer(SCALES, made.scales.to(dtype))
    if made.zeros is not None:
        module.register_buffer(ZEROS, made.zeros)
