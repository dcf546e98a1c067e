"""What becomes of each operator when a program is taken apart: torch's decomposition, or itself.

``ExportedProgram.run_decompositions`` finds this out anew for each program, and tells all of
torch's composite operators one by one, which takes longer than a small program itself. Most of
them are to be taken apart as torch does by itself: only the others need to be told, once.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from typing import Any, TypeAlias

import torch
from torch._decomp import decomposition_table
from torch._subclasses.fake_impls import op_implementations_dict as fake_rules
from torch.export.exported_program import (
    _override_composite_implicit_decomp,
    _split_decomp_table_to_cia_and_python_decomp,
)

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


@contextmanager
def composites_told(whole: frozenset[str] | None) -> Iterator[None]:
    """Meanwhile composite operators become what the first table says."""
    told, rules = _told(whole)
    before = {op: dict(op.py_kernels) for op in told}
    _tell(told)
    fake_rules.update(rules)
    try:
        yield
    finally:
        _tell(before)
        for op in rules:
            fake_rules.pop(op, None)


@cache
def _told(whole: frozenset[str] | None) -> tuple[Mapping[Any, Table], Table]:
    """The kernels of each operator inside of torch's own context, and its rule for fake tensors."""
    composite, _ = decompositions(whole)
    with _override_composite_implicit_decomp(dict(composite)):
        rules = {op: fake_rules[op] for op in composite if op in fake_rules}
        return {op: dict(op.py_kernels) for op in composite}, rules


def _tell(kernels: Mapping[Any, Table]) -> None:
    for op, own in kernels.items():
        op.py_kernels.clear()
        op.py_kernels.update(own)
        op._dispatch_cache.clear()


def _known(kept: frozenset[str]) -> dict[Any, Callable[..., Any]]:
    """Of the two tables torch has, export's own comes first: it is what torch keeps stable."""
    exported: Any = torch.export.default_decompositions()
    known = {**decomposition_table, **dict(exported.items())}
    return {operator: made for operator, made in known.items() if str(operator) not in kept}


def _is_own(decomposition: Callable[..., Any]) -> bool:
    """True for what torch does with a composite operator of which it is told nothing."""
    return isinstance(decomposition, partial) and "kernel" in decomposition.keywords
