"""Strides of an order of dimensions, outermost first; no order is row-major."""

from collections.abc import Sequence


def strides(shape: Sequence[int], order: Sequence[int] = ()) -> tuple[int, ...]:
    """The strides of an order of dimensions, outermost first, in elements; else of row-major."""
    found, step = [1] * len(shape), 1
    for dimension in reversed(order or range(len(shape))):
        found[dimension] = step
        step *= max(1, shape[dimension])
    return tuple(found)


def is_dense(shape: Sequence[int], steps: Sequence[int] | None, order: Sequence[int] = ()) -> bool:
    """True for strides in elements that are those of an order, without gaps; None: of row-major.

    Strides of dimensions of size 1 say nothing.
    """
    if 0 in shape or (steps is None and not order):
        return True
    steps = strides(shape) if steps is None else steps
    expected = 1
    for dimension in reversed(order or range(len(shape))):
        if shape[dimension] != 1 and steps[dimension] != expected:
            return False
        expected *= shape[dimension]
    return True
