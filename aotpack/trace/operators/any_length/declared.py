"""What the user's declaration tells of a size that torch holds for a plain one while it exports.

A size that is declared ``4*m`` is a symbol of its own: that it is a multiple is in its name alone.
"""

import re
from typing import Any

import sympy
import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

_FORM = re.compile(r"(?:(\d+)\*)?([^\W\d]\w*)(?: ([+-]) (\d+))?")  # of torch's names: 4*m + 8


def is_multiple(size: torch.SymInt, number: int) -> bool:
    """True where all declared sizes are multiples of a number."""
    if statically_known_true(size % number == 0):
        return True
    expression = size.node.expr
    forms = {one: _declared(size, one) for one in expression.free_symbols}
    known = {symbol: form for symbol, form in forms.items() if form is not None}
    return bool(sympy.Mod(expression.subs(known), number) == 0)


def is_declared(size: Any) -> bool:
    """True for a size that stays dynamic; export may make a number of a ``Dim.AUTO``."""
    if not isinstance(size, torch.SymInt) or size.node.maybe_as_int() is not None:
        return False
    environment = size.node.shape_env
    return all(
        environment.is_unbacked_symint(one) or _declared(size, one) is not None
        for one in size.node.expr.free_symbols
    )


def _declared(size: torch.SymInt, symbol: sympy.Symbol) -> Any:
    """A symbol as its ``Dim``, which is one or ``a * m + b``; None for one that has none."""
    environment = size.node.shape_env
    for source in environment.var_to_sources.get(symbol, ()):
        name = environment.source_name_to_debug_name.get(source.name, "")
        if found := _FORM.fullmatch(name):
            factor, root, sign, number = found.groups()
            term = int(f"{sign or '+'}{number or 0}")
            return int(factor or 1) * sympy.Symbol(root, integer=True, positive=True) + term
    return None
