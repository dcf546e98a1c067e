"""torch's own decompositions of the operators that lowering does not take whole."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import torch
from torch._decomp import decomposition_table


@cache
def decompositions(whole: frozenset[str]) -> Mapping[Any, Callable[..., Any]]:
    """By operator, for every operator that is not named in ``whole``.

    Of the two tables torch has, export's own comes first: it is what torch keeps stable.
    """
    exported: Any = torch.export.default_decompositions()
    known = {**decomposition_table, **dict(exported.items())}
    return {operator: made for operator, made in known.items() if str(operator) not in whole}
