"""Canonical floor division and modulo, and their inverse, which joins digits."""

import math
from collections.abc import Mapping
from functools import lru_cache

from aotpack.ir.symbolic.facts import bounds, known_le, known_lt
from aotpack.ir.symbolic.integers import (
    REMEMBERED,
    Int,
    Monomial,
    Quotient,
    Remainder,
    content,
    from_terms,
)


@lru_cache(maxsize=REMEMBERED)
def quotient(num: Int, den: Int) -> Int:
    """``num // den`` (rounding down) for ``den > 0``, simplified with the variables' ranges."""
    _check_divisor(num, den)
    whole, rest = _split(num, den)
    return whole + _proper_quotient(rest, den)


@lru_cache(maxsize=REMEMBERED)
def remainder(num: Int, den: Int) -> Int:
    """``num % den`` in [0, den) for ``den > 0``, simplified with the ranges of the variables."""
    _check_divisor(num, den)
    _, rest = _split(num, den)
    if known_le(0, rest) and known_lt(rest, den):
        return rest
    inner = rest.atom
    if isinstance(inner, Remainder) and _divides(den, inner.den):
        return inner.num % den
    factor, scaled, small, scaled_den = _common_factor(rest, den)
    if scaled is not None and scaled_den is not None:
        return (scaled % scaled_den) * factor + small
    return Int.of(Remainder(rest, den))


def rejoin(terms: Mapping[Monomial, int]) -> Int | None:
    """Undo a digit split: ``c*d*(e//d) + c*(e%d) -> c*e``; also inside an outer modulo.

    ``c*d*((e//d)%m) + c*(e%d) -> c*(e%(d*m))``. Returns None when no pair is found.
    """
    for monomial, coefficient in terms.items():
        for atom in dict.fromkeys(monomial):
            if not isinstance(atom, Remainder):
                continue
            rest = list(monomial)
            rest.remove(atom)
            scale = Int(((tuple(rest), coefficient),))
            joined = _join_pair(terms, monomial, atom, scale)
            if joined is not None:
                return joined
    return None


def _join_pair(
    terms: Mapping[Monomial, int], low: Monomial, digit: Remainder, scale: Int
) -> Int | None:
    above = digit.num // digit.den
    for candidate in {atom: None for m in terms for atom in m}:
        if isinstance(candidate, Remainder) and candidate.num is above:
            whole = digit.num % (digit.den * candidate.den)
            high = scale * digit.den * Int.of(candidate)
        elif Int.of(candidate) is above:
            whole, high = digit.num, scale * digit.den * above
        else:
            continue
        if all(terms.get(m) == c for m, c in high.terms):
            taken = {m for m, _ in high.terms} | {low}
            kept = [(m, c) for m, c in terms.items() if m not in taken]
            return from_terms([*kept, *(scale * whole).terms])
    if above.atom is None and above.terms and not digit.num.constant:
        high = scale * digit.den * above
        if all(terms.get(m) == c for m, c in high.terms):
            taken = {m for m, _ in high.terms} | {low}
            kept = [(m, c) for m, c in terms.items() if m not in taken]
            return from_terms([*kept, *(scale * digit.num).terms])
    return None


def exact_quotient(num: Int, den: Int) -> Int | None:
    """``num / den`` if it is exact for every value of the variables, else None."""
    whole, rest = _split(num, den)
    return whole if rest.constant == 0 else None


def _check_divisor(num: Int, den: Int) -> None:
    _, high = bounds(den)
    if high <= 0:
        raise ZeroDivisionError(f"{num} divided by {den}")


def _split(num: Int, den: Int) -> tuple[Int, Int]:
    """``(whole, rest)`` with ``num == whole * den + rest`` and no term of rest divisible by den."""
    if len(den.terms) != 1:
        return _split_by_sum(num, den)
    monomial, coefficient = den.terms[0]
    whole, rest = [], []
    for m, c in num.terms:
        left = _without(m, monomial)
        if left is None:
            rest.append((m, c))
            continue
        if c // coefficient:
            whole.append((left, c // coefficient))
        if c % coefficient:
            rest.append((m, c % coefficient))
    return from_terms(whole), from_terms(rest)


def _split_by_sum(num: Int, den: Int) -> tuple[Int, Int]:
    """Divide by a sum such as ``s + 1``: take out multiples while its leading term divides."""
    lead, coefficient = den.terms[0]
    whole, rest = Int.of(0), num
    for _ in range(len(num.terms)):
        for m, c in rest.terms:
            left = _without(m, lead)
            if left is not None and lead and c % coefficient == 0:
                part = Int(((left, c // coefficient),))
                smaller = rest - part * den
                if len(smaller.terms) < len(rest.terms):
                    whole, rest = whole + part, smaller
                    break
        else:
            break
    return whole, rest


def _without(monomial: Monomial, factor: Monomial) -> Monomial | None:
    left = list(monomial)
    for atom in factor:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


def _proper_quotient(rest: Int, den: Int) -> Int:
    """``rest // den`` when no multiple of ``den`` can be split off."""
    if known_le(0, rest) and known_lt(rest, den):
        return Int.of(0)
    inner = rest.atom
    if isinstance(inner, Quotient):
        return inner.num // (inner.den * den)
    if isinstance(inner, Remainder) and _divides(den, inner.den):
        exact = exact_quotient(inner.den, den)
        assert exact is not None
        return (inner.num // den) % exact
    _, scaled, _, scaled_den = _common_factor(rest, den)
    if scaled is not None and scaled_den is not None:
        return scaled // scaled_den
    return Int.of(Quotient(rest, den))


def _divides(divisor: Int, value: Int) -> bool:
    return exact_quotient(value, divisor) is not None


def _common_factor(rest: Int, den: Int) -> tuple[Int, Int | None, Int, Int | None]:
    """Find ``g`` with ``den = g*b`` and ``rest = g*a + t``, ``0 <= t < g``: (g, a, t, b).

    Then ``rest // den == a // b`` and ``rest % den == g * (a % b) + t``. Tries every factor of
    the terms of ``rest`` that divides ``den``; (g, None, t, None) when there is none.
    """
    for g in _candidate_factors(rest, den):
        b = exact_quotient(den, g)
        if b is None:
            continue
        a, t = _split(rest, g)
        if a.constant != 0 and known_le(0, t) and known_lt(t, g):
            return g, a, t, b
    return Int.of(1), None, Int.of(0), None


def _candidate_factors(rest: Int, den: Int) -> list[Int]:
    """Common factors of ``den`` and each term of ``rest``, larger products first; never 1."""
    if len(den.terms) != 1:
        return []
    monomial, coefficient = den.terms[0]
    found: dict[Int, int] = {}
    for m, c in rest.terms:
        shared, left = [], list(monomial)
        for atom in m:
            if atom in left:
                left.remove(atom)
                shared.append(atom)
        factor = Int(((tuple(shared), math.gcd(c, coefficient)),))
        if factor.constant != 1 and factor is not den:
            found[factor] = len(shared)
    whole = math.gcd(content(rest), coefficient)
    if whole > 1:
        found.setdefault(Int.of(whole), 0)
    return sorted(found, key=lambda g: (-found[g], -g.terms[0][1], g.text))
