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
VIEWS_IN_PLACE = {
    getattr(owner, name): name
    for name in "as_strided_ squeeze_ swapaxes_ swapdims_ t_ transpose_ unsqueeze_".split()
    for owner in (torch.Tensor, torch)
    if hasattr(owner, name)
}
"""The functions that change how a tensor lies in its memory, not the memory; their names."""
_PACKAGE = str(Path(__file__).parents[2])


class UsersLines(TorchFunctionMode):
    """Inside the block, ``found`` gets the last line for each name.

    Names are those of buffers, parameters and modules that are assigned, and resize_. No mode sees
    set_. ``views`` gets the last line of each view in place, such as t_, for where torch makes no
    program that has it. ``operator`` is the function of torch that the model calls.
    """

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, str] = {}
        self.views: dict[str, str] = {}
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
            self._note("resize_", self.found)
        elif func in VIEWS_IN_PLACE:
            self._note(VIEWS_IN_PLACE[func], self.views)
        outer, self.operator = self.operator, getattr(func, "__name__", "")
        try:
            return func(*args, **(kwargs or {}))
        finally:
            self.operator = outer

    def _note_part(self, _module: nn.Module, name: str, _part: object) -> None:
        self._note(name, self.found)

    def _note(self, name: str, lines: dict[str, str]) -> None:
        for frame in reversed(traceback.extract_stack()):
            if frame.name in _OWN:
                continue
            if frame.filename.startswith(_PACKAGE):  # not forward, but what runs it
                return
            if is_user_file(frame.filename):
                lines[name] = shown_frame(frame)
                return


def hint_of_views(views: Mapping[str, str]) -> str:
    """What to write in place of the views in place of a forward that torch does not take."""
    places = "".join(f"\n  at {line}" for line in views.values())
    return (
        f"\nforward calls {' and '.join(views)}, which torch does not take for an input; write a "
        f"view, as y = x.t() in place of x.t_(){places}"
        if views
        else ""
    )


def at_line(lines: Mapping[str, str], name: str) -> str:
    """The end of a message: the line for a name, if there is one."""
    return f"\n  at {lines[name]}" if name in lines else ""
