"""Replacements for functions of torch that export gets wrong, or that branch on data.

An exported program cannot branch on data to check arguments. A package omits these checks (negative
variances, quantiles outside [0, 1]) and branches on whether there are elements. ``torch._assert``
of a tensor becomes an assertion of the program, and so do the checks of torch.distributions. Export
records int64 for the power of bools by a bool, which is a bool. It does not record ``t.data``,
which is ``t.detach()`` where there are no gradients, nor that a tensor is given other memory so. It
takes dynamic numbers of rows for those of the example where ``torch.cdist`` chooses an algorithm;
``any_length`` has functions of which it takes all sizes for those, and keys ``i`` of ``y[i] = x``
that are tensors.
"""

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols, statically_known_true
from torch.overrides import TorchFunctionMode

from aotpack.errors import TraceError
from aotpack.trace.operators.any_length import OF_ANY_LENGTH, WITH_OUT
from aotpack.trace.operators.any_length.elements import READ, WRITE, as_tensor, get_item, set_item
from aotpack.trace.operators.quantized.fake_codes import FUNCTIONS

_Function = Callable[..., Any]
_larger: _Function = torch.sym_max
_torch_assert: _Function = torch._assert
_data: Any = torch.Tensor.data
_torch_all_true: _Function = torch._is_all_true
_torch_cdist: _Function = torch.cdist
_torch_pow: _Function = torch.pow
_torch_logsumexp: _Function = torch.logsumexp
_MODES = "use_mm_for_euclid_dist_if_necessary"
_MANY_ROWS = 25  # of either tensor, from which on torch.cdist multiplies matrices


class WithoutDataChecks(TorchFunctionMode):
    """Inside the block, these functions are replaced."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        given = kwargs or {}
        replacement = _REPLACEMENTS.get(func)
        has_out = given.get("out") is not None and func not in WITH_OUT
        if replacement is None or has_out:
            return func(*args, **given)
        return replacement(*args, **given)


def _gaussian_nll_loss(
    input: torch.Tensor,
    target: torch.Tensor,
    var: torch.Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> torch.Tensor:
    """Without the check for negative variances. Variances broadcast along the last dimension."""
    scale = var if isinstance(var, torch.Tensor) else torch.full_like(input, var)
    if scale.shape == input.shape[:-1]:
        scale = scale.unsqueeze(-1)
    pairs = zip(scale.shape, input.shape, strict=scale.dim() == input.dim())
    shared = [own for own, whole in pairs if own != whole]
    if scale.dim() != input.dim() or shared not in ([], [1]):
        raise ValueError(f"variances of {tuple(scale.shape)} for inputs of {tuple(input.shape)}")
    scale = scale.clamp(min=eps)
    loss = 0.5 * (scale.log() + (input - target) ** 2 / scale)
    loss = loss + 0.5 * math.log(2 * math.pi) if full else loss
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not valid")
    if reduction == "none":
        return loss
    return loss.mean() if reduction == "mean" else loss.sum()


def _cov(
    input: torch.Tensor,
    *,
    correction: int = 1,
    fweights: torch.Tensor | None = None,
    aweights: torch.Tensor | None = None,
) -> torch.Tensor:
    """Over rows: ``(x - mean) w (x - mean)^H / norm``; a norm below 0 counts as 0."""
    x = input if input.dim() == 2 else input.reshape(1, -1)
    weights = [w for w in (fweights, aweights) if w is not None]
    w = weights[0] * weights[1] if len(weights) == 2 else weights[0] if weights else None
    count: Any = x.shape[1] if w is None else w.sum()
    mean = (x if w is None else x * w).sum(1, keepdim=True) / count
    norm: Any = count - correction
    if w is not None and aweights is not None and correction != 0:
        norm = count - correction * (w * aweights).sum() / count
    norm = norm.clamp(min=0) if isinstance(norm, torch.Tensor) else _larger(norm, 0)
    x = x - mean
    found: torch.Tensor = (x @ (x if w is None else x * w).mH / norm).squeeze()
    return found


def _corrcoef(input: torch.Tensor) -> torch.Tensor:
    """The covariance divided by both deviations; its parts are clamped to [-1, 1]."""
    c = _cov(input)
    if c.dim() == 0:
        return c / c
    variance = c.diagonal()
    deviation = (variance.real if c.is_complex() else variance).sqrt()
    found = c / deviation.unsqueeze(1) / deviation
    if c.is_complex():
        return torch.complex(found.real.clamp(-1, 1), found.imag.clamp(-1, 1))
    return found.clamp(-1, 1)


def _quantile(
    input: torch.Tensor,
    q: torch.Tensor | float,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> torch.Tensor:
    """NaN if the row has one."""
    values = _sorted(input, dim)
    last = values.shape[-1] - 1
    share = as_tensor(q, input)
    has_nan = values.isnan().any(-1, keepdim=True)
    rank = torch.where(has_nan, 1, share.reshape(-1)) * last
    return _at_ranks(values, rank, interpolation, _Form(input.dim(), share.dim(), dim, keepdim))


def _nanquantile(
    input: torch.Tensor,
    q: torch.Tensor | float,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> torch.Tensor:
    """The quantile of the elements that are not NaN."""
    values = _sorted(input, dim)
    share = as_tensor(q, input)
    count = (~values.isnan()).sum(-1, keepdim=True)
    rank = (share.reshape(-1) * (count - 1)).clamp(min=0)
    return _at_ranks(values, rank, interpolation, _Form(input.dim(), share.dim(), dim, keepdim))


def _sorted(input: torch.Tensor, dim: int | None) -> torch.Tensor:
    """Move ``dim`` (None: flatten) to the end and sort along it."""
    if dim is None or input.dim() == 0:
        return input.flatten().sort().values
    return input.movedim(dim, -1).sort(-1).values


@dataclass(frozen=True, slots=True)
class _Form:
    """The shape of quantiles, from the number of dimensions of the input and of q."""

    rank: int
    ranks: int
    dim: int | None
    keepdim: bool

    def shaped(self, found: torch.Tensor) -> torch.Tensor:
        """From [..., q] to [q, ...], with the reduced dimension if ``keepdim``."""
        found = found.movedim(-1, 0)
        if self.keepdim and self.rank:
            if self.dim is None:
                found = found.reshape(-1, *[1] * self.rank)
            else:
                found = found.unsqueeze(1 + self.dim % self.rank)
        return found if self.ranks else found.squeeze(0)


def _at_ranks(
    values: torch.Tensor, rank: torch.Tensor, interpolation: str, form: _Form
) -> torch.Tensor:
    if interpolation in _WHOLE:
        rank = _WHOLE[interpolation](rank)
    below = rank.long()
    found = values.gather(-1, below)
    if interpolation not in _WHOLE:
        weight = torch.full_like(rank, 0.5) if interpolation == "midpoint" else rank - below
        found = found.lerp(values.gather(-1, rank.ceil().long()), weight)
    return form.shaped(found)


def _logsumexp(input: torch.Tensor, dim: Any, keepdim: bool = False) -> torch.Tensor:
    """Without a branch for no elements, where data decide whether there are any."""
    if not free_unbacked_symbols(input):
        return cast(torch.Tensor, _torch_logsumexp(input, dim, keepdim))
    dtype = input.dtype if input.is_floating_point() else torch.get_default_dtype()
    x = input.to(torch.promote_types(dtype, torch.float32))
    dims = [one % x.dim() for one in ([dim] if isinstance(dim, int) else dim)] or range(x.dim())
    more = [part for k in reversed(range(x.dim())) for part in (0, int(k in dims))]
    largest = F.pad(x, more, value=-math.inf).amax(dim, keepdim=True)  # of no elements too
    shift = largest.masked_fill(largest.isinf(), 0)
    found = (x - shift).exp().sum(dim, keepdim=True).log() + shift
    return (found if keepdim else found.squeeze(dim)).to(dtype)


def _assert(condition: Any, message: str) -> None:
    """An assertion on a tensor stays on the device."""
    if isinstance(condition, torch.Tensor):
        torch._assert_async(condition, message)
    else:
        _torch_assert(condition, message)


def _all_true(condition: torch.Tensor) -> Any:
    """What a distribution of torch checks of its parameters and values, as an assertion."""
    frame = sys._getframe(1)
    while frame.f_code.co_name == "__torch_function__" and frame.f_back is not None:
        frame = frame.f_back
    if not str(frame.f_globals.get("__name__")).startswith("torch.distributions."):
        return _torch_all_true(condition)
    name = frame.f_locals.get("param", "value")
    message = f"{name} of a distribution is outside of what it accepts"
    torch._assert_async(condition.all(), message)
    return True


def _cdist(x1: torch.Tensor, x2: torch.Tensor, p: float = 2.0, compute_mode: str = _MODES) -> Any:
    """Without a question to dynamic numbers of rows, which torch asks first.

    It multiplies matrices where one number is large. Where no declaration decides that, differences
    are summed, which is never less exact.
    """
    rows = [size for x in (x1, x2) for size in x.shape[-2:-1]]
    if p == 2 and compute_mode == _MODES and any(isinstance(one, torch.SymInt) for one in rows):
        is_many = any(statically_known_true(one > _MANY_ROWS) for one in rows)
        compute_mode = "use_mm_for_euclid_dist" if is_many else "donot_use_mm_for_euclid_dist"
    return _torch_cdist(x1, x2, p, compute_mode)


def _power(base: Any, exponent: Any) -> Any:
    if isinstance(exponent, bool) and getattr(base, "dtype", None) is torch.bool:
        return base.clone() if exponent else torch.ones_like(base)
    return _torch_pow(base, exponent)


def _give_memory(tensor: torch.Tensor, value: torch.Tensor) -> None:
    """Without effect for the tensor's own memory, as ``t.data += x`` gives; else refused."""
    if _layout(tensor) != _layout(value):
        raise TraceError(
            "forward gives a tensor other memory (.data = ...), where a package keeps its own; "
            "write values in place: t.copy_(...)"
        )


def _layout(tensor: torch.Tensor) -> tuple[object, ...]:
    memory = tensor.untyped_storage()._cdata, tensor.storage_offset()
    return memory, tensor.dtype, tensor.shape, tensor.stride()


_WHOLE: Mapping[str, _Function] = {
    "lower": torch.floor,
    "higher": torch.ceil,
    "nearest": torch.round,
}
_REPLACEMENTS: Mapping[_Function, _Function] = {
    _torch_assert: _assert,
    **FUNCTIONS,
    _torch_all_true: _all_true,
    READ: get_item,
    WRITE: set_item,
    _torch_cdist: _cdist,
    **OF_ANY_LENGTH,
    _data.__get__: torch.Tensor.detach,
    _data.__set__: _give_memory,
    **dict.fromkeys((torch.pow, torch.Tensor.pow, torch.Tensor.__pow__), _power),
    F.gaussian_nll_loss: _gaussian_nll_loss,
    **dict.fromkeys((torch.logsumexp, torch.Tensor.logsumexp, torch.special.logsumexp), _logsumexp),
    **dict.fromkeys((torch.cov, torch.Tensor.cov), _cov),
    **dict.fromkeys((torch.corrcoef, torch.Tensor.corrcoef), _corrcoef),
    **dict.fromkeys((torch.quantile, torch.Tensor.quantile), _quantile),
    **dict.fromkeys((torch.nanquantile, torch.Tensor.nanquantile), _nanquantile),
}
