"""Parameter names: readable, unique, and the same for equal kernels in different layers."""

import pytest

from aotpack.ir.program import Program
from aotpack.ir.symbolic.integers import Int, Var
from aotpack.render.emit.arguments import Arguments
from tests.schedule.programs import BF16, I64, Writer, load

B, S = Var("b", 1, 16), Var("s", 1, 32)


def program() -> Program:
    w = Writer((B, S))
    w.input("x", B, 4)
    w.input("layer_norm_7", B, 4)
    w.input("layer_norm_12", B, 4)
    w.weight("encoder.layer.3.dense.weight", 4, 4, dtype=BF16)
    w.weight("0", 4)
    x = w.buffers["x"]
    return w.program(w.pointwise("y", [B, 4], lambda i, j: load(x, i, j)))


def arguments(*, wide: bool = False) -> Arguments:
    return Arguments(program(), ("y",), wide=wide)


@pytest.mark.parametrize(
    ("buffer", "name"),
    [
        ("x", "x_ptr"),
        ("layer_norm_7", "layer_norm_ptr"),
        ("encoder.layer.3.dense.weight", "weight_ptr"),
        ("0", "in_ptr"),
        ("y", "out_ptr"),
    ],
)
def test_name_says_the_role(buffer: str, name: str) -> None:
    assert arguments().pointer(buffer) == name


@pytest.mark.row("C:def9")
def test_second_of_a_role_gets_a_number_and_a_buffer_keeps_its_name() -> None:
    made = arguments()
    assert made.pointer("layer_norm_12") == "layer_norm_ptr"
    assert made.pointer("layer_norm_7") == "layer_norm2_ptr"
    assert made.pointer("layer_norm_12") == "layer_norm_ptr"
    assert made.buffers == ("layer_norm_12", "layer_norm_7")


@pytest.mark.row("C:A12", "C:H4")
def test_sizes_come_last_in_the_order_of_the_signature() -> None:
    made = arguments()
    made.use_sizes(Int.of(S) * 2)
    made.use_sizes(Int.of(B))
    made.pointer("x")
    assert [argument.name for argument in made.parameters()] == ["x_ptr", "b", "s"]
    assert made.sizes == (B, S)


@pytest.mark.row("C:D2", "C:H6")
def test_sizes_are_as_wide_as_the_offsets() -> None:
    for wide in (False, True):
        made = arguments(wide=wide)
        made.use_sizes(Int.of(B))
        (size,) = made.parameters()
        assert (size.dtype is I64) is wide


@pytest.mark.row("C:D7", "C:H6")
def test_pointers_have_the_type_in_memory() -> None:
    made = arguments()
    made.pointer("encoder.layer.3.dense.weight")
    (weight,) = made.parameters()
    assert weight.dtype is BF16 and weight.is_pointer and weight.multiple == 16
