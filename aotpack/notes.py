"""What a build tells that is no error: printed by the command line, warnings in Python."""

import warnings
from typing import TypeVar

from aotpack.stages import PerMethod, Traced

ResultT = TypeVar("ResultT")


def unchecked_note(traced: Traced | PerMethod[Traced], option: str) -> str:
    """The arguments with positions that no call checks, if any; ``option`` would assert them."""
    each = traced.methods.values() if isinstance(traced, PerMethod) else [traced]
    names = dict.fromkeys(name for one in each for name in one.graph.unchecked)
    if not names:
        return ""
    return (
        f"positions in {', '.join(names)} are not checked: out of range, reads take the nearest "
        f"element and writes are left out; {option} asserts them"
    )


def warned(
    result: ResultT, fallbacks: tuple[str, ...], traced: Traced | PerMethod[Traced]
) -> ResultT:
    """The result of a build, after warnings: of operators that torch runs, unchecked positions."""
    if fallbacks:
        lines = "\n  ".join(fallbacks)
        warnings.warn(f"the package calls torch for\n  {lines}", stacklevel=4)
    if note := unchecked_note(traced, "check_indices=True"):
        warnings.warn(note, stacklevel=4)
    return result
