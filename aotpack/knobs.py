"""Every environment variable aotpack reads. Options of a build are arguments, not knobs."""

import os
import shlex
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from aotpack.errors import UsageError

_LONGEST = 10**8  # seconds: clocks of the system take no more than some years


@dataclass(frozen=True, slots=True)
class Knobs:
    """The settings of the environment.

    ``dump``: AOTPACK_DUMP, a folder that gets the text of each stage and pass, or None.
    ``verifies_passes``: AOTPACK_VERIFY is "1": the output of each pass is verified.
    ``cache``: AOTPACK_CACHE, the folder of compiled kernels; None when it is "off".
    ``jobs``: AOTPACK_JOBS, how many kernels are compiled at once.
    ``timeout``: AOTPACK_TIMEOUT, the seconds that one run of a compiler may take.
    ``compiler``: AOTPACK_CC, the C compiler of the target cpu; None for the system's.
    ``compiler_flags``: AOTPACK_CFLAGS, more flags for it, to debug kernels.
    """

    dump: Path | None
    verifies_passes: bool
    cache: Path | None
    jobs: int
    timeout: int
    compiler: str | None
    compiler_flags: tuple[str, ...]


def read_knobs() -> Knobs:
    """Read the environment as it is now."""
    dump = os.environ.get("AOTPACK_DUMP")
    cache = os.environ.get("AOTPACK_CACHE") or platformdirs.user_cache_dir("aotpack")
    return Knobs(
        dump=Path(dump) if dump else None,
        verifies_passes=_is_on("AOTPACK_VERIFY"),
        cache=None if cache == "off" else Path(cache),
        jobs=_positive("AOTPACK_JOBS", len(os.sched_getaffinity(0))),
        timeout=min(_positive("AOTPACK_TIMEOUT", 3600), _LONGEST),
        compiler=os.environ.get("AOTPACK_CC") or None,
        compiler_flags=_words("AOTPACK_CFLAGS"),
    )


def _words(name: str) -> tuple[str, ...]:
    text = os.environ.get(name, "")
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(
            f"{name}={text!r} is not accepted: {error}; it takes words as in a shell"
        ) from None


def _positive(name: str, default: int) -> int:
    text = os.environ.get(name)
    if not text:
        return default
    if not text.isdecimal() or int(text) == 0:
        raise UsageError(f"{name}={text!r} is not accepted; it takes a whole number from 1")
    return int(text)


def _is_on(name: str) -> bool:
    text = os.environ.get(name) or "0"
    if text not in ("0", "1"):
        raise UsageError(f"{name}={text!r} is not accepted; it takes 0 or 1")
    return text == "1"
