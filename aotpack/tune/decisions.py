"""A tuning file -> the decisions of a build."""

from pathlib import Path

from aotpack.errors import AotpackError, UsageError
from aotpack.runtime.tuning_file import Times, Tuning, best_form, read_tuning
from aotpack.stages import Decisions


def read_decisions(file: str | Path | None, candidates: int = 1) -> Decisions:
    """The measured choices of a file, if one is given, and how many forms a package holds."""
    if file is None:
        return Decisions(candidates)
    try:
        tuning = read_tuning(Path(file))
    except AotpackError as error:
        raise UsageError(str(error)) from None
    return Decisions(candidates, quickest(tuning))


def quickest(tuning: Tuning) -> dict[tuple[str, str], str]:
    """For each target and key the quickest form, over all devices and sizes measured."""
    measured: dict[tuple[str, str], list[Times]] = {}
    for (_, target), choices in sorted(tuning.items()):
        for key, times in choices.items():
            measured.setdefault((target, key), []).extend(times)
    found = {}
    for place, some in sorted(measured.items()):
        first = place[1].split(" x ")[0]  # a key begins with the first form's kernel
        names = [first, *sorted({name for one in some for name in one.microseconds} - {first})]
        best = best_form(some, names)
        if best is not None:
            found[place] = names[best]
    return found


def unused(
    decisions: Decisions, settled: tuple[tuple[str, str], ...], targets: tuple[str, ...]
) -> int:
    """How many choices measured for these targets fit no launch of a build."""
    meant = {place for place in decisions.measured if place[0] in targets}
    return len(meant - set(settled))
