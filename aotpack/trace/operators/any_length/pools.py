"""How many windows pools have in ceil mode, without a branch on the size."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import _meta_registrations as meta

from aotpack.trace.operators.modes import patched


def pools_of_any_length() -> AbstractContextManager[None]:
    """Inside the block, the number of windows is a formula of a dynamic size.

    torch counts the steps to the last place, rounded up, and takes the last window away if it
    begins behind the elements and the padding before them. That happens for no size, or the
    windows are those that begin before that end.
    """
    return patched(meta, "pooling_output_shape_pad_lr", _counting)


def _counting(plain: Callable[..., Any]) -> Callable[..., Any]:
    def count(
        size: Any, kernel: int, before: int, after: int, step: int, gap: int, ceil: bool
    ) -> Any:
        if not ceil or not isinstance(size, torch.SymInt):
            return plain(size, kernel, before, after, step, gap, ceil)
        beyond = gap * (kernel - 1) + 1 - after  # from the last place to that end
        if step <= beyond:
            return (size + before - beyond + step - 1) // step + 1
        return (size + before + step - 1) // step

    return count
