"""Facts about integers that follow from the ranges of their variables.

"Known" means: true for every admitted size and every point of the loops. All such questions are
answered here, and no answer adds a guard.
"""

import math
from functools import lru_cache

from aotpack.ir.symbolic.integers import (
    Atom,
    Axis,
    Extremum,
    Indirect,
    Int,
    Monomial,
    Number,
    Quotient,
    Remainder,
    Var,
)

Bound = float  # an int, or -inf / inf


def bounds(value: Number) -> tuple[Bound, Bound]:
    """A lower and an upper bound, perhaps not attained; infinite if unknown."""
    return _bounds(Int.of(value))


@lru_cache(maxsize=1 << 16)
def _bounds(value: Int) -> tuple[Bound, Bound]:
    low = _interval(_multiplied_out(_extreme(value, lowest=True), lowest=True))[0]
    high = _interval(_multiplied_out(_extreme(value, lowest=False), lowest=False))[1]
    least, most = _bound_quotients(value, lowest=True), _bound_quotients(value, lowest=False)
    if least is not value:
        low = max(low, _interval(_extreme(least, lowest=True))[0])
    if most is not value:
        high = min(high, _interval(_extreme(most, lowest=False))[1])
    for atom, slope, is_rising in _joined_extrema(value):
        rest = value - slope * Int.of(atom)
        (a0, a1), (b0, b1) = (_bounds(rest + slope * one) for one in (atom.a, atom.b))
        either = min if (atom.name == "min") == is_rising else max
        low, high = max(low, either(a0, b0)), min(high, either(a1, b1))
    times = _common_divisor(value)
    if times > 1:
        least, most = (_fractions(value, times, lowest=lowest) for lowest in (True, False))
        low = max(low, -_floor(-_bounds(least)[0], times))
        high = min(high, _floor(_bounds(most)[1], times))
    return low, high


def _floor(value: Bound, times: int) -> Bound:
    return value if math.isinf(value) else value // times


def known_le(a: Number, b: Number) -> bool:
    """True when ``a <= b`` always holds."""
    return bounds(Int.of(b) - a)[0] >= 0


def known_lt(a: Number, b: Number) -> bool:
    """True when ``a < b`` always holds."""
    return bounds(Int.of(b) - a)[0] >= 1


def known_equal(a: Number, b: Number) -> bool:
    """True when ``a == b`` always holds."""
    difference = Int.of(a) - b
    return difference.constant == 0 or bounds(difference) == (0, 0)


def known_nonnegative(value: Number) -> bool:
    """True when ``value >= 0`` always holds."""
    return known_le(0, value)


def known_multiple(value: Number, factor: int) -> bool:
    """True when ``factor`` divides every value."""
    return all(_term_multiple(m, c) % factor == 0 for m, c in Int.of(value).terms)


def known_one(value: Number) -> bool:
    """True when the value is always 1."""
    return known_equal(value, 1)


def extremum(name: str, a: Int, b: Int) -> Int:
    """``min(a, b)`` or ``max(a, b)``, decided by the ranges where they decide."""
    if known_le(a, b):
        return a if name == "min" else b
    if known_le(b, a):
        return b if name == "min" else a
    if b.text < a.text:
        a, b = b, a
    return Int.of(Extremum(name, a, b))


def typical(value: Number) -> int:
    """A representative size for cost models: the middle of each variable's range."""
    expression = Int.of(value)
    middles = {
        leaf.name: max(1, math.isqrt(max(1, leaf.low) * leaf.high))
        for leaf in expression.leaves()
        if isinstance(leaf, Var)
    }
    return int(expression.evaluate(middles))


def _term_multiple(monomial: Monomial, coefficient: int) -> int:
    return coefficient * math.prod(atom.multiple for atom in monomial if isinstance(atom, Var))


def _extreme(value: Int, *, lowest: bool) -> Int:
    """Replace axes by the end of their range that makes ``value`` extreme, if the slope is known.

    An axis range is symbolic (0 <= i < s), so ``s - 1 - i`` is known to be non-negative, which
    interval arithmetic over numbers cannot prove. Inner axes go first: their extents may use
    others.
    """
    for axis in [atom for atom in value.atoms() if isinstance(atom, Axis)]:
        slope = _slope(value, axis)
        if slope is None:
            continue
        low, high = _interval(slope)
        if low < 0 < high:
            continue
        at_start = (low >= 0) == lowest
        value = value.substitute({axis: Int.of(0) if at_start else axis.extent - 1})
    return value


def _multiplied_out(value: Int, *, lowest: bool) -> Int:
    """At least ``value``, or at most it, without ``den * (num // den)`` of a variable ``den``.

    It is at most ``num``, and at least ``num - den + 1``.
    """
    bounded = Int.of(0)
    for monomial, coefficient in value.terms:
        term = Int(((monomial, coefficient),))
        for quotient in monomial:
            if not isinstance(quotient, Quotient) or (den := quotient.den.atom) not in monomial:
                continue
            others = Int(((tuple(a for a in monomial if a not in (quotient, den)), coefficient),))
            low, high = _interval(others)
            if monomial.count(quotient) == monomial.count(den) == 1 and (low >= 0 or high <= 0):
                is_least = lowest == (low >= 0)
                term = others * (quotient.num - (quotient.den - 1 if is_least else 0))
                break
        bounded = bounded + term
    return bounded


def _joined_extrema(value: Int) -> list[tuple[Extremum, Int, bool]]:
    """The minima and maxima of ``value`` beside which it has variables of theirs, with their slope.

    With either operand in such a place, something may cancel. The sign of the slope is known, at
    least 0 or at most, so ``value`` is the extremum of what it is with each of them.
    """
    found = []
    for atom in value.atoms():
        if not isinstance(atom, Extremum):
            continue
        signed = _signed_slope(value, atom)
        if signed is None:
            continue
        slope, is_rising = signed
        others = (value - slope * Int.of(atom)) + slope
        if set(Int.of(atom).leaves()) & set(others.leaves()):
            found.append((atom, slope, is_rising))
    return found


def _signed_slope(value: Int, atom: Quotient | Extremum) -> tuple[Int, bool] | None:
    """The slope of an atom and whether it is at least 0; None where its sign is not known."""
    slope = _slope(value, atom)
    if slope is None:
        return None
    low, high = _interval(slope)
    return (slope, low >= 0) if low >= 0 or high <= 0 else None


def _bound_quotients(value: Int, *, lowest: bool) -> Int:
    """Replace each ``num // den`` by its symbolic bound: ``i < s*t`` gives ``i//t <= s - 1``."""
    for atom in value.atoms():
        if not isinstance(atom, Quotient):
            continue
        signed = _signed_slope(value, atom)
        if signed is None:
            continue
        slope, is_rising = signed
        bound = _extreme(atom.num, lowest=is_rising == lowest) // atom.den
        value = value + slope * (bound - Int.of(atom))
    return value


def _common_divisor(value: Int) -> int:
    """A multiple of the divisors of the terms ``num // number``; 1 if other terms have no variable
    of theirs, since nothing cancels then."""
    found = 1
    for monomial, _ in value.terms:
        divisor = _divisor(monomial)
        if divisor > 1:
            rest = [term for term in value.terms if term[0] is not monomial]
            if set(monomial[0].num.leaves()) & set(Int(tuple(rest)).leaves()):  # type: ignore[union-attr]
                found = math.lcm(found, divisor)
    return found


def _divisor(monomial: Monomial) -> int:
    """The number that a term is divided by; 1 of any other term."""
    if len(monomial) != 1 or not isinstance(monomial[0], Quotient):
        return 1
    return monomial[0].den.constant or 1


def _fractions(value: Int, times: int, *, lowest: bool) -> Int:
    """At most ``times * value``, or at least it, without quotients whose divisor is in ``times``.

    ``num // d`` is at most ``num / d``, and at least ``(num - d + 1) / d``.
    """
    total = Int.of(0)
    for monomial, coefficient in value.terms:
        divisor = _divisor(monomial)
        if divisor == 1 or times % divisor:
            total = total + times * Int(((monomial, coefficient),))
            continue
        num = monomial[0].num  # type: ignore[union-attr]
        if (coefficient > 0) == lowest:
            num = num - (divisor - 1)
        total = total + coefficient * (times // divisor) * num
    return total


def _slope(value: Int, axis: Axis | Quotient | Extremum) -> Int | None:
    """The coefficient of ``axis``, or another atom, if ``value`` is linear in it.

    None if an axis is used elsewhere too.
    """
    slope = []
    for monomial, coefficient in value.terms:
        count = monomial.count(axis)
        rest = tuple(atom for atom in monomial if atom is not axis)
        if count > 1 or any(
            axis in Int.of(a).leaves() for a in rest if not isinstance(a, (Var, Axis))
        ):
            return None
        if count == 1:
            slope.append((rest, coefficient))
    return (
        Int(tuple(slope))
        if len(slope) == 1
        else sum((Int(((rest, c),)) for rest, c in slope), start=Int.of(0))
    )


def _interval(value: Int) -> tuple[Bound, Bound]:
    low: Bound = 0
    high: Bound = 0
    for monomial, coefficient in value.terms:
        term: tuple[Bound, Bound] = (coefficient, coefficient)
        for atom in monomial:
            term = _times(term, _atom_interval(atom))
        low, high = low + term[0], high + term[1]
    return low, high


def _times(a: tuple[Bound, Bound], b: tuple[Bound, Bound]) -> tuple[Bound, Bound]:
    products = [0 if x == 0 or y == 0 else x * y for x in a for y in b]
    return min(products), max(products)


def _atom_interval(atom: Atom) -> tuple[Bound, Bound]:
    if isinstance(atom, Var):
        return atom.low, atom.high
    if isinstance(atom, (Axis, Indirect)):
        return 0, bounds(atom.extent)[1] - 1
    if isinstance(atom, Extremum):
        (a0, a1), (b0, b1) = bounds(atom.a), bounds(atom.b)
        return (min(a0, b0), min(a1, b1)) if atom.name == "min" else (max(a0, b0), max(a1, b1))
    (n0, n1), (d0, d1) = bounds(atom.num), bounds(atom.den)
    if isinstance(atom, Remainder):
        return 0, min(d1 - 1, n1) if n0 >= 0 else d1 - 1
    return _quotient_interval(n0, n1, d0, d1)


def _quotient_interval(n0: Bound, n1: Bound, d0: Bound, d1: Bound) -> tuple[Bound, Bound]:
    def divide(n: Bound, d: Bound) -> Bound:
        if math.isinf(n):
            return n
        return (0 if n >= 0 else -1) if math.isinf(d) else n // d

    corners = [divide(n, d) for n in (n0, n1) for d in (max(d0, 1), max(d1, 1))]
    return min(corners), max(corners)
