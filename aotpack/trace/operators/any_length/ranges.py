"""Numbers in equal steps, and windows: formulas over ``arange``."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

from aotpack.errors import TraceError

_Function = Callable[..., Any]
_larger: _Function = torch.sym_max
_torch_fftfreq: _Function = torch.fft.fftfreq
_torch_rfftfreq: _Function = torch.fft.rfftfreq
_torch_linspace: _Function = torch.linspace
_torch_logspace: _Function = torch.logspace


def _fftfreq(n: Any, d: float = 1.0, **options: Any) -> Any:
    return (frequencies if isinstance(n, torch.SymInt) else _torch_fftfreq)(n, d, **options)


def _rfftfreq(n: Any, d: float = 1.0, **options: Any) -> Any:
    return (half_frequencies if isinstance(n, torch.SymInt) else _torch_rfftfreq)(n, d, **options)


def frequencies(n: int, d: float = 1.0, **options: Any) -> torch.Tensor:
    """``[0, 1, ..., -2, -1] / (n d)``."""
    i = counted(n, options)
    return torch.where(i < (n + 1) // 2, i, i - n) / (n * d)


def half_frequencies(n: int, d: float = 1.0, **options: Any) -> torch.Tensor:
    """``[0, 1, ...] / (n d)``, up to half of ``n``."""
    return counted(n // 2 + 1, options) / (n * d)


def counted(length: int, options: Mapping[str, Any]) -> torch.Tensor:
    """0, 1, ... in floats, where no type is given."""
    dtype = options.get("dtype") or torch.get_default_dtype()
    return torch.arange(length, dtype=dtype, device=options.get("device"))


def _with_out(plain: _Function, made: _Function) -> _Function:
    """A function that takes ``out`` too: values are copied into one of their length."""

    def written(*given: Any, out: torch.Tensor | None = None, **options: Any) -> Any:
        if out is None:
            return made(*given, **options)
        steps = options["steps"] if "steps" in options else given[2]
        has_length = statically_known_true(out.numel() == steps)
        is_of_type = options.get("dtype") in (None, out.dtype)
        if not isinstance(steps, torch.SymInt) or not has_length or not is_of_type:
            return plain(*given, out=out, **options)  # which may give it another length, or raise
        result = made(*given, **{**options, "dtype": out.dtype, "device": out.device})
        return out.copy_(result.view(out.shape))

    return written


def _linspace(start: Any, end: Any, steps: Any, **options: Any) -> Any:
    if not isinstance(steps, torch.SymInt):
        return _torch_linspace(start, end, steps, **options)
    result = _real_type("linspace", start, end, options)
    first, last = _end(start, result), _end(end, result)
    found = torch.where(_is_single(steps), first, _spaced(first, last, steps))
    return found.to(options.get("device"), result)


def _logspace(start: Any, end: Any, steps: Any, base: float = 10.0, **options: Any) -> Any:
    """Powers of ``base``. Integers truncate both ends, but not the only one."""
    if not isinstance(steps, torch.SymInt):
        return _torch_logspace(start, end, steps, base, **options)
    result = _real_type("logspace", start, end, options)
    first, last = (_end(one, result).double() for one in (start, end))
    alone = _end(start, torch.float64)
    powers = torch.where(_is_single(steps), alone, _spaced(first, last, steps))
    return torch.pow(base, powers).to(options.get("device"), result)


def _real_type(name: str, start: Any, end: Any, options: Mapping[str, Any]) -> torch.dtype:
    """The type of the result; TraceError for complex numbers."""
    dtype: torch.dtype = options.get("dtype") or torch.get_default_dtype()
    kinds = (
        one.is_complex() if isinstance(one, torch.Tensor) else isinstance(one, complex)
        for one in (start, end)
    )
    if dtype.is_complex or any(kinds):
        raise TraceError(
            f"torch.{name} gives complex numbers in a dynamic number of steps, and real ones are "
            f"accepted: combine two of them with torch.complex"
        )
    return dtype


def _end(number: Any, result: torch.dtype) -> torch.Tensor:
    """An end in the type in which steps are computed; integers are truncated first."""
    wide = torch.promote_types(result, torch.float32) if result.is_floating_point else torch.float64
    whole = number if isinstance(number, torch.Tensor) else torch.full((), number, dtype=wide)
    return whole.to(result).to(wide)


def _spaced(first: torch.Tensor, last: torch.Tensor, count: Any) -> torch.Tensor:
    """Each is computed from the nearer end: a product is rounded, then the sum.

    Eager rounds once where a processor multiplies and adds in one instruction.
    """
    i = torch.arange(count)
    left = count - 1 - i
    step = (last - first) / _larger(count - 1, 1)
    return torch.where(i < count // 2, first + i * step, last - left * step)


def _is_single(count: Any) -> torch.Tensor:
    return torch.full((), count, dtype=torch.int64) == 1


def _window(formula: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """A window of a formula over places from 0 to 1; a periodic one leaves out its last."""

    def made(window_length: Any, periodic: bool = True, *given: float, **options: Any) -> Any:
        named = {key: options[key] for key in ("alpha", "beta") if key in options}
        dtype = options.get("dtype") or torch.get_default_dtype()
        wide = torch.promote_types(dtype, torch.float32)
        i = counted(window_length, {"dtype": wide, "device": options.get("device")})
        last = _larger(window_length - 1 + periodic, 1)
        found = torch.where(_is_single(window_length), 1, formula(i / last, *given, **named))
        return found.to(dtype)

    return made


def _bartlett(t: torch.Tensor) -> torch.Tensor:
    return 1 - (2 * t - 1).abs()


def _blackman(t: torch.Tensor) -> torch.Tensor:
    return 0.42 - 0.5 * torch.cos(2 * math.pi * t) + 0.08 * torch.cos(4 * math.pi * t)


def _hann(t: torch.Tensor) -> torch.Tensor:
    return 0.5 - 0.5 * torch.cos(2 * math.pi * t)


def _hamming(t: torch.Tensor, alpha: float = 0.54, beta: float = 0.46) -> torch.Tensor:
    return alpha - beta * torch.cos(2 * math.pi * t)


def _kaiser(t: torch.Tensor, beta: float = 12.0) -> torch.Tensor:
    inside = (1 - (2 * t - 1).square()).clamp(min=0).sqrt()
    return torch.i0(beta * inside) / torch.i0(torch.full((), beta, dtype=t.dtype))


WINDOWS: Mapping[str, _Function] = {
    "bartlett_window": _window(_bartlett),
    "blackman_window": _window(_blackman),
    "hamming_window": _window(_hamming),
    "hann_window": _window(_hann),
    "kaiser_window": _window(_kaiser),
}
"""Formulas of windows are those of torch's documentation."""


def _of_any_length(name: str) -> _Function:
    torch_window: _Function = getattr(torch, name)

    def made(window_length: Any, *given: Any, **options: Any) -> Any:
        is_dynamic = isinstance(window_length, torch.SymInt)
        return (WINDOWS[name] if is_dynamic else torch_window)(window_length, *given, **options)

    return made


RANGES: Mapping[_Function, _Function] = {
    torch.fft.fftfreq: _fftfreq,
    torch.fft.rfftfreq: _rfftfreq,
    torch.linspace: _with_out(_torch_linspace, _linspace),
    torch.logspace: _with_out(_torch_logspace, _logspace),
    **{getattr(torch, name): _of_any_length(name) for name in WINDOWS},
}

WITH_OUT = frozenset({torch.linspace, torch.logspace})
"""Those that take ``out``."""
