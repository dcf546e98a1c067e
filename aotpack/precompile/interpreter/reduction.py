"""Reductions and scans for Triton's interpreter, on whole blocks instead of elements."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aotpack.precompile.interpreter.libdevice import Block, make_tensor


def reduce(
    input: Any, axis: Any, combine_fn: Callable[..., Any], keep_dims: Any = False, **_: Any
) -> Any:
    """``tl.reduce``: neighbours are combined until one is left, so their order is kept."""
    tensors = input if isinstance(input, tuple) else (input,)
    blocks = [tensor.handle.data for tensor in tensors]
    dimensions = blocks[0].ndim
    if axis is None:
        blocks, along = [block.reshape(-1) for block in blocks], 0
    else:
        along = int(axis) % dimensions
    blocks = [np.moveaxis(block, along, 0) for block in blocks]
    while len(blocks[0]) > 1:
        paired = len(blocks[0]) // 2 * 2
        combined = _combine(
            combine_fn, tensors, [b[:paired:2] for b in blocks], [b[1:paired:2] for b in blocks]
        )
        blocks = [np.concatenate((j, b[paired:])) for j, b in zip(combined, blocks, strict=True)]
    results = [block[0] for block in blocks]
    if keep_dims:
        kept = tuple(range(dimensions)) if axis is None else along
        results = [np.expand_dims(block, kept) for block in results]
    made = tuple(make_tensor(block, t.dtype) for block, t in zip(results, tensors, strict=True))
    return made if isinstance(input, tuple) else made[0]


def associative_scan(
    input: Any, axis: Any, combine_fn: Callable[..., Any], reverse: Any = False, **_: Any
) -> Any:
    """``tl.associative_scan``: each round doubles the distance of the combined positions."""
    tensors = input if isinstance(input, tuple) else (input,)
    along = int(axis) % tensors[0].handle.data.ndim
    blocks = [np.moveaxis(tensor.handle.data, along, 0) for tensor in tensors]
    if reverse:
        blocks = [block[::-1] for block in blocks]
    distance = 1
    while distance < len(blocks[0]):
        before = [np.roll(block, distance, 0) for block in blocks]
        combined = _combine(combine_fn, tensors, before, blocks)
        blocks = [
            np.concatenate((b[:distance], j[distance:]))
            for b, j in zip(blocks, combined, strict=True)
        ]
        distance *= 2
    if reverse:
        blocks = [block[::-1] for block in blocks]
    made = tuple(
        make_tensor(np.ascontiguousarray(np.moveaxis(block, 0, along)), tensor.dtype)
        for block, tensor in zip(blocks, tensors, strict=True)
    )
    return made if isinstance(input, tuple) else made[0]


def _combine(
    combine_fn: Callable[..., Any],
    tensors: Sequence[Any],
    left: Sequence[Block],
    right: Sequence[Block],
) -> list[Block]:
    """The combine function on blocks instead of elements."""
    args = [
        make_tensor(b, t.dtype)
        for side in (left, right)
        for b, t in zip(side, tensors, strict=True)
    ]
    answer = combine_fn(*args)
    answers = answer if isinstance(answer, tuple) else (answer,)
    return [
        np.broadcast_to(a.handle.data, b.shape).astype(b.dtype)
        for a, b in zip(answers, left, strict=True)
    ]
