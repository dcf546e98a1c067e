"""Reference implementations for operators of eager that lose a NaN or an infinity on the way.

Which ones they lose depends on places in the row, on the kernel, or on the type. A package gives
what the formula gives.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch

_ATEN = torch.ops.aten
_QUERIES = 256  # whose scores are held at once
_NAN = float("nan")


def _with_mean(own: Any, mean: Callable[..., Any]) -> Callable[..., Any]:
    """Moments whose mean keeps an infinity. Eager's does so by its place in the row."""

    def meaning(x: Any, *args: Any, **kwargs: Any) -> Any:
        spread, found, *rest = own(x, *args, **kwargs)
        summed = mean(x, *args, **kwargs).reshape(found.shape)
        return [spread, torch.where(found.isfinite(), found, summed), *rest]

    return meaning


def _mean_of_all(x: Any, *_: Any, **__: Any) -> Any:
    return x.mean()


def _mean_along(x: Any, dim: Any = None, *_: Any, **__: Any) -> Any:
    return x.mean(dim or None) if isinstance(dim, (list, tuple)) else x.mean(dim)


def _mean_of_rows(x: Any, normalized_shape: Any, *_: Any, **__: Any) -> Any:
    return x.mean(tuple(range(-len(normalized_shape), 0)))


def _mean_of_groups(
    x: Any, weight: Any, bias: Any, n: int, channels: int, positions: int, group: int, eps: float
) -> Any:
    return x.reshape(n, group, -1).mean(-1)


def _attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """Attention by its formula where a score may be NaN.

    Eager's kernels disagree there: on a processor it may give 0 for a query without a score that
    is a number, and the scores of keys that a mask excludes may count.
    """
    is_finite = all(bool(one.isfinite().all()) for one in (query, key))
    if is_finite and (attn_mask is None or not bool(attn_mask.isnan().any())):
        return torch.nn.functional.scaled_dot_product_attention(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )
    if enable_gqa:
        group = query.shape[-3] // key.shape[-3]
        key, value = (one.repeat_interleave(group, -3) for one in (key, value))
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    rows, columns = torch.arange(query.shape[-2]), torch.arange(key.shape[-2])
    mask = columns <= rows[:, None] if is_causal else attn_mask
    parts = []
    for some in torch.split(rows, _QUERIES):
        own = mask if mask is None or mask.shape[-2] == 1 else mask[..., some, :]
        scores = query[..., some, :] @ key.mT * factor
        parts.append(_shares(scores, own) @ value)
    return torch.cat(parts, -2)


def _shares(scores: Any, mask: Any) -> Any:
    """The softmax of scores; 0 for a query all of whose keys are excluded."""
    excluded = torch.tensor(float("-inf"), dtype=scores.dtype)
    if mask is not None:
        scores = torch.where(mask, scores, excluded) if mask.dtype is torch.bool else scores + mask
    return scores.softmax(-1).masked_fill((scores == excluded).all(-1, keepdim=True), 0)


def _bagged(own: Any) -> Callable[..., Any]:
    """Bags of rows; their maximum is NaN where a member is. Eager drops it unless it is first."""

    def meaning(weight: Any, *args: Any, **kwargs: Any) -> Any:
        found, *rest = own(weight, *args, **kwargs)
        has_nan = own(weight.isnan().to(weight.dtype), *args, **kwargs)[0] > 0
        return [torch.where(has_nan, _NAN, found), *rest]

    return meaning


def _distance(x1: Any, x2: Any, p: float, compute_mode: Any = None) -> Any:
    """The norms of differences of rows: NaN where one is. Eager's largest one drops it."""
    found = _ATEN._cdist_forward(x1, x2, p, compute_mode)
    has_nan = _ATEN._cdist_forward(x1, x2, 1.0, compute_mode).isnan()
    return torch.where(has_nan, _NAN, found) if p == float("inf") else found


def _own_distance(x: Any, p: float = 2.0) -> Any:
    """``_distance`` among the rows of one tensor."""
    found = _ATEN._pdist_forward(x, p)
    has_nan = _ATEN._pdist_forward(x, 1.0).isnan()
    return torch.where(has_nan, _NAN, found) if p == float("inf") else found


_BAGS = (
    _ATEN.embedding_bag.default,
    _ATEN.embedding_bag.padding_idx,
    _ATEN._embedding_bag.default,
    _ATEN._embedding_bag_forward_only.default,
)
_MEANS = (
    (_ATEN.var_mean.default, _mean_of_all),
    (_ATEN.var_mean.dim, _mean_along),
    (_ATEN.var_mean.correction, _mean_along),
    (_ATEN.std_mean.default, _mean_of_all),
    (_ATEN.std_mean.dim, _mean_along),
    (_ATEN.std_mean.correction, _mean_along),
    (_ATEN.native_layer_norm.default, _mean_of_rows),
    (_ATEN.native_group_norm.default, _mean_of_groups),
)
EXCEPTIONAL: Mapping[Any, Callable[..., Any]] = {
    **{own: _with_mean(own, mean) for own, mean in _MEANS},
    **{own: _bagged(own) for own in _BAGS},
    _ATEN._cdist_forward.default: _distance,
    _ATEN._pdist_forward.default: _own_distance,
    _ATEN.scaled_dot_product_attention.default: _attention,
}
