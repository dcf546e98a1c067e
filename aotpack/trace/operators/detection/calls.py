"""torchvision's operators, replaced by functions in torch's operators while a model is decomposed.

They are known by their names: aotpack does not import torchvision.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch._ops import OpOverload, OpOverloadPacket
from torch.overrides import TorchFunctionMode

from aotpack.trace.operators.detection.regions import roi_align
from aotpack.trace.operators.detection.suppression import nms

_FUNCTIONS: Mapping[str, Callable[..., torch.Tensor]] = {
    "torchvision.nms": nms,
    "torchvision.roi_align": roi_align,
}
_OPERATORS = (OpOverload, OpOverloadPacket)


class DetectionCalls(TorchFunctionMode):
    """Inside the block, calls of torchvision's operators are replaced."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        name = str(func).removesuffix(".default") if isinstance(func, _OPERATORS) else ""
        return _FUNCTIONS.get(name, func)(*args, **(kwargs or {}))
