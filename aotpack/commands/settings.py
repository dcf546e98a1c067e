"""Defaults of options from the table ``[tool.aotpack]`` of the nearest pyproject.toml.

Keys are options without their dashes: ``target = ["sm_90", "cpu"]``, ``deterministic = true``. An
option of the command line replaces the one of the file.
"""

import tomllib
from collections.abc import Collection, Sequence
from pathlib import Path

from aotpack.errors import UsageError, did_you_mean

FILE = "pyproject.toml"
_EXCLUSIVE = ({"--out", "-o"}, {"--quiet", "--verbose"})  # at most one of them is given
TABLE = "[tool.aotpack]"


def with_settings(
    words: Sequence[str], own: Collection[str], every: Collection[str], start: Path
) -> list[str]:
    """The command line ``words`` behind the options of the table that they do not give.

    ``own`` are the long options of the verb, ``every`` those of all verbs that take settings: a key
    of another verb is passed over. UsageError for a file or key that is not accepted. The file is
    searched for in ``start`` and the folders above it.
    """
    file = next((f for f in (one / FILE for one in (start, *start.parents)) if f.is_file()), None)
    if file is None:
        return list(words)
    options = (word for word in words if word.startswith("-"))
    given = {word.partition("=")[0] if word[:2] == "--" else word[:2] for word in options}
    added: list[str] = []
    for key, value in _table(file).items():
        option = f"--{key.replace('_', '-')}"
        if option not in every:
            near = did_you_mean(option, every)
            raise UsageError(f"{file}, {TABLE}: {key!r} is no option of a build{near}")
        if option in own and not given & _spellings(option):
            added += _as_words(f"{file}, {TABLE} {key}", option, value)
    return [*added, *words]


def _table(file: Path) -> dict[str, object]:
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: {error}; a file in TOML is accepted") from error
    table = content.get("tool", {})
    found = table.get("aotpack", {}) if isinstance(table, dict) else {}
    if not isinstance(found, dict):
        raise UsageError(f"{file}: tool.aotpack is no table; {TABLE} with options is accepted")
    return found


def _spellings(option: str) -> set[str]:
    """The option and those that stand in its place."""
    return next((group for group in _EXCLUSIVE if option in group), {option})


def _as_words(place: str, option: str, value: object) -> list[str]:
    """The words of one option; true is an option without a value, a list repeats it."""
    if isinstance(value, bool):
        return [option] if value else []
    values = value if isinstance(value, list) else [value]
    if not all(isinstance(one, (str, int, float)) and not isinstance(one, bool) for one in values):
        raise UsageError(
            f"{place} = {value!r}; a text, a number, true, false or a list of texts is accepted"
        )
    return [f"{option}={one}" for one in values]
