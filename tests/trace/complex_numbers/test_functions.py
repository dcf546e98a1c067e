"""Complex functions over the whole range of floats, at branch cuts and of infinities and NaN.

Packages for processors answer. The law is that of norms: an error is one of the whole number.
"""

import itertools
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from aotpack.pipeline import compile

Formula = Callable[[torch.Tensor], torch.Tensor]
Answers = dict[str, torch.Tensor]
INF, NAN = float("inf"), float("nan")
NAMES = (
    "exp sin cos sinh cosh tan tanh sqrt log log2 log10 asin acos atan asinh acosh atanh rsqrt "
    "reciprocal square sgn sigmoid expm1 log1p"
).split()
NUMPY: dict[str, Callable[[Any], Any]] = {
    **{name: getattr(np, name) for name in ("exp", "sin", "cos", "sinh", "cosh", "tan", "tanh")},
    **{name: getattr(np, name) for name in ("sqrt", "log", "log2", "log10")},
    **{f"a{name}": getattr(np, f"arc{name}") for name in ("sin", "cos", "tan")},
    **{f"a{name}": getattr(np, f"arc{name}") for name in ("sinh", "cosh", "tanh")},
}
POWERS = (2, 3, 4, -1, -2, -3, -4, 0.5, -0.5, 2.5, -2.5, 0.25, 7, 1j, -1 + 1j)
FUNCTIONS: dict[str, Formula] = {name: getattr(torch, name) for name in NAMES}


def powered(exponent: complex) -> Formula:
    return lambda z: z**exponent


FUNCTIONS |= {f"** {exponent}": powered(exponent) for exponent in POWERS}
FUNCTIONS |= {
    "2 **": lambda z: torch.pow(2, z),
    "z ** z": lambda z: z**z,
    "quotient": lambda z: z / torch.complex(z.imag, z.real),
}
LOOSE = {
    "** 2.5": 16,
    "** -2.5": 16,
    "** 7": 64,
    "** 1j": 64,
    "** (-1+1j)": 128,
    "z ** z": 128,
    "2 **": 32,
}
"""Errors of angles and logarithms that grow with the power, in units of the last place."""


def magnitudes(dtype: torch.dtype) -> list[float]:
    info = torch.finfo(dtype)
    ends = [info.smallest_normal / 2**20, info.smallest_normal * 3, info.max * 0.97, info.max * 0.7]
    roots = [info.smallest_normal**0.5 / 4, info.max**0.5 * 4, 8 / info.eps, info.eps / 8]
    usual = [0.0, 0.1, 0.5, 0.999, 1.0, 1.0001, np.pi / 2, 2.5, np.pi, 20.0, 95.0]
    return [*ends, *roots, *usual, 150.0 if dtype is torch.float32 else 1000.0]


def points(dtype: torch.dtype, *more: float) -> torch.Tensor:
    """All pairs of magnitudes with both signs, then of these and others."""
    numbers = [sign * x for x in (*magnitudes(dtype), *more) for sign in (1.0, -1.0)]
    return torch.tensor(list(itertools.product(numbers, numbers)), dtype=dtype)


class Each(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        return [torch.view_as_real(one(torch.complex(x, y))) for one in FUNCTIONS.values()]


@cache
def answers(dtype: torch.dtype) -> tuple[torch.Tensor, Answers, Answers]:
    """Numbers, a package's answers and eager's."""
    given = points(dtype, INF, NAN)
    x, y = given[:, 0].contiguous(), given[:, 1].contiguous()
    ours = compile(Each(), (x, y), target="cpu")(x, y)
    pairs = zip(FUNCTIONS, ours, strict=True), zip(FUNCTIONS, Each()(x, y), strict=True)
    return given, *map(dict, pairs)


def kinds(x: np.ndarray) -> np.ndarray:
    """2 for NaN, signs for infinities, 0 for numbers."""
    return np.where(np.isnan(x), 2, np.where(np.isinf(x), np.sign(x), 0))


def worst(ours: np.ndarray, wanted: np.ndarray, places: float, allowed: float) -> float:
    """The largest error of numbers, in allowed ones."""
    size = np.abs(wanted).max(-1)
    unit = places * size + np.finfo(np.float64).tiny + allowed
    return float((np.abs(ours.astype(np.float64) - wanted).max(-1) / unit).max())


@pytest.mark.row("C:D7")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_finite_numbers_of_the_whole_range(name: str) -> None:
    """Those whose answer is finite, in float32; torch's and numpy's in float64 are the law."""
    given, ours, _ = answers(torch.float32)
    kept = given.isfinite().all(-1)
    z = torch.view_as_complex(given[kept].double())
    wanted = torch.view_as_real(FUNCTIONS[name](z)).numpy()
    found = ours[name][kept].numpy()
    with np.errstate(all="ignore"):
        finite = np.isfinite(wanted.astype(np.float32)).all(-1)
        info = torch.finfo(torch.float32)
        kept_ones = finite & _is_measured(name, z.numpy())
        assert kept_ones.sum() > 100
        least = info.smallest_normal * info.eps
        factor = LOOSE.get(name, 8) * info.eps
        assert worst(found[kept_ones], wanted[kept_ones], factor, 2 * least) <= 1
        if name in NUMPY:
            second = NUMPY[name](z.numpy()).view(np.float64).reshape(-1, 2)
            assert worst(found[kept_ones], second[kept_ones], factor, 2 * least) <= 1


def _is_measured(name: str, z: np.ndarray) -> np.ndarray:
    """False where the law is wrong itself, or an answer is all rounding."""
    real, imaginary = np.abs(z.real), np.abs(z.imag)
    if name == "acos":  # 0 within a root of eps around 1
        return imaginary > 1e-7
    if name == "2 **":
        return (real < 1e3) & (imaginary < 1e3)
    return real < {"z ** z": 50.0, "sigmoid": 700.0}.get(name, INF)


@pytest.mark.row("C:D7")
@pytest.mark.parametrize("name", NUMPY)
def test_finite_numbers_in_float64(name: str) -> None:
    given, ours, _ = answers(torch.float64)
    kept = given.isfinite().all(-1)
    z = given[kept].numpy().view(np.complex128).reshape(-1)
    with np.errstate(all="ignore"):
        wanted = NUMPY[name](z).view(np.float64).reshape(-1, 2)
        finite = np.isfinite(wanted).all(-1)
        finite &= _is_measured(name, z)
        found, factor = ours[name][kept].numpy()[finite], 8 * np.finfo(np.float64).eps
        assert worst(found, wanted[finite], factor, 0.0) <= 1


@pytest.mark.row("C:D7")
@pytest.mark.parametrize("name", NUMPY)
def test_infinities_nan_and_signs_of_zero(name: str) -> None:
    """Eager's are those of C99; where size and angle are unknown, it leaves signs open."""
    given, ours, eager = answers(torch.float32)
    found, wanted, is_open = ours[name].numpy(), eager[name].numpy(), ~given.isfinite().numpy()
    infinite = np.isinf(given.numpy())
    endless = (infinite.any(-1) & is_open.all(-1))[:, None]
    same = kinds(found) == kinds(wanted)
    same |= endless & (np.abs(kinds(found)) == np.abs(kinds(wanted)))
    finite = np.isfinite(given.numpy()).all(-1)
    assert same[~finite].all(), given[~finite][~same[~finite].all(-1)][:4]
    zeros = (found == 0) & (wanted == 0) & finite[:, None]
    assert (np.signbit(found) == np.signbit(wanted))[zeros].all()


def part(x: float) -> Any:
    return pytest.approx(x, rel=1e-5, nan_ok=True)


CASES = [
    (torch.sqrt, 3e38 + 3e38j, 1.9029767e19, 7.8823879e18),
    (torch.log, 3e38 + 3e38j, 88.943421, np.pi / 4),
    (torch.tanh, 3e38 + 3e38j, 1.0, 0.0),
    (torch.square, 1e30 + 1e30j, 0.0, INF),
    (torch.square, 1e30 + 2e30j, -INF, INF),
    (torch.square, 1e19 - 1e19j, 0.0, -2e38),
    (torch.reciprocal, 0j, INF, NAN),
    (torch.reciprocal, 3e38 + 3e38j, 1.6666667e-39, -1.6666667e-39),
    (torch.rsqrt, 0j, INF, NAN),
    (torch.sigmoid, complex(INF, 1), 1.0, 0.0),
    (torch.sigmoid, complex(-INF, INF), 0.0, 0.0),
    (torch.sigmoid, -200 + 1j, 0.0, 0.0),
    (torch.sigmoid, -80 + 0j, 1.8048513e-35, 0.0),
    (torch.sqrt, complex(1, INF), INF, INF),
    (torch.sgn, complex(1, INF), NAN, NAN),
    (torch.sgn, 3e38 + 3e38j, 0.5**0.5, 0.5**0.5),
    (torch.sgn, 1e-44 + 1e-44j, 0.5**0.5, 0.5**0.5),
    (torch.exp, complex(100, np.float32(np.pi / 2)), -1.1750133e36, INF),
    (torch.exp, -90 + 0j, 8.19401e-40, 0.0),
    (torch.expm1, 1e-30 + 1e-30j, 1e-30, 1e-30),
    (torch.log1p, 1e-30 + 1e-30j, 1e-30, 1e-30),
    (lambda z: z / (z + 1), -1 + 0j, -INF, NAN),
    (lambda z: z / (2 + 2j), 3e38 + 3e38j, 1.5e38, 0.0),
    (lambda z: z**-2, 1e25 + 1e25j, 0.0, 0.0),
    (lambda z: z**-2, 0j, INF, NAN),
    (lambda z: z**z, 0j, 1.0, 0.0),
    (lambda z: z**0, 0j, 1.0, 0.0),
    (lambda z: torch.pow(0, z), 2 + 1j, 0.0, 0.0),
    (lambda z: torch.pow(1, z), complex(NAN, 1), 1.0, 0.0),
    (torch.atanh, 1 + 0j, INF, 0.0),
    (torch.atanh, 1 + 1e-44j, 51.013084, np.pi / 4),
    (torch.abs, complex(INF, NAN), INF, 0.0),
    (torch.mean, complex(INF, 1), INF, 1.0),
]


class Cases(nn.Module):
    def forward(self, z: torch.Tensor) -> list[torch.Tensor]:
        return [function(z[n]) for n, (function, *_) in enumerate(CASES)]


@pytest.mark.row("C:D7")
@pytest.mark.parametrize("target", ["cpu", "interpreter"])
def test_special_values(target: str) -> None:
    given = torch.tensor([complex(case[1]) for case in CASES], dtype=torch.complex64)
    found = [complex(one) for one in compile(Cases(), (given,), target=target)(given)]
    for (_, z, *wanted), one in zip(CASES, found, strict=True):
        assert [one.real, one.imag] == list(map(part, wanted)), z
