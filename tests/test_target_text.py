"""Text of a language of kernels stands in that language's folder of render, and nowhere else."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "aotpack"
MODULES = sorted(
    [
        *(PACKAGE / "ir").rglob("*.py"),
        *(PACKAGE / "render").glob("*.py"),
        *(PACKAGE / "render" / "emit").rglob("*.py"),
        *PACKAGE.glob("*.py"),
    ]
)
USERS_KERNELS = ("Triton", "TritonKernel")  # models may launch Triton kernels: those are input
NAMED = {
    "ir/foreign.py": USERS_KERNELS,
    "ir/graph.py": ("TritonKernel",),
    "render/__init__.py": ("triton",),  # the folder
    "render/foreign.py": USERS_KERNELS,
    "pipeline.py": ("triton",),  # the stage's user kernels
    "ir/kernels/source.py": (
        "Triton",
        "triton",
    ),  # the language's name, which a kernel's source has
    "render/languages.py": (  # the rows: names of the folder and of what it gives
        "triton",
        "triton_kernel",
        "TRITON",
        "TRITON_MONOIDS",
        "TRITON_NAMES",
        "TRITON_TEXTS",
        "TRITON_TILES",
    ),
}
TRITON = re.compile(
    r"\btl\.\w+|\blibdevice\b|\bconstexpr\b|\bgdc_\w+|@?\w*triton\w*", re.IGNORECASE
)
C = re.compile(
    r"\bu?int(?:8|16|32|64)_t\b|\bsize_t\b|\baot_\w+|#include|#pragma|\bINFINITY\b|\bNAN\b"
    r"|\b(?:fabs|fmod|exp|log|sqrt|trunc|floor|pow)f\b|\bconst (?:float|double|bool|int)\b"
)


def target_text(name: str, text: str) -> list[str]:
    """What of a module is text of a language of kernels."""
    found = [*TRITON.findall(text), *C.findall(text)]
    return [word for word in found if word not in NAMED.get(name, ())]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_outside_of_the_languages_has_no_target_text(path: Path) -> None:
    assert target_text(str(path.relative_to(PACKAGE)), path.read_text()) == []


def test_no_name_is_admitted_in_vain() -> None:
    for name, words in NAMED.items():
        text = (PACKAGE / name).read_text()
        assert set(words) <= {*TRITON.findall(text), *C.findall(text)}


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
        ('return ".to(tl.int64)" if self.wide else ""', ["tl.int64"]),
        ('_LINES = re.compile(r"^ +gdc_wait")', ["gdc_wait"]),
    ],
)
def test_target_text_is_found(line: str, found: list[str]) -> None:
    assert target_text("render/kernels.py", line) == found


def test_a_users_kernel_may_be_written_in_triton() -> None:
    assert target_text("ir/foreign.py", "class TritonKernel:  # a Triton kernel") == []
    assert target_text("ir/foreign.py", "import triton; tl.load(x)") == ["triton", "tl.load"]


def test_a_row_of_the_languages_has_names_and_no_text() -> None:
    assert target_text("render/languages.py", "from aotpack.render.triton import x") == []
    assert target_text("render/languages.py", 'stores=re.compile("tl.store")') == ["tl.store"]
