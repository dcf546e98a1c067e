"""Streams and events in forward (torch.cuda.stream, wait_stream) are left out.

It orders work that reads what other work writes, and computes nothing. A package orders its
launches by exactly that, whatever stream they run on, so it is left out. Export does not see most
of it; in strict mode it records operators of the namespace "streams".
"""

from typing import Any

import torch
from torch._ops import OpOverload, OpOverloadPacket
from torch.overrides import TorchFunctionMode


class WithoutStreams(TorchFunctionMode):
    """Inside the block, what only orders streams is not done: it needs a GPU, and its streams."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        is_operator = isinstance(func, (OpOverload, OpOverloadPacket))
        if (is_operator and str(func).startswith("streams.")) or func is torch.Tensor.record_stream:
            return None
        return func(*args, **(kwargs or {}))
