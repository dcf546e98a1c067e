"""Another example for torch.export, where sizes that follow from the first one's are 1.

torch.export fixes a size of 1: of ``x[:, 1::3].flatten()`` it learns that a row has one element
where the example has four columns. On larger sizes it learns nothing of the kind.
"""

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import sympy
import torch
from torch.export import Dim
from torch.utils import _pytree as pytree

from aotpack.trace.agreement.other_inputs.resized import repeated
from aotpack.trace.diagnostics.guards import LeafSpec
from aotpack.trace.operators.random.seeds import Example

_ABOVE = 4  # what is added to a size at least


def enlarged(example: Example, specs: Sequence[LeafSpec]) -> Example | None:
    """The example with its elements repeated to other sizes; None where there are none.

    ``specs`` are those of the leaves of the example. Sizes are primes that differ, in the order of
    the example's, and larger where their ranges allow it.
    """
    leaves, tree = pytree.tree_flatten(example)
    dims = [_by_axis(spec.dims) for spec in specs] or [{} for _ in leaves]
    tensors = list(zip(leaves, dims, strict=True))
    sizes: dict[Any, int] = {}
    for root, size in (one for x, by_axis in tensors for one in _roots(x, by_axis)):
        sizes.setdefault(root, size)
    larger = dict[Any, int]()
    for root, size in sorted(sizes.items(), key=lambda one: -one[1]):
        most = min(root.max, min(larger.values(), default=sys.maxsize) - 1)
        prime = sympy.nextprime(size + _ABOVE - 1)
        if prime > most:
            prime = sympy.prevprime(most + 1) if most >= 2 else 0
        if prime < max(2, root.min):
            return None
        larger[root] = int(prime)
    if larger == sizes:
        return None
    found = [_resized(x, by_axis, larger) for x, by_axis in tensors]
    made: Example = pytree.tree_unflatten(found, tree)
    return made


def _by_axis(dims: Any) -> dict[int, Any]:
    return dict(dims) if isinstance(dims, dict) else dict(enumerate(dims or ()))


def _roots(x: Any, dims: dict[int, Any]) -> Iterator[tuple[Any, int]]:
    """The declared sizes of a tensor, or those that its dimensions follow from, with values."""
    for axis, dim in dims.items():
        if isinstance(dim, Dim) and isinstance(x, torch.Tensor):
            root: Any = getattr(dim, "root", dim)
            tried = range(max(1, root.min), x.shape[axis] + 1)
            size = next((n for n in tried if _size(dim, n) == x.shape[axis]), None)
            if size is not None:
                yield root, size


def _size(dim: Any, size: int) -> int:
    """A dimension, where the size that it follows from is given."""
    return int(dim.fn(size)) if hasattr(dim, "root") else size


def _resized(x: Any, dims: dict[int, Any], sizes: dict[Any, int]) -> Any:
    if not isinstance(x, torch.Tensor):
        return x
    shape = [*x.shape]
    for axis, dim in dims.items():
        root = getattr(dim, "root", dim)
        if isinstance(dim, Dim) and root in sizes:
            shape[axis] = _size(dim, sizes[root])
    return repeated(x, shape)
