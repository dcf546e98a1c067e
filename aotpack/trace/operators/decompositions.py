"""Which operators are decomposed, and into what; lowering takes the others whole.

``ExportedProgram.run_decompositions`` finds this out anew for each program, and tells all of
torch's composite operators one by one, which takes longer than a small program itself. Most of
them are to be taken apart as torch does by itself: only the others need to be told. So its two
steps, which torch keeps for itself, are called one by one where they are as they are known to be
(torch 2.11 to 2.15), else the whole.
"""

import inspect
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, TypeAlias

import torch
from torch.export import ExportedProgram, exported_program

from aotpack.errors import TraceError

NOT_TAKEN_APART = frozenset(
    {"aten.complex.default", "aten.polar.default"}  # by writes into a new tensor: not functional
    | {"aten.igamma.default", "aten.igammac.default", "aten.special_zeta.default"}  # by themselves
)

Table: TypeAlias = Mapping[Any, Callable[..., Any]]

_STEPS = {
    "_split_decomp_table_to_cia_and_python_decomp": ("decomp_table",),
    "_decompose_exported_program": (
        *("ep", "cia_to_decomp", "python_decomp_table"),
        *("joint_loss_index", "decompose_custom_triton_ops"),
    ),
}
"""The two steps, with their parameters."""


def take_apart(program: ExportedProgram, whole: frozenset[str] | None) -> ExportedProgram:
    """The program without the operators that ``whole`` does not name and torch can take apart."""
    done: ExportedProgram
    if not all(_is_known(name, parameters) for name, parameters in _STEPS.items()):
        done = program.run_decompositions(dict(_wanted(whole)))
        return done
    split, decompose = (getattr(exported_program, name) for name in _STEPS)
    composite, others = _told(split, whole)
    done = decompose(
        program,
        cia_to_decomp=dict(composite),
        python_decomp_table=dict(others),
        joint_loss_index=None,
        decompose_custom_triton_ops=False,
    )
    return done


def _is_known(step: str, parameters: tuple[str, ...]) -> bool:
    """True where this torch has a function of its own as it is called here."""
    found = getattr(exported_program, step, None)
    return found is not None and tuple(inspect.signature(found).parameters) == parameters


@cache
def _told(split: Callable[..., Any], whole: frozenset[str] | None) -> tuple[Table, Table]:
    """For every operator that ``whole`` does not name; where it is None, no operator has one.

    The first table is of composite operators (torch's CompositeImplicitAutograd) that are kept or
    have a decomposition in Python, the second of all others.
    """
    composite, others = split(dict(_wanted(whole)))
    return {op: made for op, made in composite.items() if not _is_own(made)}, others


@cache
def _wanted(whole: frozenset[str] | None) -> Table:
    """Of the two tables torch has, export's own comes first: it is what torch keeps stable."""
    if whole is None:
        return {}
    exported: Any = torch.export.default_decompositions()
    known, kept = {**_whole_table(), **dict(exported.items())}, whole | NOT_TAKEN_APART
    return {operator: made for operator, made in known.items() if str(operator) not in kept}


def _whole_table() -> Table:
    table: Table | None = getattr(getattr(torch, "_decomp", None), "decomposition_table", None)
    if table is None:
        raise TraceError(
            f"torch {torch.__version__} has no torch._decomp.decomposition_table, by which "
            "operators are taken apart; torch 2.11 to 2.15 have it"
        )
    return table


def _is_own(decomposition: Callable[..., Any]) -> bool:
    """True for what torch does with a composite operator of which it is told nothing."""
    return isinstance(decomposition, partial) and "kernel" in decomposition.keywords
