"""The IR means: text of a language of kernels stands in that language's folder of render."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULES = sorted((ROOT / "aotpack" / "ir").rglob("*.py"))
USERS_KERNELS = {"foreign.py", "graph.py"}  # models may launch Triton kernels: those are input
TRITON = re.compile(r"\btl\.\w+|\blibdevice\b|\bconstexpr\b|@?\w*triton\w*", re.IGNORECASE)
C = re.compile(
    r"\bu?int(?:8|16|32|64)_t\b|\bsize_t\b|\baot_\w+|#include|#pragma|\bINFINITY\b|\bNAN\b"
    r"|\b(?:fabs|fmod|exp|log|sqrt|trunc|floor|pow)f\b|\bconst (?:float|double|bool|int)\b"
)


def target_text(name: str, text: str) -> list[str]:
    """What of a module is text of a language of kernels."""
    found = [*TRITON.findall(text), *C.findall(text)]
    if name in USERS_KERNELS:
        found = [word for word in found if word not in ("Triton", "TritonKernel")]
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_a_module_of_the_ir_has_no_target_text(path: Path) -> None:
    assert target_text(path.name, path.read_text()) == []


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ('"abs": "tl.abs({0})"', ["tl.abs"]),
        ('"exp": "libdevice.exp({0})"', ["libdevice"]),
        ("lift_triton: tuple[str, ...]", ["lift_triton"]),
        ("triton: str  # the type of values in registers", ["triton"]),
        ('source = "@triton.jit"', ["@triton"]),
        ('"abs": "fabsf({0})"', ["fabsf"]),
        ('"exp": "aot_exp_float32({0})"', ["aot_exp_float32"]),
        ('DType.INT64: "int64_t"', ["int64_t"]),
        ("the class TritonKernel", ["TritonKernel"]),
    ],
)
def test_target_text_is_found(line: str, found: list[str]) -> None:
    assert target_text("optable.py", line) == found


def test_a_users_kernel_may_be_written_in_triton() -> None:
    assert target_text("foreign.py", "class TritonKernel:  # a Triton kernel") == []
    assert target_text("foreign.py", "import triton; tl.load(x)") == ["triton", "tl.load"]
