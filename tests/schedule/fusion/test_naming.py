"""Kernel names say what is inside."""

import pytest

from aotpack.ir.kernels.kernel import Member
from aotpack.ir.operations import Pointwise
from aotpack.ir.origin import Origin
from aotpack.ir.symbolic.integers import Axis, Int
from aotpack.ir.values import Const
from aotpack.schedule.fusion.naming import MAX_LENGTH, kernel_name
from tests.schedule.programs import F32


def member(*ops: str) -> Member:
    axis = Axis("i", Int.of(4))
    value = Const(0.0, F32)
    operation = Pointwise("y", (axis,), value, (Int.of(axis),), Origin(("y",), ops, ()))
    return Member(operation, ((axis, Int.of(axis)),), outer=False)


@pytest.mark.row("C:H16", "C:L9")
@pytest.mark.parametrize(
    ("members", "name"),
    [
        ([("aten.linear.default",), ("aten.gelu.default",)], "linear_gelu"),
        ([("aten.add.Tensor", "aten.layer_norm.default")], "add_layer_norm"),
        ([("aten.view.default", "aten.exp.default")], "exp"),
        ([("aten.add.Tensor",), ("aten.add.Tensor",)], "add"),
        ([("aten._softmax.default",)], "softmax"),
        ([("aten.scaled_dot_product_attention.default",)], "attention"),
        ([("aten.view.default",)], "copy"),
    ],
)
def test_name(members: list[tuple[str, ...]], name: str) -> None:
    assert kernel_name([member(*ops) for ops in members]) == name


def test_long_names_are_cut() -> None:
    name = kernel_name([member(f"aten.operator{n}.default") for n in range(40)])
    assert len(name) <= MAX_LENGTH and name.isidentifier()
