"""What torch's rules for shapes ask of dynamic sizes, answered without a condition on them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import _meta_registrations as meta
from torch._decomp import decompositions as resampling
from torch._subclasses import fake_impls
from torch.fx.experimental.symbolic_shapes import statically_known_true

from aotpack.trace.operators.any_length.remainders import remainders_of_any_length
from aotpack.trace.operators.any_length.scans import scans_of_any_length
from aotpack.trace.operators.modes import patched

_larger: Callable[..., Any] = torch.sym_max
_COPY = torch.ops.aten.copy.default


@contextmanager
def shapes_of_any_length() -> Iterator[None]:
    """Inside the block, pools in ceil mode, images and copies into views ask for no sizes.

    How many windows there are is a formula, and so is the step between elements of an image, whose
    corners are kept. Of a view that is written to, torch asks for its layout, and so whether a size
    is 1. Remainders of negative sizes are those of sizes.
    """
    copies: dict[Any, Callable[..., Any]] = getattr(fake_impls, "op_implementations_dict", {})
    before = copies.get(_COPY)
    if before is not None:
        copies[_COPY] = _copying(before)
    try:
        with (
            patched(meta, "pooling_output_shape_pad_lr", _counting),
            scans_of_any_length(),
            remainders_of_any_length(),
            patched(resampling, "_compute_scale", _scaling),
            patched(torch, "_debug_has_internal_overlap", _looking),
        ):
            yield
    finally:
        if before is not None:
            copies[_COPY] = before


def _counting(plain: Callable[..., Any]) -> Callable[..., Any]:
    """The number of windows of pools.

    torch counts the steps to the last place, rounded up, and takes the last window away if it
    begins behind the elements and the padding before them. That happens for no size, or the
    windows are those that begin before that end.
    """

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


def _scaling(plain: Callable[..., Any]) -> Callable[..., Any]:
    """The step from one element to the next; of one element any step is right."""

    def scale(size: Any, count: Any, corners: bool, *given: Any) -> Any:
        if not corners or not isinstance(count, torch.SymInt):
            return plain(size, count, corners, *given)
        return (size - 1.0) / _larger(count - 1, 1)

    return scale


def _looking(plain: Callable[[torch.Tensor], int]) -> Callable[[torch.Tensor], int]:
    """Whether elements share memory: 1 for yes, 2 where that is not known."""

    def overlap(tensor: torch.Tensor) -> int:
        if not _is_dynamic(tensor):
            return plain(tensor)
        pairs = zip(tensor.shape, tensor.stride(), strict=True)
        return 1 if any(_repeats(size, stride) for size, stride in pairs) else 2

    return overlap


def _repeats(size: Any, stride: Any) -> bool:
    return statically_known_true(stride == 0) and not statically_known_true(size <= 1)


def _copying(plain: Callable[..., Any]) -> Callable[..., Any]:
    """The value of a view after a copy into it, which lies as the view does."""

    def copied(mode: Any, function: Any, self: torch.Tensor, *given: Any, **options: Any) -> Any:
        if not _is_dynamic(self):
            return plain(mode, function, self, *given, **options)
        with mode:
            return self.new_empty_strided(self.shape, self.stride())

    return copied


def _is_dynamic(tensor: torch.Tensor) -> bool:
    return any(isinstance(one, torch.SymInt) for one in (*tensor.shape, *tensor.stride()))
