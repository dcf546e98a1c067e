"""Symbolic sizes: torch's sympy expressions -> ``Int`` over ``Var``s with the user's names.

Ranges come from the exported program. Sizes start at 1, because export itself assumes that no
dynamic size is 0; a size without an upper bound ends at ``LARGEST_SIZE`` (2**31 - 1).
Sizes that torch rounds from float64, as ``int(1.5 * n)``, become ``3 * n // 2``: a fraction of
small numbers replaces the factor where it gives the same integer for each admitted size.
"""

import re
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from typing import Any, TypeVar

import numpy as np
import sympy
import torch
from torch.export import Dim, ExportedProgram

from aotpack.errors import UnsupportedError
from aotpack.ir.names import safe_size_name
from aotpack.ir.symbolic.facts import bounds
from aotpack.ir.symbolic.integers import LARGEST_SIZE, Int, Var, maximum, minimum, product, total
from aotpack.trace.diagnostics.conditions import with_numbers
from aotpack.trace.diagnostics.declared import declared_symbols, root_of
from aotpack.trace.diagnostics.guards import LeafSpec, admitted
from aotpack.trace.diagnostics.roundings import ROUNDINGS


def _power(base: Int, exponent: Int) -> Int:
    if exponent.constant is None:
        raise UnsupportedError(
            f"a size has the power {exponent}, another size; accepted are powers that are constant"
        )
    return product([base] * exponent.constant)


_FUNCTIONS: dict[str, Callable[..., Int]] = {
    "ModularIndexing": lambda a, b, c: a // b % c,
    "Max": lambda *values: reduce(maximum, values),
    "Min": lambda *values: reduce(minimum, values),
    "PowByNatural": _power,
    "Identity": lambda a: a,
}

_EXACT = 2**53  # integers that float64 has
_MOST_SIZES = 2**24  # that are tried
_DENOMINATORS = (1, 10, 100, 1000, 10_000)

_DIVISIONS = ("FloorDiv", "CleanDiv")
_REMAINDERS = ("Mod", "PythonMod")
_QUOTIENTS = ("IntTrueDiv", "FloatTrueDiv")

_SYMBOL = re.compile(r"(?<![\w.])s\d+(?!\w)")  # of a size of an input

Whole = TypeVar("Whole", Int, np.ndarray)
Convert = Callable[[Any], Int]


def _is_less(a: Int, b: Int) -> Int:
    """1 where ``a < b``, else 0."""
    return minimum(maximum(b - a, 0), 1)


_JUNCTIONS: dict[str, Callable[[Int, Int], Int]] = {"And": minimum, "Or": maximum}
_COMPARISONS: dict[str, Callable[[Int, Int], Int]] = {
    "StrictLessThan": _is_less,
    "StrictGreaterThan": lambda a, b: _is_less(b, a),
    "LessThan": lambda a, b: _is_less(a, b + 1),
    "GreaterThan": lambda a, b: _is_less(b, a + 1),
    "Equality": lambda a, b: 1 - maximum(_is_less(a, b), _is_less(b, a)),
    "Unequality": lambda a, b: maximum(_is_less(a, b), _is_less(b, a)),
}
_SIGNS = {
    "StrictLessThan": "<",
    "StrictGreaterThan": ">",
    "LessThan": "<=",
    "GreaterThan": ">=",
    "Equality": "==",
    "Unequality": "!=",
}


@dataclass(frozen=True, slots=True)
class Sizes:
    """The dynamic sizes of a program, by torch's symbol name.

    ``defined`` are the symbols for sizes inside branches and loops. ``counted`` are those of the
    ``variables`` that data decide, and ``outside`` all that calls outside of those yield.
    ``divisors`` are those which data decide, and may be 0.
    """

    variables: Mapping[str, Var]
    defined: dict[str, Int] = field(default_factory=dict)
    counted: frozenset[str] = frozenset()
    outside: frozenset[str] = frozenset()
    divisors: dict[Int, None] = field(default_factory=dict)

    def knows(self, value: Any) -> bool:
        """True for a number that is computed from sizes alone."""
        if not isinstance(value, (torch.SymInt, torch.SymBool)):
            return False
        return symbols_in(value) <= {*self.variables, *self.defined}

    def define(self, symbol: torch.SymInt, value: Any) -> None:
        """Define a symbol that is not a size of the program."""
        name = str(symbol.node.expr)
        if name not in self.variables:
            self.defined[name] = Int.of(value)

    def truth(self, value: torch.SymBool) -> Int:
        """A condition on sizes as 1 or 0."""
        return self._truth(value.node.expr)

    def is_less(self, a: Int, b: Int) -> Int:
        """1 where one size is less than another, else 0."""
        return _is_less(a, b)

    def equal(self, a: Int, b: Int) -> Int:
        """1 where two sizes are equal, else 0."""
        return _COMPARISONS["Equality"](a, b)

    def stated(self, value: torch.SymBool) -> str:
        """A condition on sizes as text."""
        expr = value.node.expr
        sign = _SIGNS.get(type(expr).__name__)
        if sign is None:
            return f"{self._truth(expr)} == 1"
        return f" {sign} ".join(str(self._convert(side)) for side in expr.args)

    def _truth(self, expr: Any) -> Int:
        if expr in (sympy.true, sympy.false):  # for all sizes
            return Int.of(int(bool(expr)))
        kind = type(expr).__name__
        if kind in _JUNCTIONS:
            return reduce(_JUNCTIONS[kind], map(self._truth, expr.args))
        if kind == "Not":
            return 1 - self._truth(expr.args[0])
        if kind not in _COMPARISONS:
            raise UnsupportedError(f"a condition on sizes is {kind} ({expr})")
        return _COMPARISONS[kind](*map(self._convert, expr.args))

    def convert(self, value: int | torch.SymInt) -> Int:
        """The size as an expression over the named variables."""
        if isinstance(value, int):
            return Int.of(value)
        return self._convert(value.node.expr)

    def named(self, text: str) -> str:
        """A text with the names of sizes in place of torch's symbols."""
        taken = {size.name for size in self.variables.values()}

        def name(match: re.Match[str]) -> str:
            size = self.variables.get(match[0])
            return match[0] if size is None or match[0] in taken else size.name

        return with_numbers(_SYMBOL.sub(name, text))

    def argument(self, value: int | torch.SymInt) -> Int | int:
        """Like ``convert``, but a constant becomes an int."""
        converted = self.convert(value)
        return converted if converted.constant is None else converted.constant

    def _convert(self, expr: Any) -> Int:
        if isinstance(expr, sympy.Integer):
            return Int.of(int(expr))
        if isinstance(expr, sympy.Symbol):
            return self._variable(str(expr))
        numerator, denominator = expr.as_numer_denom()
        if denominator != 1:
            return self._convert(numerator) // self._convert(denominator)
        if isinstance(expr, sympy.Add):
            return total(map(self._convert, expr.args))
        if isinstance(expr, sympy.Mul):
            return product(map(self._convert, expr.args))
        if isinstance(expr, sympy.Pow) and expr.exp.is_Integer:
            return product([self._convert(expr.base)] * int(expr.exp))
        if type(expr).__name__ in ROUNDINGS:
            return whole_number(expr, self._convert)
        if type(expr).__name__ == "RoundToInt":
            raise _refusal(
                expr,
                "accepted in place of round(0.6 * n) are math.floor(0.6 * n), math.ceil(0.6 * n), "
                "and integers, as (n * 6 + 5) // 10",
            )
        if type(expr).__name__ in (*_DIVISIONS, *_REMAINDERS):
            return self._divided(type(expr).__name__, *map(self._convert, expr.args))
        function = _FUNCTIONS.get(type(expr).__name__)
        if function is None:
            raise UnsupportedError(f"a size is computed with {type(expr).__name__} ({expr})")
        return function(*map(self._convert, expr.args))

    def _divided(self, kind: str, a: Int, b: Int) -> Int:
        """``a // b`` or ``a % b`` of Python, as ``n // -2 == -n // 2``."""
        low, high = bounds(b)
        if high < 0:
            return -a // -b if kind in _DIVISIONS else -(-a % -b)
        if low <= 0:
            b = self._positive(b)
        return a // b if kind in _DIVISIONS else a % b

    def _positive(self, divisor: Int) -> Int:
        """A divisor that is 1 at least, which the build or (where data decide it) a call checks."""
        variables = [one for one in divisor.leaves() if isinstance(one, Var)]
        if any(self.variables[symbol] in variables for symbol in self.counted):
            self.divisors[divisor] = None
            return maximum(divisor, 1)
        for values in admitted(variables, ()):
            if divisor.evaluate(values) <= 0:
                found = ", ".join(f"{name}={number}" for name, number in values.items())
                raise UnsupportedError(
                    f"a size is divided by {divisor}, which is {divisor.evaluate(values)} for "
                    f"{found}; accepted are ranges in which a divisor is 1 or more throughout, or "
                    "less than 0"
                )
        return divisor

    def _variable(self, symbol: str) -> Int:
        if symbol in self.defined:
            return self.defined[symbol]
        if symbol not in self.variables:
            shown = f"a size ({symbol}) depends on the data in a tensor"
            if symbol not in self.outside:
                shown += (
                    "; torch.cond and loops can use a size that was made before them, and both "
                    "branches can return a tensor of the same one; make x[mask] before, not inside"
                )
            raise UnsupportedError(shown)
        return Int.of(self.variables[symbol])


def find_sizes(
    program: ExportedProgram,
    inputs: Sequence[tuple[str, Any]],
    leaves: Sequence[LeafSpec],
    weights: Collection[str],
    reserved: Container[str] = (),
) -> Sizes:
    """Name every symbol that the shapes of the ``inputs`` (name, fake tensor) depend on.

    ``leaves`` are the dynamic specs of the inputs in order, empty for a saved program. No size has
    the name of an input or of one of the ``weights``, or a ``reserved`` name.
    """
    dims = declared_symbols([value for _, value in inputs], leaves)
    names = {symbol: _spelled(dim) for symbol, dim in dims.items()}
    for name, value in inputs:
        for axis, size in enumerate(getattr(value, "shape", ())):
            for symbol in _symbols(size):
                names.setdefault(symbol, unused_name(f"{name}_size{axis}", names.values()))
    order = [s for _, v in inputs for size in getattr(v, "shape", ()) for s in _symbols(size)]
    ranges = {str(symbol): bounds for symbol, bounds in program.range_constraints.items()}
    taken = {*weights, *(name for name, _ in inputs)}
    sizes: dict[str, Var] = {}
    for symbol in dict.fromkeys(order):
        sizes[symbol] = _variable(names[symbol], ranges[symbol], taken, reserved)
        taken.add(sizes[symbol].name)
    return Sizes(sizes)


def _spelled(dim: Dim) -> str:
    """The name of a size; ``a_minus_1`` of one that is ``a - 1`` where no other depends on a."""
    name: str = dim.__name__.replace(" - ", "_minus_").replace(" + ", "_plus_")
    root: str = root_of(dim).__name__
    return name if name.isidentifier() else root


def _variable(name: str, bounds: Any, taken: Collection[str], reserved: Container[str]) -> Var:
    high = int(bounds.upper) if bounds.upper.is_Integer else LARGEST_SIZE
    unused = unused_name(safe_size_name(name, reserved), taken)
    return Var(unused, max(1, int(bounds.lower)), min(high, LARGEST_SIZE))


def symbols_in(value: Any) -> set[str]:
    """The symbols in a symbolic number; none in any other value."""
    is_symbolic = isinstance(value, (torch.SymInt, torch.SymBool, torch.SymFloat))
    return {str(symbol) for symbol in value.node.expr.free_symbols} if is_symbolic else set()


def _symbols(size: int | torch.SymInt) -> list[str]:
    if isinstance(size, int):
        return []
    return sorted(str(symbol) for symbol in size.node.expr.free_symbols)


def unused_name(name: str, taken: Collection[str]) -> str:
    while name in taken:
        name += "_"
    return name


# --- sizes that are rounded floats ---------------------------------------------------------------


def whole_number(expr: Any, convert: Convert) -> Int:
    """A factor times a size, or a size over a number, as an integer."""
    (inner,) = expr.args
    if inner.is_integer and not inner.atoms(sympy.Float):  # of an integer, ``math.ceil(n)``
        return convert(inner)
    size, factor, is_quotient = _scaled(inner, convert)
    low, high = bounds(size)
    if low < 0 or factor <= 0:
        raise _refusal(expr, "accepted are positive sizes and factors")
    upwards = type(expr).__name__ == "CeilToInt"
    exact = Fraction(factor)
    if (is_quotient and high < _EXACT) or exact.numerator * high < _EXACT:
        return _times(size, exact, upwards)  # no rounding reaches an integer
    if high - low >= _MOST_SIZES:
        raise _refusal(expr, f"the size is at most {high}: declare a smaller maximum")
    sizes = np.arange(int(low), int(high) + 1)
    product = sizes * float(factor)
    wanted = (np.ceil(product) if upwards else np.floor(product)).astype(np.int64)
    for near in _fractions(exact):
        if np.array_equal(_times(sizes, near, upwards), wanted):
            return _times(size, near, upwards)
    raise _refusal(expr, "no fraction of small numbers gives the same for each admitted size")


def _scaled(expr: Any, convert: Convert) -> tuple[Int, Fraction, bool]:
    """The size, its factor, and whether that is one over a number."""
    kind = type(expr).__name__
    if kind == "ToFloat":
        return convert(expr.args[0]), Fraction(1), True
    if kind in _QUOTIENTS:
        above, below = expr.args
        number = Fraction(float(below)) if below.is_number else Fraction(0)
        if number > 0 and number.denominator == 1:
            is_float = type(above).__name__ == "ToFloat"
            return convert(above.args[0] if is_float else above), 1 / number, True
    if isinstance(expr, sympy.Mul) and len(expr.args) == 2 and expr.args[0].is_number:
        size, factor, _ = _scaled(expr.args[1], convert)
        if factor == 1:
            return size, Fraction(float(expr.args[0])), False
    raise _refusal(expr, "accepted are a number times a size, and a size over a number")


def _times(size: Whole, factor: Fraction, upwards: bool) -> Whole:
    scaled = size * factor.numerator
    if upwards:
        scaled = scaled + (factor.denominator - 1)
    return scaled // factor.denominator


def _fractions(exact: Fraction) -> Iterator[Fraction]:
    yield from dict.fromkeys(exact.limit_denominator(most) for most in _DENOMINATORS)


def _refusal(expr: Any, accepted: str) -> UnsupportedError:
    return UnsupportedError(f"a size is rounded from a float ({expr}); {accepted}")
