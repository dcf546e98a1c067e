"""The user's source: the line of an operator, from a stack trace, and what code compares."""

import dis
import itertools
import re
import sysconfig
from functools import cache
from pathlib import Path
from traceback import FrameSummary
from types import CodeType

import torch
from torch import fx

from aotpack.stages import Source

_FRAME = re.compile(
    r'File "(?P<file>[^"]+)", line (?P<line>\d+)[^\n]*(?:\n[ \t]+(?P<text>[^\n]*))?'
)
_NOT_MINE = (str(Path(torch.__file__).parent), str(Path(__file__).parent))
_STANDARD = sysconfig.get_path("stdlib")


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


def lend_lines(module: fx.GraphModule) -> None:
    """Give calls in branches and loops that have no line of the user's the branch's own.

    ``torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))`` has no other line for the sine.
    """
    for node in module.graph.nodes:
        for one in node.all_input_nodes:
            body = getattr(module, str(one.target), None) if one.op == "get_attr" else None
            if isinstance(body, fx.GraphModule):
                for inner in body.graph.nodes:
                    if users_source_of(inner) is None:
                        inner.meta["stack_trace"] = _trace(node)
                lend_lines(body)


def is_user_file(file: str) -> bool:
    """True for a file outside torch, the standard library and this stage."""
    path = file.replace("\\", "/")
    installed = "site-packages/" in path
    if path.startswith(("<", "torch/")) or "site-packages/torch/" in path:
        return False
    return not file.startswith(_NOT_MINE) and (installed or not file.startswith(_STANDARD))


@cache
def is_own_file(file: str) -> bool:
    """True for a user's file that is no part of an installed library."""
    return is_user_file(file) and "site-packages/" not in file.replace("\\", "/")


def shown_frame(frame: FrameSummary) -> str:
    """A frame of a traceback in the format of ``Source``."""
    return f"{shown_path(frame.filename)}:{frame.lineno}: {frame.line}"


def shown_path(file: str) -> str:
    """The file name, with its folder for an installed library; never absolute."""
    parts = file.replace("\\", "/").split("/")
    return "/".join(parts[-2:] if "site-packages" in parts else parts[-1:])


def same_constants(code: CodeType) -> list[int]:
    """The constants of which code asks whether an object is one: True of ``x is True``."""
    steps = itertools.pairwise(dis.get_instructions(code))
    found = [before for before, step in steps if step.opname == "IS_OP"]
    constants = (one.argval for one in found if one.opname in ("LOAD_CONST", "LOAD_SMALL_INT"))
    return [one for one in constants if isinstance(one, int)]
