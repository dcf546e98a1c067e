"""Integer expressions: sizes and indices as canonical polynomials over variables with ranges.

An ``Int`` is canonical when built, so equal expressions are mostly one object and indices simplify
at once. The variables hold all facts; only the ``known_*`` functions of ``facts.py`` compare sizes.
Atoms may be non-linear: floor division, modulo, minimum, maximum, and loaded values. ``Rules``,
which the package ``aotpack.ir.symbolic`` installs, simplifies those.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar, Union

from aotpack.ir.interning import Interned

Number = Union["Int", int]
LARGEST_SIZE = 2**31 - 1
REMEMBERED = 2**16  # cached results of each operation


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Var(metaclass=Interned):
    """A size of the model: ``low <= name <= high``, a multiple of ``multiple``.

    With ``is_turn`` the number of a loop's iteration, which is unknown when a plan is made.
    """

    name: str
    low: int
    high: int
    multiple: int = 1
    is_turn: bool = False

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Axis(metaclass=Interned):
    """A loop variable: ``0 <= name < extent``."""

    name: str
    extent: Int

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Quotient(metaclass=Interned):
    """``num // den`` that does not simplify; ``den > 0``."""

    num: Int
    den: Int

    def __str__(self) -> str:
        return f"{operand(self.num)}//{operand(self.den)}"


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Remainder(metaclass=Interned):
    """``num % den`` that does not simplify; ``den > 0``, the result is in [0, den)."""

    num: Int
    den: Int

    def __str__(self) -> str:
        return f"{operand(self.num)}%{operand(self.den)}"


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Extremum(metaclass=Interned):
    """``min(a, b)`` or ``max(a, b)`` that the ranges do not decide."""

    name: str
    a: Int
    b: Int

    def __str__(self) -> str:
        return f"{self.name}({self.a}, {self.b})"


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Indirect(metaclass=Interned):
    """A loaded index: an integer value of the loop body, in [0, extent).

    ``value`` is an ``ir.values.Value``; negative indices are already wrapped.
    """

    value: Any
    extent: Int
    text: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", f"{{{self.value}}}")

    def __str__(self) -> str:
        return self.text


Leaf = Union[Var, Axis, Indirect]
Atom = Union[Leaf, Quotient, Remainder, Extremum]
Monomial = tuple[Atom, ...]  # sorted by printed text, repeated for powers


@dataclass(frozen=True, slots=True)
class Rules:
    """The simplification of non-linear operations, by facts about the operands.

    Facts need simplified expressions, so the rules are in modules that import this one.
    """

    quotient: Callable[[Int, Int], Int]
    remainder: Callable[[Int, Int], Int]
    extremum: Callable[[str, Int, Int], Int]
    rejoin: Callable[[Mapping[Monomial, int]], Int | None]


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Int(metaclass=Interned):
    """A polynomial: sorted ``(monomial, coefficient)`` pairs without zero coefficients.

    Build with ``Int.of`` and operators; equal polynomials are the same object.
    """

    rules: ClassVar[Rules]
    terms: tuple[tuple[Monomial, int], ...]
    text: str = field(init=False)
    indirects: tuple[Indirect, ...] = field(init=False)  # among the leaves; mostly none
    _leaves: tuple[Leaf, ...] = field(init=False)

    def __post_init__(self) -> None:
        leaves = _leaves(self.terms)
        object.__setattr__(self, "text", _print(self.terms))
        object.__setattr__(self, "_leaves", leaves)
        found = (leaf for leaf in leaves if isinstance(leaf, Indirect))
        object.__setattr__(self, "indirects", tuple(found))

    @staticmethod
    def of(value: Number | Atom) -> Int:
        """The expression for an integer, a variable, or an expression itself."""
        if isinstance(value, Int):
            return value
        if isinstance(value, int):
            return Int((((), value),)) if value else Int(())
        return Int((((value,), 1),))

    @property
    def constant(self) -> int | None:
        """The number, or None if it depends on a variable."""
        if not self.terms:
            return 0
        return self.terms[0][1] if len(self.terms) == 1 and not self.terms[0][0] else None

    @property
    def atom(self) -> Atom | None:
        """The single atom, or None for a sum, a product or a number."""
        if len(self.terms) == 1 and self.terms[0][1] == 1 and len(self.terms[0][0]) == 1:
            return self.terms[0][0][0]
        return None

    def __int__(self) -> int:
        if self.constant is None:
            raise TypeError(f"the size {self} is not a constant")
        return self.constant

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Int({self.text})"

    def __add__(self, other: Number) -> Int:
        return _sum(self, Int.of(other))

    __radd__ = __add__

    def __neg__(self) -> Int:
        return self * -1

    def __sub__(self, other: Number) -> Int:
        return self + Int.of(other) * -1

    def __rsub__(self, other: Number) -> Int:
        return Int.of(other) - self

    def __mul__(self, other: Number) -> Int:
        return _product(self, Int.of(other))

    __rmul__ = __mul__

    def __floordiv__(self, other: Number) -> Int:
        return Int.rules.quotient(self, Int.of(other))

    def __rfloordiv__(self, other: Number) -> Int:
        return Int.of(other) // self

    def __mod__(self, other: Number) -> Int:
        return Int.rules.remainder(self, Int.of(other))

    def __rmod__(self, other: Number) -> Int:
        return Int.of(other) % self

    def atoms(self) -> Iterable[Atom]:
        """Every atom of the polynomial, not those inside atoms; in printed order."""
        return dict.fromkeys(atom for monomial, _ in self.terms for atom in monomial)

    def leaves(self) -> tuple[Leaf, ...]:
        """Every variable, axis and indirect value this depends on, in printed order."""
        return self._leaves

    def map_leaves(self, change: Callable[[Atom], Int | None]) -> Int:
        """Replace each leaf by ``change(leaf)``; None keeps it. ``self`` if unchanged."""
        total: list[tuple[Monomial, int]] = []
        changed = False
        for monomial, coefficient in self.terms:
            product = Int.of(coefficient)
            for atom in monomial:
                new = _rebuild(atom, change)
                changed |= new.atom is not atom
                product *= new
            total += product.terms
        return from_terms(total) if changed else self

    def substitute(self, replacements: Mapping[Any, Number]) -> Int:
        """Replace variables, axes or indirect values by expressions."""
        if not replacements:
            return self
        return self.map_leaves(
            lambda leaf: Int.of(replacements[leaf]) if leaf in replacements else None
        )

    def evaluate(
        self, values: Mapping[str, Any], indirect: Callable[[Any], Any] | None = None
    ) -> Any:
        """The number (or numpy array) for given values of the variables, by name."""
        total: Any = 0
        for monomial, coefficient in self.terms:
            product: Any = coefficient
            for atom in monomial:
                product = product * _evaluate(atom, values, indirect)
            total = total + product
        return total


# Integers are interned, so caches find results by identity.
@lru_cache(maxsize=REMEMBERED)
def _sum(a: Int, b: Int) -> Int:
    return from_terms([*a.terms, *b.terms])


@lru_cache(maxsize=REMEMBERED)
def _product(a: Int, b: Int) -> Int:
    terms = [(_sorted(ma + mb), ca * cb) for ma, ca in a.terms for mb, cb in b.terms]
    return from_terms(terms)


def total(values: Iterable[Number]) -> Int:
    """The sum."""
    return from_terms([term for value in values for term in Int.of(value).terms])


def product(values: Iterable[Number]) -> Int:
    """The product; 1 for no values."""
    result = Int.of(1)
    for value in values:
        result = result * value
    return result


def ceil_div(a: Number, b: Number) -> Int:
    """``a / b`` rounded up."""
    return (Int.of(a) + Int.of(b) - 1) // b


def minimum(a: Number, b: Number) -> Int:
    """The smaller one, decided by the ranges where they decide."""
    return Int.rules.extremum("min", Int.of(a), Int.of(b))


def maximum(a: Number, b: Number) -> Int:
    """The larger one, decided by the ranges where they decide."""
    return Int.rules.extremum("max", Int.of(a), Int.of(b))


def _sorted(atoms: Monomial) -> Monomial:
    return tuple(sorted(atoms, key=str)) if len(atoms) > 1 else atoms


def from_terms(terms: Iterable[tuple[Monomial, int]]) -> Int:
    """Collect equal monomials, drop zeros, join ``d*(e//d) + e%d`` back to ``e``, sort."""
    collected: dict[Monomial, int] = {}
    for monomial, coefficient in terms:
        collected[monomial] = collected.get(monomial, 0) + coefficient
    collected = {monomial: c for monomial, c in collected.items() if c}
    if any(isinstance(atom, Remainder) for monomial in collected for atom in monomial):
        joined = Int.rules.rejoin(collected)
        if joined is not None:
            return joined
    return Int(tuple(sorted(collected.items(), key=_term_order)))


def _term_order(term: tuple[Monomial, int]) -> tuple[bool, list[str]]:
    """Terms print with the constant last, otherwise by their text."""
    return (not term[0], [str(atom) for atom in term[0]])


def _print(terms: tuple[tuple[Monomial, int], ...]) -> str:
    if not terms:
        return "0"
    parts: list[str] = []
    for monomial, coefficient in terms:
        factors = [_factor(atom) for atom in monomial]
        if abs(coefficient) != 1 or not factors:
            factors.insert(0, str(abs(coefficient)))
        sign = "-" if coefficient < 0 else "+"
        parts.append(f" {sign} " + "*".join(factors))
    text = "".join(parts)
    return text[3:] if text.startswith(" + ") else "-" + text[3:]


def operand(value: Int) -> str:
    """The text of ``value`` as an operand of a binary operator: parenthesised if it is compound."""
    simple = value.constant is not None or isinstance(value.atom, (Var, Axis, Extremum, Indirect))
    return str(value) if simple else f"({value})"


def _factor(atom: Atom) -> str:
    return f"({atom})" if isinstance(atom, (Quotient, Remainder)) else str(atom)


def _leaves(terms: tuple[tuple[Monomial, int], ...]) -> tuple[Leaf, ...]:
    """The leaves of all atoms, in their order. Kept, since indices are walked again and again."""
    found: dict[Leaf, None] = {}
    for monomial, _ in terms:
        for atom in monomial:
            for part in _parts(atom):
                found.update(dict.fromkeys(part.leaves()))
            if isinstance(atom, (Var, Axis, Indirect)):
                found[atom] = None
    return tuple(found)


def _parts(atom: Atom) -> tuple[Int, ...]:
    """The expressions inside an atom (an axis' extent is a fact about it, not a part)."""
    if isinstance(atom, (Quotient, Remainder)):
        return (atom.num, atom.den)
    return (atom.a, atom.b) if isinstance(atom, Extremum) else ()


def _rebuild(atom: Atom, change: Callable[[Atom], Int | None]) -> Int:
    if isinstance(atom, (Quotient, Remainder)):
        num, den = atom.num.map_leaves(change), atom.den.map_leaves(change)
        if num is atom.num and den is atom.den:
            return Int.of(atom)
        return num // den if isinstance(atom, Quotient) else num % den
    if isinstance(atom, Extremum):
        a, b = atom.a.map_leaves(change), atom.b.map_leaves(change)
        unchanged = a is atom.a and b is atom.b
        return Int.of(atom) if unchanged else Int.rules.extremum(atom.name, a, b)
    new = change(atom)
    return Int.of(atom) if new is None else new


def _evaluate(atom: Atom, values: Mapping[str, Any], indirect: Callable[[Any], Any] | None) -> Any:
    if isinstance(atom, (Var, Axis)):
        return values[atom.name]
    if isinstance(atom, Indirect):
        if indirect is None:
            raise TypeError(f"the index {atom} is read from memory")
        return indirect(atom)
    if isinstance(atom, Extremum):
        a, b = atom.a.evaluate(values, indirect), atom.b.evaluate(values, indirect)
        if isinstance(a, int) and isinstance(b, int):
            return min(a, b) if atom.name == "min" else max(a, b)
        lower = a < b
        return lower * a + (1 - lower) * b if atom.name == "min" else lower * b + (1 - lower) * a
    num, den = atom.num.evaluate(values, indirect), atom.den.evaluate(values, indirect)
    den = den + (den == 0)  # an index of a tensor without elements
    return num // den if isinstance(atom, Quotient) else num % den


def content(value: Int) -> int:
    """The greatest integer that divides every coefficient; 0 for zero."""
    return math.gcd(*(coefficient for _, coefficient in value.terms))
