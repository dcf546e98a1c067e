"""References for the incomplete gamma functions, where eager's float64 loses digits.

For large a near x its expansion is off by 1e-10. The reference adds an integral from a smaller x,
where eager takes a series. For tiny a eager rounds 1 + a, and is off by as much.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

_POINTS, _WEIGHTS = np.polynomial.legendre.leggauss(48)
_LARGE, _HUGE = 20, 200  # eager's own borders
_TINY, _SMALL = 1e-4, 1.1
_LOG_GAMMA = (-0.5772156649015329, math.pi**2 / 12, -1.2020569031595942 / 3, math.pi**4 / 360)


def _near(own: Callable[..., Any], sign: int) -> Callable[..., Any]:
    """The function by eager, except for large a near x; it grows in x by ``sign``'s."""

    def meaning(a: Any, x: Any) -> Any:
        a, x = _together(a, x)
        mu = x / a - 1
        mu = torch.where((mu.abs() < 0.5) & (a > _LARGE), (x - a) / a, mu)
        width = torch.where(a > _HUGE, 4.5 / a.sqrt(), 0.3)
        near = (a > _LARGE) & a.isfinite() & (mu.abs() < width)
        a_near, mu = torch.where(near, a, 100.0), torch.where(near, mu, 0.0)
        x_before = a_near * (1 - 1.01 * torch.where(near, width, 0.5))
        before = (x_before - a_near) / a_near
        found = own(a_near, x_before) + sign * _integral(a_near, before, mu)
        return torch.where(near, found, own(a, x))

    return meaning


def _together(a: Any, x: Any) -> tuple[Any, Any]:
    """Both in float64 and of one shape."""
    shape = (a + x).shape
    return a.double().expand(shape), x.double().expand(shape)


def _integral(a: Any, low: Any, high: Any) -> Any:
    """P(a, a (1 + high)) - P(a, a (1 + low)), by Gauss and Legendre's formula."""
    total = torch.zeros_like(a)
    for point, weight in zip(_POINTS.tolist(), _WEIGHTS.tolist(), strict=True):
        place = low + (high - low) * ((1 + point) / 2)
        total += weight / 2 * (-a * _gap(place)).exp() / (1 + place)
    inverse = 1 / (a * a)
    terms = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188)
    stirling = sum(term * inverse**k for k, term in enumerate(terms)) / a
    return total * (high - low) * (a / (2 * math.pi)).sqrt() / stirling.exp()


def _gap(mu: Any) -> Any:
    """``mu - log(1 + mu)``, without the cancellation."""
    s = mu / (2 + mu)
    square = s * s
    total = sum(square**k / (2 * k + 3) for k in range(17))
    return mu * s - 2 * s * square * total


def _tiny(own: Callable[..., Any], sign: int) -> Callable[..., Any]:
    """The function of tiny a and small x by Q's series, with ``lgamma(1 + a)`` by powers of a."""
    elsewhere = _near(own, sign)

    def meaning(a: Any, x: Any) -> Any:
        a, x = _together(a, x)
        tiny = (a > 0) & (a < _TINY) & (x > 0) & (x < _SMALL)
        small, near = torch.where(tiny, a, _TINY), torch.where(tiny, x, 1.0)
        log_gamma = sum(term * small ** (k + 1) for k, term in enumerate(_LOG_GAMMA))
        log_y = small * near.log() - log_gamma
        total = sum((-near) ** n / float(math.factorial(n)) / (small + n) for n in range(24, 0, -1))
        upper = -(log_y.expm1() + small * log_y.exp() * total)
        return torch.where(tiny, 1 - upper if sign > 0 else upper, elsewhere(a, x))

    return meaning


INCOMPLETE_GAMMA = {
    torch.ops.aten.igamma.default: _tiny(torch.igamma, 1),
    torch.ops.aten.igammac.default: _tiny(torch.igammac, -1),
}
