"""A tuning file -> what a build decides by it.

Rows S:M16, N1.
"""

from collections.abc import Mapping
from pathlib import Path

from aotpack.errors import AotpackError, UsageError
from aotpack.runtime.tuning import Tuning, best_form, read_tuning
from aotpack.stages import Decisions


def read_decisions(file: str | Path | None, candidates: int = 1) -> Decisions:
    """The measured choices of a file, if one is given, and how many forms a package holds."""
    if candidates < 1:
        raise UsageError(f"candidates={candidates}; accepted: 1 or more")
    if file is None:
        return Decisions(candidates)
    try:
        tuning = read_tuning(Path(file))
    except AotpackError as error:
        raise UsageError(str(error)) from None
    return Decisions(candidates, quickest(tuning))


def quickest(tuning: Tuning) -> dict[tuple[str, str], str]:
    """For each target and key the form that is taken.

    Where several devices of a target were measured, their times count as parts of the first form's.
    """
    shares: dict[tuple[str, str], list[Mapping[str, float]]] = {}
    for (_, target), choices in sorted(tuning.items()):
        for key, times in choices.items():
            first = times.microseconds.get(_first(key))
            if first is not None:
                relative = {name: time / first for name, time in times.microseconds.items()}
                shares.setdefault((target, key), []).append(relative)
    return {place: _least(_first(place[1]), devices) for place, devices in sorted(shares.items())}


def unused(
    decisions: Decisions, settled: tuple[tuple[str, str], ...], targets: tuple[str, ...]
) -> int:
    """How many choices measured for these targets fit no launch of a build."""
    meant = {place for place in decisions.measured if place[0] in targets}
    return len(meant - set(settled))


def _first(key: str) -> str:
    """The kernel of a launch's first form, which its key begins with."""
    return key.split(" x ")[0]


def _least(first: str, devices: list[Mapping[str, float]]) -> str:
    common = sorted(set(devices[0]).intersection(*devices[1:]) - {first})
    names = [first, *common]
    total = {name: sum(device[name] for device in devices) / len(devices) for name in names}
    return names[best_form(total, names) or 0]
