"""tuning.json: measured times by device, target, and the key of a launch with several forms.

A key holds the facts that the best form depends on: the first form's kernel with the hash of its
text, its number of programs, and the range of sizes. When files merge, later times win.

    {"schema": 1, "measured": [{"device": "NVIDIA H200", "target": "sm_90", "choices":
        {KEY: [{"sizes": {"b": 8}, "microseconds": {"linear_5e6f7a8b": 4.1, ...}}, ...]}}]}
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from .errors import AotpackError
from .files.checked import open_at_once, size_of
from .files.strict_json import parse_json
from .plan import Form, flat

SCHEMA = 1
MARGIN = 0.97  # of the first form's time: another must be faster than this, beyond noise


class Times(NamedTuple):
    """Microseconds of each form by its name, measured at some sizes."""

    sizes: Mapping[str, int]
    microseconds: Mapping[str, float]


Tuning: TypeAlias = dict[tuple[str, str], dict[str, tuple[Times, ...]]]
"""By (device, target), then by key, at some sizes each."""


def form_name(form: Form) -> str:
    """The name of a form: its kernels."""
    return "+".join(launch.kernel for launch in flat(form))


def best_form(measured: Iterable[Times], names: Sequence[str]) -> int | None:
    """The index of the form with the least mean time relative to the first form's.

    None if none was measured. A form must have a time at all measured sizes; if the first has not,
    the first form that has is the reference.
    """
    known = [times.microseconds for times in measured if set(names) & set(times.microseconds)]
    timed = [n for n, name in enumerate(names) if all(name in times for times in known)]
    if not known or not timed:
        return None
    first = names[timed[0]]
    means = {n: sum(t[names[n]] / t[first] for t in known) / len(known) for n in timed}
    best = min(means, key=lambda number: (means[number], number))
    return best if means[best] < MARGIN else timed[0]


def gain_text(tuning: Tuning) -> str:
    """What the quickest forms gain, in words: launches, and the sum of their times."""
    first = best = 0.0
    count = quicker = 0
    for some in (some for choices in tuning.values() for some in choices.values()):
        names = list(dict.fromkeys(name for times in some for name in times.microseconds))
        chosen = best_form(some, names)
        if chosen is None:
            continue
        known = [t for t in some if {names[0], names[chosen]} <= {*t.microseconds}]
        first += sum(times.microseconds[names[0]] for times in known)
        best += sum(times.microseconds[names[chosen]] for times in known)
        count, quicker = count + 1, quicker + (chosen > 0)
    another = f"another form is quicker in {quicker} of {count} choices"
    return f"{another}: {best:.1f} us in place of {first:.1f} us" if quicker else another


def why_unused(tuning: Tuning, place: tuple[str, str], known: AbstractSet[str]) -> str:
    """Why no entry decides anything where a package has these keys, "" if one does.

    ``place`` is the device and the target that the package runs on.
    """
    if not known:
        return (
            "the package holds one form of every kernel; build it with --candidates 2 or more, "
            "or build it with --tuning FILE and load it without"
        )
    device, target = place
    if known & tuning.get(place, {}).keys():
        return ""
    others = [f"{one} ({of})" for (one, of), keys in sorted(tuning.items()) if known & keys.keys()]
    if others:
        found = ", ".join(others)
        return f"it has times of {found}, and this is {device} ({target}); tune here too"
    return "no entry is of this package, but of others or of another build of it; tune this one"


def merged(old: Tuning, new: Tuning) -> Tuning:
    """The union; ``new`` wins for keys in both."""
    places = sorted({*old, *new})
    return {place: {**old.get(place, {}), **new.get(place, {})} for place in places}


def tuning_text(tuning: Tuning) -> str:
    """The file's text, in a fixed order."""
    measured = [
        {
            "device": device,
            "target": target,
            "choices": {key: [one._asdict() for one in some] for key, some in choices.items()},
        }
        for (device, target), choices in sorted(tuning.items())
    ]
    return json.dumps({"schema": SCHEMA, "measured": measured}, indent=1, sort_keys=True) + "\n"


def read_tuning(path: Path) -> Tuning:
    """Read a tuning file; AotpackError if it is invalid."""
    try:
        with open(path, "rb", opener=open_at_once) as file:
            data = parse_json(file.read(size_of(file, path)))
    except OSError as error:
        raise _refused(path, f"it cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise _refused(path, f"it is not JSON ({error})") from None
    try:
        if data["schema"] != SCHEMA:
            raise _refused(path, f"it has schema {data['schema']!r}, not {SCHEMA}")
        found: Tuning = {}
        for one in data["measured"]:
            place = (str(one["device"]), str(one["target"]))
            choices = {str(key): tuple(map(_times, some)) for key, some in one["choices"].items()}
            found = merged(found, {place: choices})
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise _refused(path, f"an entry is missing or of another kind ({error})") from None
    return found


def _times(data: Mapping[str, Any]) -> Times:
    times = {str(name): float(time) for name, time in data["microseconds"].items()}
    if any(not time > 0 for time in times.values()):
        raise ValueError("a time is not above 0")
    return Times({str(name): int(size) for name, size in data["sizes"].items()}, times)


def _refused(path: Path, reason: str) -> AotpackError:
    return AotpackError(
        f"reading the tuning file {path}: {reason}; accepted: what `aotpack tune WHEEL -o FILE` "
        "wrote. Measure again."
    )
