"""Descriptors as parameters of compiled code."""

import pytest

from aotpack.ir.symbolic.integers import Int
from aotpack.precompile.tensor_maps import compiled_maps, gluon_type, with_parameters
from aotpack.stages import TensorMap

MAP = TensorMap("lhs_block", "x_ptr", Int.of(0), (Int.of(8),) * 2, (Int.of(8), Int.of(1)), (8, 8))
TEXT = """def k(x_ptr, m):
    lhs_block = tl.make_tensor_descriptor(x_ptr, [8, 8], [8, 1], [8, 8])
    lhs = lhs_block.load([0, 0])
"""


def test_the_line_goes_and_the_parameter_comes() -> None:
    assert with_parameters(TEXT, "k", (MAP,)) == (
        "def k(x_ptr, m, lhs_block):\n    lhs = lhs_block.load([0, 0])\n"
    )


@pytest.mark.parametrize("text", [TEXT.replace("lhs_block =", "other ="), "x = 1\n"])
def test_a_text_that_does_not_make_them_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="the kernel k does not make"):
        with_parameters(text, "k", (MAP,))


def test_types_of_gluon_have_a_layout_in_shared_memory() -> None:
    assert gluon_type("*bf16") == "*bf16"
    found = gluon_type("tensordesc<bf16[64,64]>")
    assert found.startswith("tensordesc<bf16[64, 64],NVMMASharedLayout(swizzle_byte_width=128")


def test_element_types_are_the_driver_s() -> None:
    one = {"swizzle": 3, "elem_type": 10, "block_size": [64, 64]}
    assert compiled_maps([one]) == '[{"swizzle": 3, "element": 9, "box": [64, 64]}]'
    assert compiled_maps(None) == ""
