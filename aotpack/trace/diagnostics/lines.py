"""The user's lines that give modules other parts, or tensors other memory."""

import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import torch
from torch import nn
from torch.nn.modules import module as hooks
from torch.overrides import TorchFunctionMode

from aotpack.trace.source import is_user_file, shown_frame

_OWN = ("_note", "_note_part", "__torch_function__")
_PACKAGE = str(Path(__file__).parents[2])


class UsersLines(TorchFunctionMode):
    """Inside the block, ``found`` gets the last line for each name.

    Names are those of buffers, parameters and modules that are assigned, and resize_. No mode sees
    set_. ``operator`` is the function of torch that the model calls at the moment.
    """

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, str] = {}
        self.operator = ""
        self._hooks: list[Any] = []

    def __enter__(self) -> Self:
        self._hooks = [
            hooks.register_module_buffer_registration_hook(self._note_part),
            hooks.register_module_parameter_registration_hook(self._note_part),
            hooks.register_module_module_registration_hook(self._note_part),
        ]
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: Any) -> None:
        for hook in self._hooks:
            hook.remove()
        super().__exit__(*error)  # type: ignore[no-untyped-call]

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func is torch.Tensor.resize_:
            self._note("resize_")
        outer, self.operator = self.operator, getattr(func, "__name__", "")
        try:
            return func(*args, **(kwargs or {}))
        finally:
            self.operator = outer

    def _note_part(self, _module: nn.Module, name: str, _part: object) -> None:
        self._note(name)

    def _note(self, name: str) -> None:
        for frame in reversed(traceback.extract_stack()):
            if frame.name in _OWN:
                continue
            if frame.filename.startswith(_PACKAGE):  # not forward, but what runs it
                return
            if is_user_file(frame.filename):
                self.found[name] = shown_frame(frame)
                return


def at_line(lines: Mapping[str, str], name: str) -> str:
    """The end of a message: the line for a name, if there is one."""
    return f"\n  at {lines[name]}" if name in lines else ""
