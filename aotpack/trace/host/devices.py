"""Devices that a model names are the host, while it is copied, exported and run."""

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from aotpack.trace.host.copies import HOST, HostCopies, is_ready


class Copying(TorchFunctionMode):
    """Inside the block, a deep copy of a tensor is on the host."""

    def __init__(self, copies: HostCopies) -> None:
        super().__init__()
        self._copies = copies

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func in (torch.Tensor.__deepcopy__, torch.Tensor.clone) and not is_ready(args[0]):
            return self._copies.of(args[0])
        return func(*args, **(kwargs or {}))


class OnHost(TorchFunctionMode):
    """Inside the block, the devices that functions are given are the host."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func is torch.Tensor.cuda:
            return args[0]
        if func is torch.device:
            return _on_host(args[0], is_device=True) if args else HOST
        given = dict(kwargs or {})
        if "device" in given:
            given["device"] = _on_host(given["device"], is_device=True)
        is_place = func is torch.Tensor.to
        args = tuple(_on_host(arg, is_device=is_place and n == 1) for n, arg in enumerate(args))
        if func is torch.Tensor.type and len(args) > 1 and isinstance(args[1], str):
            args = (args[0], args[1].replace("torch.cuda.", "torch."), *args[2:])
        return func(*args, **given)


def _on_host(value: Any, *, is_device: bool) -> Any:
    """The host for a device, in any form where one is meant; meta stays."""
    if isinstance(value, torch.device):
        return value if value.type == "meta" else HOST
    if is_device and isinstance(value, (str, int)):
        return torch.device("meta") if str(value).startswith("meta") else HOST
    return value
