"""Random integer expressions, each with the plain Python function it must equal."""

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from hypothesis import strategies as st

from aotpack.ir.symbolic.integers import Axis, Int, Var, maximum, minimum

Point = Mapping[str, int]
S = Var("s", 1, 5)
T = Var("t", 2, 4)
ROW = Axis("i", Int.of(S))
J = Axis("j", Int.of(T))
K = Axis("k", Int.of(6))
FLAT = Axis("l", Int.of(S) * T)


@dataclass(frozen=True, slots=True)
class Pair:
    """An expression and its direct meaning."""

    built: Int
    direct: Callable[[Point], int]

    def __repr__(self) -> str:
        return str(self.built)


def points() -> Iterator[Point]:
    """Every admitted size with the corners and some inner points of the axes."""
    for s, t in itertools.product(range(S.low, S.high + 1), range(T.low, T.high + 1)):
        extents = {"i": s, "j": t, "k": 6, "l": s * t}
        ranges = [sorted({0, 1, n // 2, n - 1} & set(range(n))) for n in extents.values()]
        for values in itertools.product(*ranges):
            yield {"s": s, "t": t, **dict(zip(extents, values, strict=True))}


POINTS = tuple(points())


def leaf(atom: Var | Axis) -> Pair:
    return Pair(Int.of(atom), lambda point: point[atom.name])


def number(value: int) -> Pair:
    return Pair(Int.of(value), lambda point: value)


LEAVES = st.sampled_from([leaf(atom) for atom in (S, T, ROW, J, K, FLAT)])
NUMBERS = st.integers(-7, 7).map(number)
DIVISORS = st.sampled_from(
    [number(n) for n in (1, 2, 3, 4, 6, 12)]
    + [leaf(S), leaf(T)]
    + [
        Pair(Int.of(S) * T, lambda point: point["s"] * point["t"]),
        Pair(Int.of(T) * 6, lambda point: point["t"] * 6),
        Pair(Int.of(S) + 1, lambda point: point["s"] + 1),
    ]
)


def combine(name: str, a: Pair, b: Pair) -> Pair:
    f, g = a.direct, b.direct
    match name:
        case "+":
            return Pair(a.built + b.built, lambda p: f(p) + g(p))
        case "-":
            return Pair(a.built - b.built, lambda p: f(p) - g(p))
        case "*":
            return Pair(a.built * b.built, lambda p: f(p) * g(p))
        case "//":
            return Pair(a.built // b.built, lambda p: f(p) // g(p))
        case "%":
            return Pair(a.built % b.built, lambda p: f(p) % g(p))
        case "min":
            return Pair(minimum(a.built, b.built), lambda p: min(f(p), g(p)))
    return Pair(maximum(a.built, b.built), lambda p: max(f(p), g(p)))


def _grow(smaller: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
    sums = st.builds(combine, st.sampled_from(["+", "-", "min", "max"]), smaller, smaller)
    scaled = st.builds(combine, st.just("*"), smaller, NUMBERS | DIVISORS)
    digits = st.builds(combine, st.sampled_from(["//", "%"]), smaller, DIVISORS)
    return sums | scaled | digits


def mixed_radix(strides: tuple[Pair, Pair]) -> Pair:
    """``i*a*b + j*b + k``-like sums: what reshapes make."""
    high, low = strides
    total = combine("*", leaf(ROW), combine("*", high, low))
    total = combine("+", total, combine("*", leaf(J), low))
    return combine("+", total, leaf(K))


MIXED_RADIX = st.tuples(DIVISORS, DIVISORS).map(mixed_radix)
PAIRS = st.recursive(LEAVES | NUMBERS | MIXED_RADIX, _grow, max_leaves=6)
