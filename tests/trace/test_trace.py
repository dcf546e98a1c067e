"""The door: what a traced model looks like, and that the user's module stays as it was."""

import pytest
import torch
from torch import nn
from torch.export import Dim

from aotpack.errors import TraceError, UsageError
from aotpack.ir.dtypes import DType
from aotpack.trace import trace

BATCH = {0: Dim("batch", min=1, max=8)}


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(torch.relu(self.linear(x)))


TEXT = """\
model tiny 1.0
size batch in [1, 8]
input x: float32[batch, 4]
weight linear.weight: float32[3, 4]
weight linear.bias: float32[3]
linear: float32[batch, 3] = aten.linear.default(x, linear.weight, linear.bias)\
  # test_trace.py:{line}: return self.drop(torch.relu(self.linear(x)))
relu: float32[batch, 3] = aten.relu.default(linear)\
  # test_trace.py:{line}: return self.drop(torch.relu(self.linear(x)))
return relu
"""


@pytest.mark.parametrize("strict", [False, True])
def test_text(strict):
    shapes = {"x": BATCH}
    args = (torch.randn(2, 4),)
    traced = trace(Model(), args, dynamic_shapes=shapes, name="tiny", version="1.0", strict=strict)
    assert traced.as_text() == TEXT.format(line=Model.forward.__code__.co_firstlineno + 1)


def test_a_tensor_is_no_tuple_of_inputs():
    with pytest.raises(UsageError, match=r"tracing m: the example inputs are a tensor; .*\(x,\)"):
        trace(Model(), torch.randn(2, 4), name="m", version="1")


def test_module_is_left_alone():
    model = Model()
    weight = model.linear.weight
    before = weight.detach().clone()
    traced = trace(model, (torch.randn(2, 4),), name="m", version="1", dtype=DType.BFLOAT16)
    assert model.training and model.drop.training
    assert model.linear.weight is weight and torch.equal(weight, before)
    assert {w.dtype for w in traced.graph.weights} == {DType.BFLOAT16}
    assert traced.graph.signature.inputs[0].dtype is DType.BFLOAT16


def test_exported_program(tmp_path):
    torch.export.save(
        torch.export.export(Model().eval(), (torch.randn(2, 4),), dynamic_shapes={"x": BATCH}),
        tmp_path / "m.pt2",
    )
    program = torch.export.load(tmp_path / "m.pt2")
    traced = trace(program, (torch.randn(2, 4),), name="m", version="1")
    assert [str(size) for size in traced.graph.signature.sizes] == ["x_size0"]
    assert [node.op for node in traced.graph.nodes] == [
        "aten.linear.default",
        "aten.relu.default",
    ]


@pytest.mark.parametrize(
    "option", [{"dtype": DType.FLOAT16}, {"dynamic_shapes": {"x": BATCH}}, {"strict": True}]
)
def test_exported_program_refuses_changes(option):
    program = torch.export.export(Model().eval(), (torch.randn(2, 4),))
    with pytest.raises(UsageError, match="already exported"):
        trace(program, (torch.randn(2, 4),), name="m", version="1", **option)


def test_refuses_a_function():
    with pytest.raises(TraceError, match="is a function; a torch.nn.Module.* forward of a mod"):
        trace(lambda x: x, (torch.randn(2),), name="m", version="1")


def test_refuses_a_scripted_module():
    scripted = torch.jit.trace(Model().eval(), (torch.randn(2, 4),))
    with pytest.raises(TraceError, match="the nn.Module that it was made from"):
        trace(scripted, (torch.randn(2, 4),), name="m", version="1")
