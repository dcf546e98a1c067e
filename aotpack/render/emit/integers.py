"""Integers -> text: sizes and indices, their divisions, and comparisons between them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

from aotpack.ir.symbolic.facts import known_le, known_nonnegative
from aotpack.ir.symbolic.integers import (
    Atom,
    Axis,
    Extremum,
    Indirect,
    Int,
    Quotient,
    Remainder,
    Var,
    maximum,
)
from aotpack.ir.values import INFIX, Apply, Const, IndexValue, Load, Value
from aotpack.render.emit.arguments import Arguments
from aotpack.render.emit.dialect import Dialect
from aotpack.render.emit.frame import Frame
from aotpack.render.emit.nesting import Dependent
from aotpack.render.emit.regions import Region

COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


def is_of_integers(value: Apply) -> bool:
    """True for a comparison of indices and numbers: it needs no cast to the type of data."""
    if value.op not in COMPARISONS:
        return False
    numbers = (arg for arg in value.args if isinstance(arg, Const))
    indices = [arg for arg in value.args if isinstance(arg, IndexValue)]
    others = len(value.args) - len(indices)
    return bool(indices) and others == sum(_is_short(number) for number in numbers)


def _is_short(number: Const) -> bool:
    """True for an integer that any index type holds."""
    return not number.dtype.is_float and -(2**31) <= number.value < 2**31


class Integers(Dependent):
    """Writes the lines that compute integers; ``value`` gives the text of data inside them."""

    def __init__(
        self,
        region: Region,
        frame: Frame,
        resolve: Callable[[Load], Value | str | None],
        arguments: Arguments,
        fresh: Callable[[str], str],
        dialect: Dialect,
    ) -> None:
        super().__init__(region, frame, resolve)
        self.arguments, self.fresh, self.dialect = arguments, fresh, dialect
        self._guards: tuple[str, ...] = ()
        self._guard_needs: frozenset[Axis] = frozenset()

    @abstractmethod
    def value(self, value: Value) -> str:
        """The text of a value."""

    def comparison(self, value: Apply) -> str:
        """The text of a comparison ``is_of_integers``."""
        left, right = (
            self._operand(arg.index) if isinstance(arg, IndexValue) else _number(arg)
            for arg in value.args
        )
        return f"({left} {INFIX[value.op][0]} {right})"

    def index(self, expression: Int) -> str:
        """The text of an integer; divisions get names of their own."""
        self.arguments.use_sizes(expression)
        parts: list[str] = []
        for monomial, coefficient in expression.terms:
            factors = [self._atom(atom) for atom in monomial]
            if abs(coefficient) != 1 or not factors:
                factors.insert(0, str(abs(coefficient)))
            parts.append((" - " if coefficient < 0 else " + ") + "*".join(factors))
        text = "".join(parts) or " + 0"
        return text[3:] if text.startswith(" + ") else "-" + text[3:]

    def _atom(self, atom: Atom) -> str:
        if isinstance(atom, Axis):
            return self.frame.names[atom]
        if isinstance(atom, Var):
            return self.dialect.size(atom.name)
        if isinstance(atom, Indirect):
            return self.dialect.indirect(self.value(atom.value), atom.value.dtype)
        loads = any(isinstance(leaf, Indirect) for leaf in Int.of(atom).leaves())
        key = (atom, self._guards if loads else ())
        found = self.region.find(key)
        if found is None:
            needs = self.index_needs(Int.of(atom)) | (self._guard_needs if loads else frozenset())
            home = self.region.home(needs)
            text = self._division(atom) if not isinstance(atom, Extremum) else self._extremum(atom)
            found = home.names[key] = self.fresh("i")
            home.append(self.dialect.declare(found, text, None))
        return found

    def _division(self, atom: Quotient | Remainder) -> str:
        """Divisions of both languages round towards zero: right for numerators >= 0 only.

        What reads no element may divide by the size 0, which stops a processor.
        """
        divisor = atom.den if known_le(1, atom.den) else maximum(atom.den, 1)
        num, den = self.frame.start(atom) or self._operand(atom.num), self._operand(divisor)
        quotient, rest = self.dialect.quotient, self.dialect.remainder(num, den)
        if known_nonnegative(atom.num):
            return quotient(num, den) if isinstance(atom, Quotient) else rest
        positive = self.dialect.remainder(f"({rest} + {den})", den)
        return quotient(f"({num} - {positive})", den) if isinstance(atom, Quotient) else positive

    def _extremum(self, atom: Extremum) -> str:
        return self.dialect.extremum(atom.name, self.index(atom.a), self.index(atom.b))

    def _operand(self, expression: Int) -> str:
        text = self.index(expression)
        return text if text.isidentifier() or text.isdigit() else f"({text})"


def _number(value: Value) -> str:
    assert isinstance(value, Const)
    return str(int(value.value))
