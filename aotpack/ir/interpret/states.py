"""States of reductions and scans: those of elements, and of neighbours together."""

from collections.abc import Callable

import numpy as np

from aotpack.ir.ops.monoid import Monoid, States
from aotpack.ir.ops.reference import Array


def lifted(monoid: Monoid, elements: Array, position: Array | None = None) -> States:
    """The states of elements. By default, positions are indices in the last dimension."""
    if position is None:
        position = np.broadcast_to(np.arange(elements.shape[-1], dtype=np.int64), elements.shape)
    return monoid.lift(elements, position)


def combined(monoid: Monoid, a: States, b: States) -> States:
    """The states of two runs of elements, one behind the other."""
    pairs: Callable[..., States] = monoid.combine
    return tuple(np.asarray(new).astype(old.dtype) for new, old in zip(pairs(a, b), a, strict=True))


def halved(monoid: Monoid, states: States) -> States:
    """Combine neighbours in pairs; an odd last state stays."""
    count = states[0].shape[-1]
    even = tuple(state[..., 0 : count - count % 2 : 2] for state in states)
    odd = tuple(state[..., 1:count:2] for state in states)
    pairs = combined(monoid, even, odd)
    if count % 2 == 0:
        return pairs
    return tuple(
        np.concatenate((pair, state[..., -1:]), -1)
        for pair, state in zip(pairs, states, strict=True)
    )
