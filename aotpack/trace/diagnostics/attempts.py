"""torch.export, and again without taking dynamic sizes for 2 or more.

What torch decides by that is right for some sizes only: it derives conditions from how it computes
shapes, such as ``(2*n + 2) % (n + 1) == 0``, which it cannot prove, or ``q * max(1, 4*n // n) !=
4*n // n``, which is wrong where q is 1.
"""

from collections.abc import Callable, Collection
from contextlib import nullcontext
from typing import Any, TypeAlias

import sympy
from torch._dynamo.exc import UserError, UserErrorType
from torch.export import ExportedProgram
from torch.fx.experimental import _config

from aotpack.trace.diagnostics.asked.branches import Branches
from aotpack.trace.diagnostics.asked.questions import Branch, layouts_asked
from aotpack.trace.diagnostics.assumed import ASSUMED
from aotpack.trace.diagnostics.derived import OnlySome, breaks_guards, drop_assumed, only_some
from aotpack.trace.diagnostics.guards import are_declared, guards_of
from aotpack.trace.diagnostics.reshaped import example_sizes
from aotpack.trace.diagnostics.solver import without_quotients

_ATTEMPT = "which attempt of torch.export"  # in the meta of a graph module
PLAIN, OBLIVIOUS, ASSERTING = range(3)
"""As torch does; without taking a size for 2 or more; so, and what torch asks is asserted."""
Export: TypeAlias = Callable[..., ExportedProgram]


def attempt_of(program: ExportedProgram) -> int:
    """By which attempt a program was exported."""
    found: int = program.graph_module.meta.get(_ATTEMPT, PLAIN)
    return found


def exported(export: Export, branches: Branches, *, is_strict: bool, first: int) -> ExportedProgram:
    """The program of the ``first`` attempt, or of a later one if torch derives a condition."""
    asked = None if is_strict else branches.found.values()  # dynamo asks for itself
    if first > PLAIN:
        again, told = _oblivious(export, branches, asked, may_guard=False, first=first)
        if again is None:
            raise told or OnlySome((), ())
        return again
    branches.found.clear()
    try:
        program = export()
    except (UserError, AssertionError, NotImplementedError, ValueError) as error:
        # the last three come from torch's solver of conditions, and from what tells its answer
        if isinstance(error, UserError) and not _is_about_sizes(error):
            raise
        may_guard = getattr(error, "error_type", None) is None
        again, told = _oblivious(export, branches, asked, may_guard=may_guard)
        if again is None:
            told = told or error
            raise told from told.__cause__
        return again
    if not breaks_guards(program):
        return program
    found = dict(branches.found)
    again, _ = _oblivious(export, branches, asked, may_guard=False)
    if again is None:  # the guards of the first are told
        branches.found.clear()
        branches.found.update(found)
    return again or program


def _oblivious(
    export: Export,
    branches: Branches,
    asked: Collection[Branch] | None,
    *,
    may_guard: bool,
    first: int = OBLIVIOUS,
) -> tuple[ExportedProgram | None, Exception | None]:
    """The program without taking sizes for 2; if there is none, perhaps an error that says why.

    A program that keeps no condition is checked on the sizes that are admitted; one that asserts
    them is taken if they hold, or may be assumed. If others do not, those are told, not what torch
    derives.
    """
    told: Exception | None = None
    for attempt in range(first, ASSERTING + 1):
        asserts = attempt == ASSERTING
        try:
            branches.found.clear()
            with (
                _config.patch(backed_size_oblivious=True),  # type: ignore[attr-defined]
                without_quotients() if asserts else nullcontext(),
            ):
                again = export(prefer_deferred_runtime_asserts_over_guards=asserts)
        except Exception as failure:
            if not asserts and _is_about_sizes(failure):
                told = failure
            continue
        guards = guards_of(again)
        refused = drop_assumed(again, asked) if asserts else []
        if refused:
            contrary = _contrary(again, refused)
            told = told if contrary and told else only_some(again, contrary or refused) or told
        elif may_guard or are_declared(guards):
            meta = again.graph_module.meta
            meta[_ATTEMPT] = attempt
            asked_for = layouts_asked(branches.found.values())  # of which torch notes none
            meta[ASSUMED] = (*meta.get(ASSUMED, ()), *asked_for)
            return again, None
    return None, told


def _contrary(program: ExportedProgram, conditions: Collection[Any]) -> list[Any]:
    """The negations of conditions that the example breaks.

    There the model goes another way than the program: it catches an error of such sizes.
    """
    sizes = example_sizes(program.graph)
    return [sympy.Not(one) for one in conditions if one.xreplace(sizes) == sympy.false]


def _is_about_sizes(error: Exception) -> bool:
    """True where the model is right only for some of the declared sizes."""
    return getattr(error, "error_type", None) is UserErrorType.CONSTRAINT_VIOLATION
