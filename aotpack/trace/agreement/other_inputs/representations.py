"""The model on the same numbers in tensors that are represented otherwise.

A package sees the elements of an argument. Whether these lie in a view of a larger tensor
(``x._base``, ``x.storage_offset()``), were written before (``x._version``), or are kept as
conjugates or negatives (``x.is_conj()``, ``x.is_neg()``) leaves no guard.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from aotpack.trace.agreement.other_inputs.trials import Comparison, Trial
from aotpack.trace.eager import Call
from aotpack.trace.operators.named_sizes import names_in

_QUESTIONS = (
    *("_base", "_is_view", "_version", "storage_offset", "storage", "untyped_storage"),
    *("_typed_storage", "is_conj", "is_neg"),
)
_ADVICE = (
    "A package sees the elements of an argument, not the memory that they lie in. Accepted is a "
    f"model whose results follow the elements alone: look for {', '.join(_QUESTIONS)}"
)


def check_representations(call: Call, compare: Comparison) -> None:
    """Refuse a program that departs from the model on the same numbers, represented otherwise.

    ``compare`` takes a call, its results and where it is, to compare further programs. The model
    runs only where its code names one of the questions.
    """
    if names_in(call.module).isdisjoint(_QUESTIONS):
        return
    _check(call, compare, "as views of larger tensors,", _view)
    _check(call, compare, "kept as negatives or conjugates,", _opposite)


def _check(
    call: Call, compare: Comparison, how: str, other: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    given: list[tuple[torch.Tensor, torch.Tensor, int]] = []

    def replaced(tensor: torch.Tensor) -> torch.Tensor:
        try:
            found = other(tensor)
        except RuntimeError:  # float8 has no negative
            found = tensor
        if found is not tensor:
            vars(found).update(vars(tensor))
        given.append((tensor, found, found._version))
        return found

    def before(module: Any, args: Any, kwargs: Any) -> Any:
        given.clear()
        return pytree.tree_map_only(torch.Tensor, replaced, (args, kwargs))

    def after(module: Any, args: Any, result: Any) -> None:
        for tensor, one, version in given:
            if one._version != version:
                tensor.copy_(one)

    hooks = (
        call.module.register_forward_pre_hook(before, prepend=True, with_kwargs=True),
        call.module.register_forward_hook(after),
    )
    try:
        Trial(f"on the example inputs {how}", _ADVICE, compare).check(call, lambda error: False)
    finally:
        for hook in hooks:
            hook.remove()


def _view(tensor: torch.Tensor) -> torch.Tensor:
    """The same elements and strides, behind the first of a larger tensor that was written."""
    span = sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    whole = tensor.new_empty(max(0, span) + 2)
    found = whole.as_strided(tensor.shape, tensor.stride(), 1)
    return found.copy_(tensor)


def _opposite(tensor: torch.Tensor) -> torch.Tensor:
    """The same elements, kept as negatives or conjugates; tensors that cannot, as they are."""
    if tensor.is_complex():
        return tensor.conj().resolve_conj().conj()
    return torch._neg_view(-tensor) if tensor.is_floating_point() else tensor
