"""What is said of a value that a call leaves in Python: where it stands, what to write instead."""

from array import array
from collections import deque
from typing import Any

import numpy as np
import torch

from aotpack.errors import a_type
from aotpack.trace.agreement.attributes import ABSENT, Change

ADVICE = "A package keeps tensors that are changed in place, and no other values"


def row(change: Change, who: str = "forward") -> str:
    """What a call of ``who`` changed, and what to write in its place."""
    path, local, before, after = change.path, change.local, change.before, change.after
    what, copy = f"the {change.kind} {path}", f"write self.{local}.copy_(...)"
    buffer = "keep a buffer of fixed size"
    if change.kind == "cache":
        return f"{who} fills the cache of {path} (functools), and a later call takes what is in it"
    if not local:
        buffer, copy = "keep a buffer b of the module", "write self.b.copy_(...)"
    match after:
        case torch.Tensor() if change.kind == "memory":
            return f"{who} gives {path} other memory (.data, set_, resize_); {copy}"
        case torch.Tensor() if change.kind == "values":
            return f"{who} writes to {path}, and not while it is exported; do it in both"
        case torch.Tensor() if isinstance(before, torch.Tensor):
            return f"{who} assigns {what} anew; {copy}"
        case torch.Tensor():
            was = f"{who} sets {what}, which was {_told(before)}"
            return f"{was}; {buffer} from the start, and {copy}"
        case bool() | int() | float() if isinstance(before, (bool, int, float)):
            made = f"a buffer of torch.tensor({_number(after, before)!r})"
            return f"{who} changes {what} from {before!r} to {after!r}; keep {made}, and {copy}"
        case list() | deque() | dict() | set() if isinstance(before, type(after)):
            kind, sizes = type(after).__name__, f"{len(before)} items, then {len(after)}"
            rows = "write its rows with index_copy_"
            return f"{who} changes {what}, a {kind} ({sizes}); {buffer} instead, and {rows}"
        case np.ndarray() | bytearray() | array() if type(before) is type(after):
            return f"{who} writes to {what}, {a_type(after)}; {buffer} instead, and {copy}"
    told = f"from {_told(before)} to {_told(after)}"
    return f"{who} changes {what} {told}; keep tensors in its place"


def _number(after: Any, before: Any) -> Any:
    """``before`` as a number of Python, of the type that it becomes."""
    kind = next(kind for kind in (bool, int, float) if isinstance(after, kind))
    return kind(before)


def _told(value: Any) -> str:
    """A value in few words."""
    if value is ABSENT:
        return "nothing"
    return f"{value!r:.40}" if isinstance(value, (str, type(None))) else a_type(value)
