"""Remainders of a number less sizes, as ``-n % 8``, in a form of which torch knows the range.

With ``divmod``, which torch's sizes lack.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import sympy
import torch

from aotpack.trace.operators.modes import patched

_DIVMODS: Mapping[str, Callable[[Any, Any], Any]] = {
    "__divmod__": lambda size, divisor: _both(size, divisor),
    "__rdivmod__": lambda divisor, size: _both(size, divisor),
}


@contextmanager
def remainders_of_any_length() -> Iterator[None]:
    """Inside the block, ``-n % 8`` is ``(8 - n % 8) % 8``, and ``divmod`` takes sizes.

    torch solves the conditions on sizes for remainders of sizes; of their negatives it derives
    ranges in which no size is.
    """
    lacking = {name: one for name, one in _DIVMODS.items() if not hasattr(torch.SymInt, name)}
    for name, function in lacking.items():
        setattr(torch.SymInt, name, function)
    try:
        with patched(torch.SymInt, "__mod__", _remaining):
            yield
    finally:
        for name in lacking:
            delattr(torch.SymInt, name)


def _both(size: Any, divisor: Any) -> Any:
    """The quotient and the remainder of integers."""
    is_whole = all(isinstance(one, (int, torch.SymInt)) for one in (size, divisor))
    return (size // divisor, size % divisor) if is_whole else NotImplemented


def _remaining(plain: Callable[..., Any]) -> Callable[..., Any]:
    """The remainder by a positive number, taken of the negative and counted from the end."""

    def remainder(value: torch.SymInt, divisor: Any) -> Any:
        if type(divisor) is not int or divisor < 1 or not _is_less_sizes(value):
            return plain(value, divisor)
        number = int(value.node.expr.as_coeff_Add()[0])
        beyond = max(0, -(-number // divisor) * divisor)  # a multiple: the remainder is the same
        return plain(divisor - plain(beyond - value, divisor), divisor)

    return remainder


def _is_less_sizes(value: torch.SymInt) -> bool:
    """True for a number less sizes that may be negative."""
    if not value.node.is_symbolic():
        return False
    expression = value.node.expr
    number, rest = expression.as_coeff_Add()
    if value.node.shape_env.bound_sympy(expression).lower >= 0 or not number.is_Integer:
        return False
    terms = sympy.Add.make_args(rest)
    return rest != 0 and all(one.could_extract_minus_sign() for one in terms)
