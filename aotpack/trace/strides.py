"""Results of an interpreted graph in the strides that export recorded for them.

Export decides by strides what a reshape is: a view of this layout, or a copy. An operator may give
another layout in float64, or on another device, than export foresaw; then the view is not possible.
"""

from typing import Any

import torch
from torch.utils import _pytree as pytree


def as_recorded(result: Any, recorded: Any) -> Any:
    """The results with the strides of ``recorded``, the values export traced with; copies if not.

    A layout that is unknown, or that overlaps itself (an expanded tensor's), is left as it is.
    """
    if isinstance(result, torch.Tensor) and isinstance(recorded, torch.Tensor):
        return _laid_out(result, recorded)
    leaves, structure = pytree.tree_flatten(result)
    known = pytree.tree_leaves(recorded)
    if len(leaves) != len(known):
        return result
    return pytree.tree_unflatten(list(map(_laid_out, leaves, known)), structure)


def _laid_out(value: Any, known: Any) -> Any:
    both = isinstance(value, torch.Tensor) and isinstance(known, torch.Tensor)
    if not both or value.layout is not torch.strided or value.numel() < 2:
        return value
    shape, strides = known_numbers(known.shape), known_numbers(known.stride())
    if shape != tuple(value.shape) or strides is None:
        return value
    wanted = [(size, stride) for size, stride in zip(shape, strides, strict=True) if size > 1]
    found = [(n, s) for n, s in zip(value.shape, value.stride(), strict=True) if n > 1]
    if wanted == found or any(stride == 0 for _, stride in wanted):
        return value
    return torch.empty_strided(shape, strides, dtype=value.dtype, device=value.device).copy_(value)


def expression_of(number: Any) -> Any:
    """The expression of a symbolic number, of which nothing is asked; others as they are."""
    return number.node.expr if isinstance(number, torch.SymInt) else number


def known_numbers(values: Any) -> tuple[int, ...] | None:
    """Sizes or strides of the example, None if they are not known; no guard is added."""
    hints = [value if isinstance(value, int) else value.node.hint for value in values]
    return tuple(map(int, hints)) if all(hint is not None for hint in hints) else None
