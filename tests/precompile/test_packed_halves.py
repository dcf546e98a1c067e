"""PackedWeight 16-bit integers do not reach the assembler, which computes some of them wrongly."""

import re
from dataclasses import replace

import pytest

from aotpack.ir.dtypes import DType
from aotpack.precompile.packed_halves import split_packed_halves
from aotpack.stages import KernelSource
from tests.precompile.kernels import kernel
from tests.ptx import ptx

PACKED = re.compile(r"\.[su]16x2\b")

SHORTS = """import triton
import triton.language as tl


@triton.jit
def {name}(x, y, n):
    i = tl.program_id(0) * 1024 + tl.arange(0, 1024)
    tl.store(y + i, tl.maximum(tl.load(x + i) + 3, 0))
"""


def shorts(name: str) -> KernelSource:
    """A kernel on 16-bit integers, of which each thread has several."""
    made = kernel(name, SHORTS)
    return replace(made, args=tuple(replace(arg, dtype=DType.INT16) for arg in made.args))


@pytest.mark.parametrize("arch", [90, 100])
def test_no_packed_integers_reach_the_assembler(arch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not PACKED.search(ptx(shorts("shorts"), arch))
    monkeypatch.setattr("aotpack.precompile.packed_halves.split_packed_halves", lambda text: text)
    assert PACKED.search(ptx(shorts("shorts_as_made"), arch))


def test_each_half_has_its_own_instruction() -> None:
    text = "\tmov.b32 \t%r3, 7;\n\tmin.u16x2 \t%r5, %r4, 65537;\n\tret;\n"
    assert split_packed_halves(text) == (
        "\tmov.b32 \t%r3, 7;\n"
        "\t{ .reg .b16 %lower_a, %upper_a, %lower_b, %upper_b, %lower_c, %upper_c;\n"
        "\tmov.b32 {%lower_a, %upper_a}, %r4;\n"
        "\tmov.b32 {%lower_b, %upper_b}, 65537;\n"
        "\tmin.u16 %lower_c, %lower_a, %lower_b;\n"
        "\tmin.u16 %upper_c, %upper_a, %upper_b;\n"
        "\tmov.b32 %r5, {%lower_c, %upper_c}; }\n"
        "\tret;\n"
    )


def test_packed_floats_and_comments_stay() -> None:
    text = "\tadd.rn.bf16x2 %r1, %r2, %r3;\n\t// add.s16x2 was here\n"
    assert split_packed_halves(text) == text


def test_other_instructions_on_packed_integers_are_refused() -> None:
    with pytest.raises(ValueError, match=r"'vabs\.s16x2 %r1, %r2;' is not known; add, min and max"):
        split_packed_halves("\tvabs.s16x2 %r1, %r2;\n")
