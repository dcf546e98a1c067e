"""Leaves the text of a failed compilation in AOTPACK_DUMP, for the user to compile again."""

import os
from contextlib import suppress
from pathlib import Path

from aotpack.errors import UsageError
from aotpack.knobs import read_knobs

KEEP = (
    "Build again with AOTPACK_DUMP=FOLDER to keep the source and get a command that repeats this."
)


def leave_in_dump(name: str, text: str) -> Path | None:
    """The new file, readable by this user alone; None where no dump is asked for."""
    folder = read_knobs().dump
    if folder is None:
        return None
    file = folder / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            file.unlink()  # never write through a link
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as opened:
            opened.write(text)
    except OSError as error:
        raise UsageError(
            f"AOTPACK_DUMP={folder}: writing {name} failed: {error.strerror or error}; name a "
            "folder that can be written to"
        ) from error
    return file
