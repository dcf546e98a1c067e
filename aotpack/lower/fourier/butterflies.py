"""Short transforms as straight-line arithmetic: products of primes, in decimation in time."""

from collections.abc import Callable, Iterator, Sequence

from aotpack.ir.values import Value
from aotpack.lower.fourier.tables import root
from aotpack.lower.values import apply

Part = Value | None
"""None is zero."""
Pair = tuple[Part, Part]


def butterfly(points: Sequence[Pair], sign: int, keep: Callable[[Pair], Pair]) -> list[Pair]:
    """``X[k] = sum over j of x[j] * exp(sign * 2 pi i * j * k / n)`` for all k.

    ``keep`` names numbers that several results are computed from.
    """
    length = len(points)
    prime = next(prime_factors(length), 1)
    if prime == length:
        return _prime([*map(keep, points)], sign)
    parts = [butterfly(points[first::prime], sign, keep) for first in range(prime)]
    stride = length // prime
    found: list[Pair] = [(None, None)] * length
    for k in range(stride):
        turned = [
            keep(times(part[k], root(first * k, length, sign))) for first, part in enumerate(parts)
        ]
        for number, pair in enumerate(_prime(turned, sign)):
            found[k + stride * number] = pair
    return found


def prime_factors(number: int) -> Iterator[int]:
    """The prime factors, ascending."""
    factor = 2
    while factor * factor <= number:
        while number % factor == 0:
            yield factor
            number //= factor
        factor += 1
    if number > 1:
        yield number


def _prime(points: Sequence[Pair], sign: int) -> list[Pair]:
    """A transform of prime length: sums and differences of opposite points, then products."""
    length = len(points)
    first, *others = points
    if length < 3:
        return [first] if not others else [plus(first, others[0]), minus(first, others[0])]
    half = length // 2
    opposite = [(others[j], others[-1 - j]) for j in range(half)]
    sums, differences = [plus(*two) for two in opposite], [minus(*two) for two in opposite]
    found: list[Pair] = [(None, None)] * length
    found[0] = _total([first, *sums])
    for k in range(1, half + 1):
        turns = [root((j + 1) * k, length, sign) for j in range(half)]
        even = _total([first, *(_scaled(s, t.real) for s, t in zip(sums, turns, strict=True))])
        odd = _total([_scaled(d, t.imag) for d, t in zip(differences, turns, strict=True)])
        turned = _negative(odd[1]), odd[0]
        found[k], found[length - k] = plus(even, turned), minus(even, turned)
    return found


# --- complex arithmetic -------------------------------------------------------------------------


def plus(a: Pair, b: Pair) -> Pair:
    """The sum of two complex numbers."""
    return _add(a[0], b[0]), _add(a[1], b[1])


def minus(a: Pair, b: Pair) -> Pair:
    """The difference of two complex numbers."""
    return _subtract(a[0], b[0]), _subtract(a[1], b[1])


def times(a: Pair, factor: complex) -> Pair:
    """A complex number times a constant."""
    (x, y), real, imaginary = a, factor.real, factor.imag
    return (
        _subtract(_product(x, real), _product(y, imaginary)),
        _add(_product(x, imaginary), _product(y, real)),
    )


def product(a: Pair, b: Pair) -> Pair:
    """The product of two complex numbers."""

    def multiplied(x: Part, y: Part) -> Part:
        return None if x is None or y is None else apply("mul", x, y)

    return (
        _subtract(multiplied(a[0], b[0]), multiplied(a[1], b[1])),
        _add(multiplied(a[0], b[1]), multiplied(a[1], b[0])),
    )


def conjugate(a: Pair) -> Pair:
    """The number with the other imaginary part."""
    return a[0], _negative(a[1])


def _total(pairs: Sequence[Pair]) -> Pair:
    whole, *rest = pairs
    for pair in rest:
        whole = plus(whole, pair)
    return whole


def _scaled(a: Pair, factor: float) -> Pair:
    return _product(a[0], factor), _product(a[1], factor)


def _add(a: Part, b: Part) -> Part:
    if a is None or b is None:
        return b if a is None else a
    return apply("add", a, b)


def _subtract(a: Part, b: Part) -> Part:
    if a is None or b is None:
        return a if b is None else _negative(b)
    return apply("sub", a, b)


def _negative(a: Part) -> Part:
    return None if a is None else apply("neg", a)


def _product(a: Part, factor: float) -> Part:
    if a is None or factor == 0:
        return None
    if abs(factor) == 1:
        return a if factor == 1 else _negative(a)
    return apply("mul", a, factor)
