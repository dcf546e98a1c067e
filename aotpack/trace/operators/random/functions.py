"""torch's random functions on streams of a seed."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from aotpack.trace.operators.random.streams import Streams, wide_type

_LEAST = -1.7580993408473766  # of selu: - scale * alpha


def _float_type(dtype: torch.dtype | None) -> torch.dtype:
    return torch.get_default_dtype() if dtype is None else dtype


def _size(size: tuple[Any, ...]) -> Sequence[Any]:
    return size[0] if len(size) == 1 and isinstance(size[0], (tuple, list)) else size


def _rand(d: Streams, *size: Any, dtype: torch.dtype | None = None, **_: Any) -> torch.Tensor:
    return d.uniform(_size(size or (_.get("size"),)), _float_type(dtype))


def _randn(d: Streams, *size: Any, dtype: torch.dtype | None = None, **_: Any) -> torch.Tensor:
    return d.normal(_size(size or (_.get("size"),)), _float_type(dtype))


def _rand_like(d: Streams, x: torch.Tensor, dtype: torch.dtype | None = None, **_: Any) -> Any:
    return d.uniform(x.shape, dtype or x.dtype)


def _randn_like(d: Streams, x: torch.Tensor, dtype: torch.dtype | None = None, **_: Any) -> Any:
    return d.normal(x.shape, dtype or x.dtype)


def _integers(d: Streams, low: int, high: int, size: Any, dtype: torch.dtype) -> torch.Tensor:
    """In [low, high): 63 bits modulo the range.

    The model's sizes may be ends: these are in range of the type, as nothing is asked of them.
    """
    is_open = any(isinstance(end, torch.SymInt) for end in (low, high))
    least, largest = _ends(dtype)
    if not is_open and not least <= low < high <= largest + 1:
        raise ValueError(
            f"random integers of {dtype} are drawn from ranges that are not empty, within "
            f"[{least}, {largest + 1}), not in [{low}, {high}); change the range, or draw in a "
            "wider type"
        )
    if not is_open and high - low > 2**63:
        raise ValueError(
            f"random integers are drawn in ranges of at most 2**63 numbers, not in [{low}, {high})"
        )
    whole = d.bits(size) & (2**63 - 1)
    whole = whole if not is_open and high - low == 2**63 else whole % (high - low)
    return (whole + low).to(dtype) if is_open else _rounded(whole + low, low, high, dtype)


def _ends(dtype: torch.dtype) -> tuple[int, int]:
    """The smallest and largest integer of a type."""
    if dtype is torch.bool:
        return 0, 1
    if dtype.is_complex:
        raise ValueError(f"random integers are of integer types, bool and floats, not of {dtype}")
    limits = torch.finfo(dtype) if dtype.is_floating_point else torch.iinfo(dtype)
    return int(limits.min), int(limits.max)


def _rounded(drawn: torch.Tensor, low: int, high: int, dtype: torch.dtype) -> torch.Tensor:
    """Integers in [low, high) as numbers of a type that lie in [low, high) too."""
    result, exact = drawn.to(dtype), _consecutive(dtype)
    if not dtype.is_floating_point or (-exact <= low and high - 1 <= exact):
        return result
    first, last = -_floor(-low, exact), _floor(high - 1, exact)
    if first > last:
        raise ValueError(
            f"{dtype} has no integer in [{low}, {high}); change the range, or draw in a wider type"
        )
    return result.clamp(first, last)


def _floor(number: int, exact: int) -> int:
    """The largest integer of a floating type that is at most a number."""
    places = max(abs(number).bit_length() - exact.bit_length() + 1, 0)
    return number >> places << places


def _consecutive(dtype: torch.dtype) -> int:
    """The largest number up to which a type has all integers."""
    return int(2 / torch.finfo(dtype).eps) if dtype.is_floating_point else _ends(dtype)[1]


def _randint(
    d: Streams, *args: Any, low: int = 0, high: Any = None, size: Any = None, **options: Any
) -> torch.Tensor:
    numbers = [arg for arg in args if not isinstance(arg, (tuple, list))]
    size = next((arg for arg in args if isinstance(arg, (tuple, list))), size)
    high = numbers[-1] if numbers else high
    low = numbers[0] if len(numbers) == 2 else low
    return _integers(d, low, high, size, options.get("dtype") or torch.int64)


def _randint_like(
    d: Streams, x: torch.Tensor, *args: Any, low: int = 0, high: Any = None, **options: Any
) -> torch.Tensor:
    high = args[-1] if args else high
    low = args[0] if len(args) == 2 else low
    return _integers(d, low, high, x.shape, options.get("dtype") or x.dtype)


def _bernoulli(d: Streams, x: torch.Tensor, p: Any = None, **_: Any) -> torch.Tensor:
    chance = x if p is None else p
    return (d.uniform(x.shape, torch.float32) < chance).to(x.dtype)


def _bernoulli_(d: Streams, x: torch.Tensor, p: Any = 0.5, **_: Any) -> torch.Tensor:
    return x.copy_(d.uniform(x.shape, torch.float32) < p)


def _random_(
    d: Streams, x: torch.Tensor, *ends: int, generator: Any = None, **named: int
) -> torch.Tensor:
    names = ("from", "to")[len(ends) + len(named) == 1 :]
    given = dict(zip(names, ends, strict=False)) | named
    high = given.get("to")
    high = _consecutive(x.dtype) + 1 if high is None else high
    return x.copy_(_integers(d, given.get("from", 0), high, x.shape, x.dtype))


def _uniform_(d: Streams, x: torch.Tensor, *ends: float, **named: Any) -> torch.Tensor:
    low, high = [*ends, *(0.0, 1.0)[len(ends) :]]
    low, high = named.get("from", low), named.get("to", high)
    return x.copy_(d.uniform(x.shape, x.dtype) * (high - low) + _of_parts(low, x.dtype))


def _normal_(d: Streams, x: torch.Tensor, mean: float = 0, std: float = 1, **_: Any) -> Any:
    return x.copy_(d.normal(x.shape, x.dtype) * std + _of_parts(mean, x.dtype))


def _of_parts(number: float, dtype: torch.dtype) -> complex:
    """A number in both parts of complex ones, as torch has it."""
    return number * (1 + 1j) if dtype.is_complex else number


def _exponential_(d: Streams, x: torch.Tensor, lambd: float = 1, **_: Any) -> torch.Tensor:
    return x.copy_((1 - d.uniform(x.shape, wide_type(x.dtype))).log() / -lambd)


def _log_normal_(d: Streams, x: torch.Tensor, mean: float = 1, std: float = 2, **_: Any) -> Any:
    return x.copy_((d.normal(x.shape, wide_type(x.dtype)) * std + mean).exp())


def _cauchy_(d: Streams, x: torch.Tensor, median: float = 0, sigma: float = 1, **_: Any) -> Any:
    turn = d.uniform(x.shape, wide_type(x.dtype)) - 0.5
    return x.copy_((turn * math.pi).tan() * sigma + median)


def _geometric_(d: Streams, x: torch.Tensor, p: float, **_: Any) -> torch.Tensor:
    """The number of trials up to the first success."""
    if not 0 < p < 1:
        raise ValueError(f"geometric_ takes a probability between 0 and 1, not {p}")
    failures = (1 - d.uniform(x.shape, wide_type(x.dtype))).log() / math.log1p(-p)
    return x.copy_(failures.ceil().clamp(min=1))


def _normal(
    d: Streams, mean: Any = 0.0, std: Any = 1.0, size: Any = None, **options: Any
) -> torch.Tensor:
    tensors = [part for part in (mean, std) if isinstance(part, torch.Tensor)]
    shape = (mean + std).shape if size is None else size
    dtype = tensors[0].dtype if tensors else _float_type(options.get("dtype"))
    drawn: torch.Tensor = d.normal(shape, dtype) * std
    return drawn + (mean if tensors else _of_parts(mean, dtype))


def _randperm(d: Streams, n: int, **options: Any) -> torch.Tensor:
    order = torch.argsort(d.bits((n,)), stable=True)
    return order.to(options.get("dtype") or torch.int64)


def _dropping(
    result: Callable[[torch.Tensor, float, torch.Tensor], torch.Tensor],
    shape: Callable[[torch.Tensor], Sequence[Any]],
    *,
    trains: bool,
) -> Callable[..., torch.Tensor]:
    """A dropout: its result from what is drawn in a shape; ``trains`` where it is not told."""

    def dropped(
        d: Streams, x: torch.Tensor, p: float = 0.5, training: bool = trains, inplace: bool = False
    ) -> torch.Tensor:
        if not training or p == 0:
            return x
        value = result(x, p, d.uniform(shape(x), torch.float32))
        return x.copy_(value) if inplace else value

    return dropped


def _of_rank(rank: int) -> Callable[..., torch.Tensor]:
    """Dropout of channels of tensors of a rank; others lack the batch dimension."""

    def dropped(d: Streams, x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        batched = x if x.dim() == rank else x.unsqueeze(0)
        return _feature_dropout(d, batched, *args, **kwargs).view_as(x)

    return dropped


def _scaled(x: torch.Tensor, p: float, drawn: torch.Tensor) -> torch.Tensor:
    """What is dropped is multiplied by 0, as in eager: of infinity that is NaN."""
    return torch.where(drawn >= p, x * (1 / (1 - p)) if p < 1 else x, x * 0)


def _self_normalizing(x: torch.Tensor, p: float, drawn: torch.Tensor) -> torch.Tensor:
    """Dropout that keeps mean 0 and variance 1 (Klambauer et al. 2017, section 3)."""
    if p >= 1:
        return torch.zeros_like(x)
    scale = 1 / math.sqrt((1 - p) * (1 + p * _LEAST**2))
    kept: torch.Tensor = torch.where(drawn >= p, x, _LEAST)
    return (kept - p * _LEAST) * scale


def _elements(x: torch.Tensor) -> Sequence[Any]:
    return x.shape


def _channels(x: torch.Tensor) -> Sequence[Any]:
    """Dimensions behind the second share what is drawn."""
    return *x.shape[:2], *(1,) * (x.dim() - 2)


_dropout = _dropping(_scaled, _elements, trains=True)
_feature_dropout = _dropping(_scaled, _channels, trains=True)
_alpha_dropout = _dropping(_self_normalizing, _elements, trains=False)
_feature_alpha_dropout = _dropping(_self_normalizing, _channels, trains=False)


def _multinomial(
    d: Streams, probabilities: torch.Tensor, count: int, replacement: bool = False, **_: Any
) -> torch.Tensor:
    """Without replacement: top-k of probability over exponential numbers (exponential race).

    Sums are rounded, so the last category that has a probability stands for those behind it.
    """
    x = probabilities.to(wide_type(probabilities.dtype))
    if replacement and count > 1:
        sums = x.cumsum(-1)
        place = d.uniform((*x.shape[:-1], count), x.dtype) * sums[..., -1:]
        found = torch.searchsorted(sums, place, right=True).clamp(max=x.shape[-1] - 1)
        possible = torch.where(x > 0, torch.arange(x.shape[-1], device=x.device), 0)
        return possible.cummax(-1).values.gather(-1, found)
    race = x / -(1 - d.uniform(x.shape, x.dtype)).log().clamp(max=-(2.0**-30))
    return race.topk(count).indices if count > 1 else race.argmax(-1, keepdim=True)


def _gumbel_softmax(
    d: Streams,
    logits: torch.Tensor,
    tau: float = 1,
    hard: bool = False,
    eps: float = 0,
    dim: int = -1,
) -> torch.Tensor:
    """Softmax of the logits minus the logarithms of exponential numbers."""
    drawn = -(1 - d.uniform(logits.shape, wide_type(logits.dtype))).log().clamp(max=-(2.0**-30))
    soft = ((logits - drawn.log()) / tau).softmax(dim).to(logits.dtype)
    chosen = soft.argmax(dim, keepdim=True)
    return torch.zeros_like(soft).scatter(dim, chosen, 1.0) if hard else soft


_TENSOR = torch.Tensor
_DROPOUTS: dict[Any, Callable[..., Any]] = {
    torch.dropout: _dropout,
    nn.functional.dropout: _dropout,
    torch.feature_dropout: _feature_dropout,
    nn.functional.dropout1d: _of_rank(3),
    nn.functional.dropout2d: _feature_dropout,
    nn.functional.dropout3d: _of_rank(5),
    **dict.fromkeys((torch.alpha_dropout, nn.functional.alpha_dropout), _alpha_dropout),
    torch.feature_alpha_dropout: _feature_alpha_dropout,
    nn.functional.feature_alpha_dropout: _feature_alpha_dropout,
}
_HANDLERS: dict[Any, Callable[..., Any]] = {
    torch.rand: _rand,
    torch.randn: _randn,
    torch.rand_like: _rand_like,
    torch.randn_like: _randn_like,
    torch.randint: _randint,
    torch.randint_like: _randint_like,
    torch.bernoulli: _bernoulli,
    _TENSOR.bernoulli: _bernoulli,
    _TENSOR.bernoulli_: _bernoulli_,
    _TENSOR.random_: _random_,
    _TENSOR.uniform_: _uniform_,
    _TENSOR.normal_: _normal_,
    _TENSOR.exponential_: _exponential_,
    _TENSOR.log_normal_: _log_normal_,
    _TENSOR.cauchy_: _cauchy_,
    _TENSOR.geometric_: _geometric_,
    torch.normal: _normal,
    torch.randperm: _randperm,
    **_DROPOUTS,
    nn.functional.gumbel_softmax: _gumbel_softmax,
    torch.multinomial: _multinomial,
    _TENSOR.multinomial: _multinomial,
}
NAMES = {function.__name__ for function in _HANDLERS}


class Draws(Streams, TorchFunctionMode):
    """Inside the block, torch's random functions use the streams of a seed."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        given = kwargs or {}
        handler = _HANDLERS.get(func)
        if handler is None or given.get("out") is not None:
            return func(*args, **given)
        return handler(self, *args, **given)


class Asked(TorchFunctionMode):
    """Inside the block, notes whether one of torch's random functions draws numbers: ``draws``."""

    draws = False

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        given = kwargs or {}
        if func in _HANDLERS and not (func in _DROPOUTS and _drops_nothing(*args, **given)):
            self.draws = True
        return func(*args, **given)


def _drops_nothing(
    x: torch.Tensor, p: float = 0.5, training: bool = True, *_: Any, **named: Any
) -> bool:
    return not named.get("train", training) or p == 0
