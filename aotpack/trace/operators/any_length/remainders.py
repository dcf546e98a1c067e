"""Remainders of a number less sizes, as ``-n % 8``, in a form of which torch knows the range."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import sympy
import torch

from aotpack.trace.operators.modes import patched


def remainders_of_any_length() -> AbstractContextManager[None]:
    """Inside the block, ``-n % 8`` is ``(8 - n % 8) % 8``.

    torch solves the conditions on sizes for remainders of sizes; of their negatives it derives
    ranges in which no size is.
    """
    return patched(torch.SymInt, "__mod__", _remaining)


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
