"""``associative_scan``: dynamic sizes beside the dimension along which it goes."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any

import torch
from torch.utils import _pytree as pytree

from aotpack.errors import TraceError
from aotpack.trace.operators.modes import patched

_Tensors = Sequence[torch.Tensor]
_Combined = Callable[[_Tensors, _Tensors], _Tensors]


def scans_of_any_length() -> AbstractContextManager[None]:
    """Inside the block, generic scans take dynamic sizes; torch takes the example's."""
    module = import_module("torch._higher_order_ops.associative_scan")
    return patched(module, "generic_associative_scan", _scanning)


def _scanning(plain: Callable[..., Any]) -> Callable[..., Any]:
    def scanned(operator: Any, leaves: _Tensors, dim: int = 0, additional_inputs: Any = ()) -> Any:
        sizes = [size for leaf in leaves for size in leaf.shape]
        if dim != 0 or not any(isinstance(size, torch.SymInt) for size in sizes):
            return plain(operator, leaves, dim, additional_inputs)
        if any(isinstance(leaf.shape[0], torch.SymInt) for leaf in leaves):
            raise TraceError(
                "associative_scan goes along a dimension of dynamic length; accepted are one of "
                "fixed length, and torch._higher_order_ops.scan.scan, which takes any length"
            )

        def combined(first: _Tensors, second: _Tensors) -> _Tensors:
            found: _Tensors = pytree.tree_leaves(operator(*first, *second, *additional_inputs))
            return found

        return _by_halves(combined, leaves)

    return scanned


def _by_halves(combine: _Combined, xs: _Tensors) -> _Tensors:
    """The scan of sums of pairs is that at odd places; at even ones it has an element more."""
    count = xs[0].shape[0]
    if count == 1:
        return xs
    odd = _by_halves(combine, combine([x[: count - 1 : 2] for x in xs], [x[1::2] for x in xs]))
    even = [x[:1] for x in xs]
    if count > 2:
        more = combine([one[: (count - 1) // 2] for one in odd], [x[2::2] for x in xs])
        even = [torch.cat(pair) for pair in zip(even, more, strict=True)]
    return [_interleaved(*pair, count) for pair in zip(even, odd, strict=True)]


def _interleaved(even: torch.Tensor, odd: torch.Tensor, count: int) -> torch.Tensor:
    pairs = torch.stack([even[: count // 2], odd], 1).flatten(0, 1)
    return torch.cat([pairs, even[count // 2 :]]) if count % 2 else pairs
