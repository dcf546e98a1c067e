"""Weights that are objects around tensors, as of torchao: their parts become weights of the model.

A ``weight`` with the parts ``qdata`` and ``scale`` is ``weight_qdata`` and ``weight_scale``, and is
put together again where ``forward`` reads it. Shared weights share their parts.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from aotpack.trace.layers.properties import with_property
from aotpack.trace.quantize.four_bits import Flattened, Parts, repacked


def with_plain_weights(roots: Iterable[nn.Module]) -> None:
    """Change the layers of these modules, which are copies, in place."""
    known: dict[int, tuple[Any, Flattened]] = {}
    for root in roots:
        for module in [*root.modules()]:
            for held in (module._parameters, module._buffers):
                for name, tensor in [*held.items()]:
                    if tensor is not None and _is_read_in_python(tensor):
                        del held[name]
                        if id(tensor) not in known:
                            known[id(tensor)] = tensor, _taken(tensor)
                        _put(module, name, known[id(tensor)][1])


def _is_seen(tensor: Any) -> bool:
    """True for an object whose operators export sees as calls in Python."""
    return type(tensor).__torch_function__ is not torch._C._disabled_torch_function_impl


def _is_read_in_python(tensor: Any) -> bool:
    """True too for one that is widened before it is used; others the whole program takes apart."""
    if not is_traceable_wrapper_subclass(tensor):
        return False
    return _is_seen(tensor) or getattr(tensor, "act_quant_kwargs", tensor) is None


def _taken(tensor: torch.Tensor) -> Flattened:
    """The parts of a weight, and what its layer reads."""
    if (own_codes := repacked(tensor)) is not None:
        return own_codes
    parts, whole = _taken_apart(tensor)
    return parts, whole if _is_seen(tensor) else lambda given: _widened(whole(given))


def _widened(made: Any) -> torch.Tensor:
    wide: torch.Tensor = made.dequantize()
    return wide


def _put(module: nn.Module, name: str, taken: Flattened) -> None:
    """Give the module parts in place of a tensor; its class reads the tensor from them."""
    parts, whole = taken
    for part, plain in parts.items():
        module.register_buffer(f"{name}{part}", plain)

    def read(self: nn.Module) -> torch.Tensor:
        return whole({part: getattr(self, f"{name}{part}") for part in parts})

    with_property(module, name, read)


def _taken_apart(tensor: torch.Tensor) -> Flattened:
    """The plain tensors that an object is made of, and what puts them together."""
    if not is_traceable_wrapper_subclass(tensor):
        return {"": tensor.detach()}, _only
    kind: Any = type(tensor)
    names, context = tensor.__tensor_flatten__()
    inner = {name: _taken_apart(getattr(tensor, name)) for name in names}
    size, stride = tensor.size(), tensor.stride()
    parts = {
        f"_{name.strip('_')}{part}": plain
        for name, (own, _) in inner.items()
        for part, plain in own.items()
    }

    def whole(given: Parts) -> torch.Tensor:
        held = {}
        for name, (own, put) in inner.items():
            held[name] = put({part: given[f"_{name.strip('_')}{part}"] for part in own})
        made: torch.Tensor = kind.__tensor_unflatten__(held, context, size, stride)
        return made

    return parts, whole


def _only(parts: Parts) -> torch.Tensor:
    return parts[""]
