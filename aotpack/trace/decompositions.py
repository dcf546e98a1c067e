"""What becomes of each operator when a program is taken apart: torch's decomposition, or itself.

``ExportedProgram.run_decompositions`` finds this out anew for each program, and tells all of
torch's composite operators one by one, which takes longer than a small program itself. Most of
them are to be taken apart as torch does by itself: only the others need to be told.
"""

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, TypeAlias

import torch
from torch._decomp import decomposition_table
from torch.export.exported_program import _split_decomp_table_to_cia_and_python_decomp

NOT_TAKEN_APART = frozenset(
    {"aten.complex.default", "aten.polar.default"}  # by writes into a new tensor: not functional
    | {"aten.igamma.default", "aten.igammac.default", "aten.special_zeta.default"}  # by themselves
)

Table: TypeAlias = Mapping[Any, Callable[..., Any]]


@cache
def decompositions(whole: frozenset[str] | None) -> tuple[Table, Table]:
    """For every operator that ``whole`` does not name; where it is None, no operator has one.

    The first table is of composite operators (torch's CompositeImplicitAutograd) that are kept or
    have a decomposition in Python, the second of all others.
    """
    wanted = {} if whole is None else _known(whole | NOT_TAKEN_APART)
    composite, others = _split_decomp_table_to_cia_and_python_decomp(wanted)
    return {op: made for op, made in composite.items() if not _is_own(made)}, others


def _known(kept: frozenset[str]) -> dict[Any, Callable[..., Any]]:
    """Of the two tables torch has, export's own comes first: it is what torch keeps stable."""
    exported: Any = torch.export.default_decompositions()
    known = {**decomposition_table, **dict(exported.items())}
    return {operator: made for operator, made in known.items() if str(operator) not in kept}


def _is_own(decomposition: Callable[..., Any]) -> bool:
    """True for what torch does with a composite operator of which it is told nothing."""
    return isinstance(decomposition, partial) and "kernel" in decomposition.keywords
