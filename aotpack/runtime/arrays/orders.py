"""numpy arrays in a memory order: their dimensions, outermost first; empty for row-major."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..dtypes import Array


def empty(
    shape: Sequence[int],
    storage: Any,
    order: Sequence[int] = (),
    make: Callable[..., Any] = np.empty,
) -> Any:
    """An array without contents, dense in an order; ``make`` is that of numpy or CuPy."""
    if not order:
        return make(shape, storage)
    return from_memory(make([shape[dim] for dim in order], storage), order)


def laid_out(array: Array, storage: Any, order: Sequence[int] = ()) -> Any:
    """A copy of an array, dense in an order."""
    if not order:
        return np.array(array, storage, order="C")
    return from_memory(np.array(array.transpose(order), storage, order="C"), order)


def from_memory(rows: Any, order: Sequence[int]) -> Any:
    """The array or tensor whose dimensions in memory are those of a row-major one."""
    places = [order.index(dim) for dim in range(len(order))]
    return rows.permute(places) if hasattr(rows, "permute") else rows.transpose(places)
