"""A workaround for a bug of ptxas: integer operations on packed 16-bit halves are split.

    add.s16x2 %r3, %r1, %r2   ->   add.s16 of the lower halves, add.s16 of the upper halves

ptxas 12.8 to 13.0 recomputes the sum of such an addition where it needs one half, and then adds 0
in place of that half's constant: a search in sorted rows read the wrong element (13.4 is right).
LLVM emits them for GPUs from 9.0 for small 64-bit positions of a kernel's text. The split costs a
few integer instructions, in memory-bound kernels.

Source: PTX ISA, add, min and max of packed 16-bit integers (from sm_90).
"""

import re
from collections.abc import Callable
from typing import Any

from aotpack.precompile.request import RECIPE

_PACKED = re.compile(r"\b(add|min|max)\.([su])16x2\s+(%\w+),\s*([^,\s]+),\s*([^,;\s]+);")
_ANY = re.compile(r"^[^/\n]*\.[su]16x2\b.*$", re.MULTILINE)
_NAME = f"aotpack's way {RECIPE}"  # in the keys of Triton's own cache


def split_packed_halves(ptx: str) -> str:
    """PTX without instructions on two packed integers; ValueError for unknown ones."""
    made = _PACKED.sub(_on_halves, ptx)
    if left := _ANY.search(made):
        raise ValueError(
            f"taking packed 16-bit integers apart: the instruction {left.group().strip()!r} is not"
            " known; add, min and max are"
        )
    return made


def stages_with_split_halves(
    backend: object = None, stages: dict[str, Callable[[str, Any], str]] | None = None, *_: object
) -> tuple[str, str] | None:
    """Triton's hook for the stages of its compiler: the stage that makes PTX also splits halves.

    Called without stages, it gives a key and a digest of its effect.
    """
    if stages is None:
        return _NAME, _NAME
    make_ptx = stages["ptx"]
    stages["ptx"] = lambda source, metadata: split_packed_halves(make_ptx(source, metadata))
    return None


def _on_halves(found: re.Match[str]) -> str:
    operation, sign, result, a, b = found.groups()
    halves = {name: f"{{%lower_{name}, %upper_{name}}}" for name in "abc"}
    registers = ", ".join(f"%{half}_{name}" for name in "abc" for half in ("lower", "upper"))
    return "\n\t".join(
        (
            f"{{ .reg .b16 {registers};",
            f"mov.b32 {halves['a']}, {a};",
            f"mov.b32 {halves['b']}, {b};",
            f"{operation}.{sign}16 %lower_c, %lower_a, %lower_b;",
            f"{operation}.{sign}16 %upper_c, %upper_a, %upper_b;",
            f"mov.b32 {result}, {halves['c']}; }}",
        )
    )
