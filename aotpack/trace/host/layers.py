"""The layer of a library that raises: its line is no user's, so an error names it by its path."""

from traceback import walk_tb
from types import FrameType
from typing import Any

import torch
from torch import nn

from aotpack.trace.source import is_user_file


def failed_layer(model: nn.Module, error: BaseException) -> str:
    """The innermost layer whose ``forward`` raises, with what it was given, as the end of an error.

    "" where the user wrote that ``forward``, of which the line is told.
    """
    frames = [frame for frame, _ in walk_tb(error.__traceback__) if _is_forward(frame)]
    if not frames or is_user_file(frames[-1].f_code.co_filename):
        return ""
    frame, code = frames[-1], frames[-1].f_code
    layer = frame.f_locals["self"]
    names = [name for name, one in model.named_modules() if one is layer]
    if not names:  # a module of torch.export, around the model
        return ""
    place = f"{names[0]}, " if names[0] else ""
    inputs = [frame.f_locals.get(name) for name in code.co_varnames[1 : code.co_argcount]]
    given = ", ".join(_shown(one) for one in inputs if isinstance(one, torch.Tensor))
    what = f"{place}{type(layer).__name__}({layer.extra_repr()})"
    return f"\n  in the layer {what}" + (f" of {given}" if given else "")


def _is_forward(frame: FrameType) -> bool:
    return frame.f_code.co_name == "forward" and isinstance(frame.f_locals.get("self"), nn.Module)


def _shown(tensor: torch.Tensor) -> str:
    sizes = ", ".join(map(str, map(_of_example, tensor.shape)))
    return f"{str(tensor.dtype).removeprefix('torch.')}[{sizes}]"


def _of_example(size: Any) -> Any:
    """The example's size; "?" where data decide it."""
    if not isinstance(size, torch.SymInt):
        return size
    return size.node.hint if size.node.has_hint() else "?"
