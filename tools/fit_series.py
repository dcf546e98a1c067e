"""Fits the Chebyshev series of aotpack/lower/special/series.py: python tools/fit_series.py > FILE

Each function is made smooth and bounded on an interval first; the comment of a row says how.
Computed with mpmath to forty digits.
"""

from __future__ import annotations

from collections.abc import Callable

import mpmath as mp

mp.mp.dps = 40
NODES = 70
PER_LINE = 3
SMALLEST = mp.mpf(10) ** -17


def series(function: Callable[[mp.mpf], mp.mpf], low: float, high: float) -> list[float]:
    """Coefficients of T_0, T_1... on [low, high], as many as float64 needs."""
    angles = [mp.pi * (k + mp.mpf(1) / 2) / NODES for k in range(NODES)]
    middle, half = mp.mpf(low + high) / 2, mp.mpf(high - low) / 2
    shift = mp.mpf(10) ** -30 if low == 0 else 0  # functions need not be defined at zero
    values = [function(middle + half * mp.cos(angle) + shift) for angle in angles]
    found = []
    for j in range(NODES):
        terms = (value * mp.cos(j * angle) for value, angle in zip(values, angles, strict=True))
        found.append(2 * mp.fsum(terms) / NODES)
    found[0] /= 2
    least = SMALLEST * max(abs(c) for c in found)
    while abs(found[-1]) < least:
        found.pop()
    assert len(found) < NODES - 10, "the function is not smooth enough"
    return [float(c) for c in found]


def bessel_pq(order: int, part: int) -> Callable[[mp.mpf], mp.mpf]:
    """P (part 0) or x Q (part 1) of a Bessel function at x = 8 / sqrt(t)."""

    def function(t: mp.mpf) -> mp.mpf:
        x = 8 / mp.sqrt(t)
        phase = x - (2 * order + 1) * mp.pi / 4
        j, y = mp.besselj(order, x), mp.bessely(order, x)
        scale = mp.sqrt(mp.pi * x / 2)
        if part == 0:
            return scale * (j * mp.cos(phase) + y * mp.sin(phase))
        return scale * (y * mp.cos(phase) - j * mp.sin(phase)) * x

    return function


def airy_pq(part: int) -> Callable[[mp.mpf], mp.mpf]:
    """The even or odd part of Ai(-x) at 1 / zeta**2 = t, zeta = 2/3 x**1.5."""

    def function(t: mp.mpf) -> mp.mpf:
        zeta = 1 / mp.sqrt(t)
        x = (zeta * 3 / 2) ** (mp.mpf(2) / 3)
        ai, bi, phase = mp.airyai(-x), mp.airybi(-x), zeta + mp.pi / 4
        scale = mp.sqrt(mp.pi) * x ** mp.mpf("0.25")
        if part == 0:
            return scale * (ai * mp.sin(phase) + bi * mp.cos(phase))
        return scale * (bi * mp.sin(phase) - ai * mp.cos(phase)) * zeta

    return function


def airy_tail(t: mp.mpf) -> mp.mpf:
    """Ai(x) 2 sqrt(pi) x**0.25 exp(zeta) at t = 1 / zeta."""
    zeta = 1 / t
    x = (zeta * 3 / 2) ** (mp.mpf(2) / 3)
    return mp.airyai(x) * 2 * mp.sqrt(mp.pi) * x ** mp.mpf("0.25") * mp.exp(zeta)


def erfinv_ratio(w: mp.mpf) -> mp.mpf:
    """erfinv(x) / x where w = -log(1 - x * x)."""
    if w == 0:
        return mp.sqrt(mp.pi) / 2
    with mp.workdps(400):
        x = mp.sqrt(-mp.expm1(-w))
        return mp.erfinv(x) / x


def erfcx_part(t: mp.mpf) -> mp.mpf:
    """(1 + 2 x) erfcx(x) at x = 4 (1 + t) / (1 - t)."""
    x = 4 * (1 + t) / (1 - t)
    return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)


def y_part(order: int) -> Callable[[mp.mpf], mp.mpf]:
    """What is left of Y without its logarithm (and, for order 1, its pole) at x = sqrt(u)."""

    def function(u: mp.mpf) -> mp.mpf:
        x = mp.sqrt(u)
        smooth = mp.bessely(order, x) - 2 / mp.pi * mp.log(x) * mp.besselj(order, x)
        return smooth if order == 0 else (smooth + 2 / (mp.pi * x)) / x

    return function


def k_part(order: int) -> Callable[[mp.mpf], mp.mpf]:
    """What is left of K without its logarithm (and, for order 1, its pole) at x = sqrt(u)."""

    def function(u: mp.mpf) -> mp.mpf:
        x = mp.sqrt(u)
        if order == 0:
            return mp.besselk(0, x) + mp.log(x / 2) * mp.besseli(0, x)
        return x * (mp.besselk(1, x) - mp.log(x / 2) * mp.besseli(1, x))

    return function


def scaled_k(order: int) -> Callable[[mp.mpf], mp.mpf]:
    """exp(x) sqrt(x) K(x) at x = 2 / t."""
    return lambda t: mp.exp(2 / t) * mp.sqrt(2 / t) * mp.besselk(order, 2 / t)


def scaled_i(order: int) -> Callable[[mp.mpf], mp.mpf]:
    """exp(-x) sqrt(x) I(x) at x = 8 / t."""
    return lambda t: mp.exp(-8 / t) * mp.sqrt(8 / t) * mp.besseli(order, 8 / t)


ROWS = [
    ("I0_NEAR", lambda x: mp.exp(-x) * mp.besseli(0, x), 0, 8, "exp(-x) I0(x)"),
    ("I0_FAR", scaled_i(0), 0, 1, "exp(-x) sqrt(x) I0(x), t = 8 / x"),
    ("I1_NEAR", lambda x: mp.exp(-x) * mp.besseli(1, x) / x, 0, 8, "exp(-x) I1(x) / x"),
    ("I1_FAR", scaled_i(1), 0, 1, "exp(-x) sqrt(x) I1(x), t = 8 / x"),
    ("K0_NEAR", k_part(0), 0, 4, "K0(x) + log(x / 2) I0(x), t = x * x"),
    ("K0_FAR", scaled_k(0), 0, 1, "exp(x) sqrt(x) K0(x), t = 2 / x"),
    ("K1_NEAR", k_part(1), 0, 4, "x (K1(x) - log(x / 2) I1(x)), t = x * x"),
    ("K1_FAR", scaled_k(1), 0, 1, "exp(x) sqrt(x) K1(x), t = 2 / x"),
    ("J0_NEAR", lambda u: mp.besselj(0, mp.sqrt(u)), 0, 64, "J0(x), t = x * x"),
    (
        "J1_NEAR",
        lambda u: mp.besselj(1, mp.sqrt(u)) / mp.sqrt(u),
        0,
        64,
        "J1(x) / x, t = x * x",
    ),
    ("Y0_NEAR", y_part(0), 0, 64, "Y0(x) - 2 / pi log(x) J0(x), t = x * x"),
    ("Y1_NEAR", y_part(1), 0, 64, "(Y1(x) + 2 / (pi x) - 2 / pi log(x) J1(x)) / x, t = x * x"),
    ("P0_FAR", bessel_pq(0, 0), 0, 1, "P of J0 and Y0, t = 64 / (x * x)"),
    ("Q0_FAR", bessel_pq(0, 1), 0, 1, "x Q of J0 and Y0, t = 64 / (x * x)"),
    ("P1_FAR", bessel_pq(1, 0), 0, 1, "P of J1 and Y1, t = 64 / (x * x)"),
    ("Q1_FAR", bessel_pq(1, 1), 0, 1, "x Q of J1 and Y1, t = 64 / (x * x)"),
    ("AIRY_MIDDLE", mp.airyai, -3, 3, "Ai itself"),
    ("AIRY_TAIL", airy_tail, 0, 0.3, "2 sqrt(pi) x**0.25 exp(z) Ai(x), t = 1 / z"),
    ("AIRY_P", airy_pq(0), 0, 0.09, "P of Ai(-x), t = 1 / (z * z)"),
    ("AIRY_Q", airy_pq(1), 0, 0.09, "z Q of Ai(-x), t = 1 / (z * z)"),
    ("ERFCX", erfcx_part, -1, 1, "(1 + 2 x) erfcx(x), t = (x - 4) / (x + 4)"),
    ("ERFINV_NEAR", erfinv_ratio, 0, 6.25, "erfinv(x) / x, t = w = -log(1 - x * x)"),
    ("ERFINV_MIDDLE", lambda s: erfinv_ratio(s * s), 2.5, 4, "the same, t = sqrt(w)"),
    ("ERFINV_FAR", lambda s: erfinv_ratio(s * s), 4, 27.25, "the same, t = sqrt(w)"),
]


def main() -> None:
    print('"""Chebyshev series of special functions on intervals, made by tools/fit_series.py."""')
    print()
    print(
        "Series = tuple[tuple[float, float], tuple[float, ...]]  # ends of the interval, T_0, T_1"
    )
    for name, function, low, high, comment in ROWS:
        coefficients = series(function, low, high)
        print(f"\n# {comment}")
        print(f"{name}: Series = (({float(low)}, {float(high)}), (")
        for start in range(0, len(coefficients), PER_LINE):
            print("    " + " ".join(f"{c!r}," for c in coefficients[start : start + PER_LINE]))
        print("))  # fmt: skip")


if __name__ == "__main__":
    main()
