"""The user's source line of an operator, from the stack trace that torch.export records."""

import re
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from traceback import FrameSummary, StackSummary

import torch
from torch import fx
from torch.fx.proxy import TracerBase

from aotpack.stages import Source

_FRAME = re.compile(
    r'File "(?P<file>[^"]+)", line (?P<line>\d+)[^\n]*(?:\n[ \t]+(?P<text>[^\n]*))?'
)
_NOT_MINE = (str(Path(torch.__file__).parent), str(Path(__file__).parent))
_STANDARD = sysconfig.get_path("stdlib")
_FILTER = "_filter_traceback_frames"


def source_of(node: fx.Node) -> Source | None:
    """The innermost frame outside torch, or inside if the user has none (nn.Sequential)."""
    return users_source_of(node) or _last(_frames(_trace(node)))


def users_source_of(node: fx.Node) -> Source | None:
    """The innermost frame outside torch."""
    return users_source_in(_trace(node))


def users_source_in(text: str) -> Source | None:
    """The innermost frame outside torch in a printed traceback."""
    return _last([frame for frame in _frames(text) if is_user_file(frame["file"])])


def _trace(node: fx.Node) -> str:
    return str(node.meta.get("stack_trace") or "")


def _frames(text: str) -> list[re.Match[str]]:
    found = _FRAME.finditer(text)
    return [frame for frame in found if not frame["file"].startswith("<")]


def _last(frames: list[re.Match[str]]) -> Source | None:
    if not frames:
        return None
    frame = frames[-1]
    text = (frame["text"] or "").strip()
    return Source(shown_path(frame["file"]), int(frame["line"]), text)


@contextmanager
def recorded_helpers() -> Iterator[None]:
    """Inside the block, torch records the lines of functions that ``forward`` calls too.

    They are those of the same package, or of no installed one: of a library that is called, the
    line of the call tells more.
    """
    plain = getattr(TracerBase, _FILTER, None)
    if plain is None:  # of another torch
        yield
        return

    def filtered(tracer: TracerBase, frames: StackSummary) -> StackSummary:
        kept = {id(frame) for frame in plain(tracer, frames)}
        package, found = None, []
        for frame in frames:
            if frame.name == "forward":
                package = _package(frame.filename)
            if id(frame) in kept or (package is not None and package == _package(frame.filename)):
                found.append(frame)
        return StackSummary.from_list(found)

    setattr(TracerBase, _FILTER, filtered)
    try:
        yield
    finally:
        setattr(TracerBase, _FILTER, plain)


@lru_cache(maxsize=4096)
def _package(file: str) -> str | None:
    """The installed package of a user's file, "" if there is none; None for other files."""
    if not is_user_file(file):
        return None
    return file.replace("\\", "/").partition("site-packages/")[2].partition("/")[0]


def is_user_file(file: str) -> bool:
    """True for a file outside torch, the standard library and this stage."""
    path = file.replace("\\", "/")
    installed = "site-packages/" in path
    if path.startswith(("<", "torch/")) or "site-packages/torch/" in path:
        return False
    return not file.startswith(_NOT_MINE) and (installed or not file.startswith(_STANDARD))


def shown_frame(frame: FrameSummary) -> str:
    """A frame of a traceback in the format of ``Source``."""
    return f"{shown_path(frame.filename)}:{frame.lineno}: {frame.line}"


def shown_path(file: str) -> str:
    """The file name, with its folder for an installed library; never absolute."""
    parts = file.replace("\\", "/").split("/")
    return "/".join(parts[-2:] if "site-packages" in parts else parts[-1:])
