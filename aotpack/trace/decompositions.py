"""torch's own decompositions of the operators that lowering does not take whole."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import torch
from torch._decomp import decomposition_table

NOT_TAKEN_APART = frozenset(
    {"aten.complex.default", "aten.polar.default"}  # by writes into a new tensor: not functional
    | {"aten.igamma.default", "aten.igammac.default", "aten.special_zeta.default"}  # by themselves
)


@cache
def decompositions(whole: frozenset[str]) -> Mapping[Any, Callable[..., Any]]:
    """By operator, for every operator that is not named in ``whole``.

    Of the two tables torch has, export's own comes first: it is what torch keeps stable.
    """
    exported: Any = torch.export.default_decompositions()
    known = {**decomposition_table, **dict(exported.items())}
    kept = whole | NOT_TAKEN_APART
    return {operator: made for operator, made in known.items() if str(operator) not in kept}
