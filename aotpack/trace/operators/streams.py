"""Removes streams and events of forward (torch.cuda.stream, wait_stream).

They only order dependent work. A package orders its launches by data dependences, so it needs
neither. Export does not record most of them; in strict mode it records operators of the namespace
"streams".
"""

from typing import Any

import torch
from torch._ops import OpOverload, OpOverloadPacket
from torch.overrides import TorchFunctionMode


class WithoutStreams(TorchFunctionMode):
    """Inside the block, functions that order streams do nothing; they would need a GPU."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        is_operator = isinstance(func, (OpOverload, OpOverloadPacket))
        if (is_operator and str(func).startswith("streams.")) or func is torch.Tensor.record_stream:
            return None
        return func(*args, **(kwargs or {}))
