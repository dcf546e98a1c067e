"""Unique names for sizes, axes and buffers."""

import re
from collections.abc import Container

TABLES = "aotpack."  # begins the names of constants that lowering computes
_AXES = re.compile(r"[xyzr]|part|step|[ir]\d+")  # axes of kernels, of halves, of lowered operators


def safe_size_name(name: str, reserved: Container[str] = ()) -> str:
    """``name``, with an underscore if an axis or generated text (``reserved``) has it."""
    return name + "_" if _AXES.fullmatch(name) or name in reserved else name


def free_name(stem: str, taken: Container[str]) -> str:
    """``stem``, or if that is taken, the first free one of ``stem_1``, ``stem_2``, ..."""
    name, number = stem, 0
    while name in taken:
        number += 1
        name = f"{stem}_{number}"
    return name
