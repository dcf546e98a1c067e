"""Modules whose weight is made of codes where it is used, in place of linear layers and embeddings.

A layer keeps its class's forward: the class made here has ``weight`` as a property. Layers that
share a weight share its codes.
"""

import math
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from inspect import getattr_static
from typing import Any, TypeAlias

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from aotpack.errors import UsageError
from aotpack.ir.ops.quantization import Quantization
from aotpack.trace.agreement.steps import (
    CallFails,
    Calls,
    Seen,
    departure,
    seen_call,
    seen_calls,
)
from aotpack.trace.host.copies import HostCopies
from aotpack.trace.layers.adapters import is_adapter
from aotpack.trace.layers.properties import with_property
from aotpack.trace.methods import root_of
from aotpack.trace.quantize.codes import Quantized, quantized, refusal, weight_of

CODES, SCALES, ZEROS = "weight_codes", "weight_scales", "weight_zeros"
_ROWS = 1024  # at a time, as float64
_READ_FLAG = getattr_static(torch.Tensor, "requires_grad").__get__


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
    absent = {*map(int, copies.without_values(weights))}
    seen = seen_calls(calls, [*weights.values()], has_values=not absent)
    written = {one for call in seen.values() for one in call.written}
    lines, coded = _coded(layers, written, absent, quantization, copies)
    if not coded:
        reasons = "; ".join(lines) or _neither(calls)
        group = ", or give a group that divides the rows" * (quantization.group is not None)
        raise UsageError(
            f"packaging {package}: quantize={str(quantization)!r} finds no layer: {reasons}. Leave "
            f"the option out{group}."
        )
    _check_reads(calls, seen, [*weights.values()], coded, quantization, package)
    for layer, codes in coded:
        with_codes(layer.module, codes, quantization.kind, layer.weight.dtype)
    return tuple(lines)


def _neither(calls: Calls) -> str:
    """What a model without layers for codes has."""
    parts = {id(part): part for one, _ in calls.values() for part in root_of(one).modules()}
    owners = [part for part in parts.values() if any(True for _ in part.parameters(recurse=False))]
    counts = Counter(type(part).__name__ for part in owners)
    found = ", ".join(f"{count} {name}" for name, count in counts.items()) or "no weights"
    own = " with a weight of its own" * any(map(_is_layer, parts.values()))
    return (
        f"weights of nn.Linear and nn.Embedding become codes, and it has neither{own}, but {found}"
    )


_Coded: TypeAlias = Sequence[tuple[_Layer, Quantized]]


def _coded(
    layers: Sequence[_Layer],
    written: Container[int],
    absent: Container[int],
    quantization: Quantization,
    copies: HostCopies,
) -> tuple[list[str], _Coded]:
    """A line for each layer, and the codes of those that have some."""
    made: dict[int, tuple[Quantized, str]] = {}
    lines, coded = list[str](), list[tuple[_Layer, Quantized]]()
    for layer in layers:
        key = id(layer.weight)
        why = refusal(layer.weight, quantization, has_values=key not in absent)
        why = "forward changes it" if key in written else why
        if any(hasattr(layer.module, name) for name in (CODES, SCALES, ZEROS)):
            why = f"it has an attribute that codes need: {CODES}, {SCALES} or {ZEROS}"
        if why is not None:
            lines.append(f"{layer.name}: kept, {why}")
            continue
        if key not in made:
            how = partial(_without_values, copies) if key in absent else _with_error
            made[key] = how(layer.weight, quantization)
        codes, error = made[key]
        coded.append((layer, codes))
        lines.append(f"{layer.name}: {error}")
    return lines, coded


def _check_reads(
    calls: Calls,
    seen: Mapping[str, Seen],
    weights: Sequence[torch.Tensor],
    coded: _Coded,
    quantization: Quantization,
    package: str,
) -> None:
    """Refuse a forward that takes a weight for a parameter, which codes are not.

    With codes, but the values of the weights, a call must do what it does without.
    """
    for name, before in seen.items():
        module, example = calls[name]
        try:
            with _with_codes_of_weights(coded, quantization):
                found = seen_call(module, example, weights, has_values=before.has_values)
            how = departure(before.steps, found.steps)
        except CallFails as error:
            how = f"it fails: {type(error.__cause__).__name__}: {error.__cause__}"
        again = how and seen_call(module, example, weights, has_values=before.has_values)
        if again and again.steps == before.steps:
            where = f"packaging {package}.{name}" if name else f"packaging {package}"
            raise UsageError(
                f"{where}: with codes in place of weights, forward computes something else: {how}. "
                "Codes are no parameters: a forward reads a weight as an attribute of its layer, "
                "layer.weight, not by parameters() or state_dict(), and does not ask for its "
                "class. Change it so, or leave quantize out."
            )


@contextmanager
def _with_codes_of_weights(coded: _Coded, quantization: Quantization) -> Iterator[None]:
    """The layers with codes, and with what a call reads of these as exact as the weights are."""
    before = [
        (one.module, type(one.module), {**one.module._parameters}, {**one.module._buffers})
        for one, _ in coded
    ]
    given = list[torch.Tensor]()
    try:
        for layer, codes in coded:
            with_codes(layer.module, codes, quantization.kind, layer.weight.dtype)
            exact = layer.weight.detach()
            exact.requires_grad_(layer.weight.requires_grad)  # torch asks before it folds a product
            with_property(layer.module, "weight", partial(_given, exact))
            given.append(exact)
        with _WithoutGradient(given):
            yield
    finally:
        for module, kind, parameters, buffers in before:
            object.__setattr__(module, "__class__", kind)
            module._parameters.clear()
            module._parameters.update(parameters)
            module._buffers.clear()
            module._buffers.update(buffers)


class _WithoutGradient(TorchFunctionMode):
    """A forward that asks is told of weights what is true of codes: they require no gradient."""

    def __init__(self, weights: Iterable[torch.Tensor]) -> None:
        super().__init__()
        self._weights = {*map(id, weights)}

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func == _READ_FLAG and id(args[0]) in self._weights:
            return False
        return func(*args, **(kwargs or {}))


def _given(exact: torch.Tensor, layer: nn.Module) -> torch.Tensor:
    return exact


def _layers(modules: Iterable[nn.Module]) -> list[_Layer]:
    found: dict[int, _Layer] = {}
    for root in modules:
        for name, module in root.named_modules():
            weight = module._parameters.get("weight")
            if is_adapter(name):  # files have its weights as they are
                continue
            if _is_layer(module) and weight is not None and weight.is_floating_point():
                found.setdefault(id(module), _Layer(name or "the model", module, weight))
    return list(found.values())


def _is_layer(module: nn.Module) -> bool:
    """True also where the weight is computed from others, as by ``weight_norm``."""
    return isinstance(module, (nn.Linear, nn.Embedding))


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
