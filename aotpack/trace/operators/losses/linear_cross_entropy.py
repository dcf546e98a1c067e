"""``linear_cross_entropy`` in chunks, by blocks of classes in place of torch's chunks of rows.

A block's logits end before the next block's begin, so memory is rows x block for any number of
rows. Of each row they leave the logarithm of the sum of exponentials, and the target's logit.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.nn import functional

from aotpack.errors import UnsupportedError
from aotpack.trace.operators.control_flow.control import SCAN

_LEAST, _MOST = 4096, 32  # classes of a block, and blocks: each reads the rows again
State: TypeAlias = tuple[Tensor, Tensor]
"""Of each row the logarithm of the sum so far, and the target's logit if it has come."""

_SMALL = (torch.float16, torch.bfloat16)


def _no_gradients(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    linear_bias: Tensor | None,
    weight: Tensor | None,
    reduction: str,
    ignore_index: int,
    label_smoothing: float,
    *options: Any,
) -> tuple[Tensor, ...]:
    """The sum or mean; torch's operator also returns gradients, of which a package has none."""
    if any(options[-3:]) or label_smoothing:
        what = "label smoothing" if label_smoothing else "gradients"
        raise UnsupportedError(
            f"linear_cross_entropy in chunks is packaged without {what}; pass options=None, or "
            "call model.requires_grad_(False) before the build"
        )
    given = input, linear_weight, target, linear_bias, weight, ignore_index
    losses, weights = _losses(*given)
    total = losses.sum()
    found = total / weights.sum() if reduction == "mean" else total
    empty = input.new_empty(0, 0)
    return found.to(input.dtype), empty, empty.clone(), input.new_empty(0)


def _of_rows(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    linear_bias: Tensor | None,
    weight: Tensor | None,
    ignore_index: int,
    *options: Any,
) -> Tensor:
    """The loss of each row."""
    losses, _ = _losses(input, linear_weight, target, linear_bias, weight, ignore_index)
    return losses.to(input.dtype)


def _losses(
    rows: Tensor,
    matrix: Tensor,
    target: Tensor,
    bias: Tensor | None,
    weight: Tensor | None,
    ignored: int,
) -> tuple[Tensor, Tensor]:
    """Of each row the weighted loss, and the weight of its class; 0 for ignored rows."""
    classes = matrix.shape[0]
    block = max(_LEAST, -(-classes // _MOST))
    matrix, bias = matrix.to(rows.dtype), None if bias is None else bias.to(rows.dtype)
    kept = torch.float32 if rows.dtype in _SMALL else rows.dtype
    first = torch.full_like(target, -torch.inf, dtype=kept)
    state: State = (first, torch.zeros_like(first))
    if classes >= 2 * block:
        state = _in_blocks(state, rows, target, matrix, bias, block)
    start = classes // block * block if classes >= 2 * block else 0
    if start < classes:
        given = None if bias is None else bias[start:]
        state = _joined(*state, rows, target - start, matrix[start:], given)
    sums, own = state
    counted = target != ignored
    ones = torch.ones_like(sums) if weight is None else weight[target.clamp(0, classes - 1)]
    weights = torch.where(counted, ones.to(sums.dtype), 0.0)
    return (sums - own) * weights, weights


def _in_blocks(
    state: State, rows: Tensor, target: Tensor, matrix: Tensor, bias: Tensor | None, block: int
) -> State:
    """The state after all whole blocks: a loop, so that one block's logits lie in memory."""
    count = matrix.shape[0] // block
    steps = [matrix[: count * block].reshape(count, block, matrix.shape[1])]
    steps.append(torch.arange(0, count * block, block, device=target.device))
    if bias is not None:
        steps.append(bias[: count * block].reshape(count, block))

    def body(*given: Tensor) -> State:
        sums, own, part, start, *rest, rows, target = given
        return _joined(sums, own, rows, target - start, part, rest[0] if rest else None)

    sums, own = SCAN(body, list(state), steps, (rows, target))
    return sums, own


def _joined(
    sums: Tensor, own: Tensor, rows: Tensor, place: Tensor, matrix: Tensor, bias: Tensor | None
) -> State:
    """The state with a further block, in which ``place`` is the target's."""
    logits = functional.linear(rows, matrix, bias).to(sums.dtype)
    inside = (place >= 0) & (place < logits.shape[1])
    chosen = logits.gather(1, place.clamp(0, logits.shape[1] - 1)[:, None])[:, 0]
    return torch.logaddexp(sums, logits.logsumexp(1)), own + torch.where(inside, chosen, 0.0)


_CHUNKED = "torch_nn._linear_cross_entropy_batch_chunked"
OWN: Mapping[str, Callable[..., Any]] = {
    f"{_CHUNKED}.default": _no_gradients,
    f"{_CHUNKED}_no_reduction.default": _of_rows,
}
