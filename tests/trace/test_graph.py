"""Graphs: names, constants, identity operators, unused nodes, and what cannot be packaged."""

import pytest
import torch
from torch import nn
from torch.nn.attention.flex_attention import flex_attention

from aotpack.errors import TraceError, UnsupportedError
from aotpack.ir.dtypes import DType
from aotpack.stages import Ref

X = torch.randn(2, 4)


@pytest.mark.row("S:H24")
@pytest.mark.parametrize(
    ("forward", "ops"),
    [
        (lambda self, x: x.clone().detach() + 1, ["aten.add.Tensor"]),
        (lambda self, x: x.to(torch.float32).contiguous().neg(), ["aten.neg.default"]),
        (lambda self, x: x.half().neg(), ["aten._to_copy.default", "aten.neg.default"]),
        (lambda self, x: (x.exp(), x.neg())[1], ["aten.neg.default"]),
        (
            lambda self, x: x.add_(1) if False else x.exp().add_(1),
            ["aten.exp.default", "aten.add.Tensor"],
        ),
        (
            lambda self, x: torch.zeros(x.shape[0], device=x.device),
            ["aten.zeros.default"],
        ),
        (
            lambda self, x: nn.functional.gelu(x, approximate="tanh"),
            ["aten.gelu.default"],
        ),
        (
            lambda self, x: nn.functional.scaled_dot_product_attention(x[None], x[None], x[None]),
            ["aten.unsqueeze.default"] * 3 + ["aten.scaled_dot_product_attention.default"],
        ),
    ],
)
def test_operators(trace_function, forward, ops):
    assert [node.op for node in trace_function(forward, X).graph.nodes] == ops


@pytest.mark.parametrize(
    ("child", "op"),
    [
        (nn.Linear(4, 2), "aten.linear.default"),
        (nn.LayerNorm(4), "aten.layer_norm.default"),
        (nn.Conv1d(2, 3, 2), "aten.conv1d.default"),
        (nn.RMSNorm(4), "aten.rms_norm.default"),
        (nn.Softmax(-1), "aten.softmax.int"),
        (nn.GroupNorm(2, 4), "aten.group_norm.default"),
    ],
)
def test_large_operators_stay_whole(trace_function, child, op):
    graph = trace_function(lambda self, x: self.child(x), X, modules={"child": child}).graph
    assert [node.op for node in graph.nodes] == [op]


def test_arguments(trace_function):
    graph = trace_function(lambda self, x: x.sum(1, keepdim=True, dtype=torch.float64), X).graph
    (node,) = graph.nodes
    assert node.args == (Ref("x"), (1,), True)
    assert node.kwargs == (("dtype", DType.FLOAT64),)


@pytest.mark.row("S:H13")
def test_several_results(trace_function):
    graph = trace_function(lambda self, x: x.topk(2)[1], X).graph
    assert [spec.name for spec in graph.nodes[0].results] == ["topk", "topk.1"]
    assert graph.outputs == (Ref("topk", 1),)


def test_names_do_not_collide(trace_function):
    graph = trace_function(
        lambda self, linear: self.linear(linear), X, modules={"linear": nn.Linear(4, 4)}
    ).graph
    names = [spec.name for spec in graph.signature.inputs] + [w.name for w in graph.weights]
    names += [node.name for node in graph.nodes]
    assert len(set(names)) == len(names)


class Exp(nn.Module):
    def forward(self, x):
        return x.exp()


def test_source(trace_function):
    graph = trace_function(lambda self, x: self.a(x), X, modules={"a": Exp()}).graph
    line = Exp.forward.__code__.co_firstlineno + 1
    assert str(graph.nodes[0].source) == f"test_graph.py:{line}: return x.exp()"


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, x):
        self.steps.add_(1)
        return x * self.steps


@pytest.mark.row("S:H14")
def test_changes_in_place_become_updates(trace_function):
    def forward(self, x):
        x.mul_(2)
        return self.child(x)

    graph = trace_function(forward, X.clone(), modules={"child": Counter()}).graph
    assert graph.signature.updates == ("child.steps", "x")
    assert [(name, ref.name) for name, ref in graph.updates] == [
        ("child.steps", "add"),
        ("x", "mul"),
    ]
    assert len(graph.outputs) == len(graph.signature.outputs) == 1


@pytest.mark.row("S:H19")
@pytest.mark.parametrize(
    ("forward", "message"),
    [
        (
            lambda self, x: flex_attention(*[x.reshape(1, 1, *x.shape)] * 3),
            "it takes functions; of such operators cond, map, scan and while_loop are accepted",
        ),
        (
            lambda self, x: x.t().as_strided((2, 2), (1, 1)),
            "strides are accepted in a contiguous tensor that is no view",
        ),
        (
            lambda self, x: (x * 2)[1:].as_strided((2, 2), (1, 1)),
            "strides are accepted in a contiguous tensor that is no view",
        ),
        (
            lambda self, x: x.to(torch.complex64).logcumsumexp(0).real,
            "aten.logcumsumexp.default: it has no formula for complex numbers: .*view_as_real",
        ),
        (
            lambda self, x: (
                torch.cond(
                    x.sum() > 0, lambda z: z * 2, lambda z: z * 3, (x.to(torch.complex64),)
                ).real
            ),
            "cond: branches and loops take no complex tensors; give them torch.view_as_real",
        ),
        (lambda self, x: x.to_sparse(), "a result has the layout torch.sparse_coo; dense ones are"),
    ],
)
def test_refuses(trace_function, forward, message):
    with pytest.raises(UnsupportedError, match=message):
        trace_function(forward, X)


class Unsupported(nn.Module):
    def forward(self, x):
        return x[1:].as_strided((2,), (1,)), x.to(torch.complex64).logcumsumexp(0)


def test_every_problem_is_listed(trace_function):
    with pytest.raises(UnsupportedError) as caught:
        trace_function(lambda self, x: self.a(x), X, modules={"a": Unsupported()})
    place = f"(test_graph.py:{Unsupported.forward.__code__.co_firstlineno + 1}: return x[1:].as"
    lines = [line for line in str(caught.value).splitlines() if place in line]
    assert [line.split(":")[0].strip() for line in lines] == [
        "aten.as_strided.default",
        "aten.logcumsumexp.default",
    ]


class Printing(nn.Module):
    def forward(self, x):
        torch.ops.aten._print("here")
        return x + 1


def test_refuses_what_acts_beside_its_results(trace_function):
    message = r"aten._print.default: it takes token; .*  \(test_graph.py:\d+: torch.ops.aten._print"
    with pytest.raises(UnsupportedError, match=message):
        trace_function(lambda self, x: self.a(x), X, modules={"a": Printing()})


def test_refuses_no_result(trace_function):
    with pytest.raises(TraceError, match="forward returns no tensor"):
        trace_function(lambda self, x: 3, X)


@pytest.mark.parametrize("returned", [lambda self, x: x.tolist(), lambda self, x: x.max().item()])
def test_refuses_numbers_that_are_read_from_tensors(trace_function, returned):
    message = r"(?s)is read from a tensor, .* Return the tensor; .*at test_graph.py:\d+: .*returned"
    with pytest.raises(UnsupportedError, match=message):
        trace_function(returned, X[0])


@pytest.mark.row("S:H19", "S:H20")
def test_complex_inputs_are_pairs(trace_function):
    graph = trace_function(lambda self, x: x.real, X.to(torch.complex64)).graph
    (given,) = graph.signature.inputs
    assert given.pairs and str(given.dtype) == "float32" and str(given.shape[-1]) == "2"


def test_refuses_a_complex_input_of_half_precision(trace_function):
    with pytest.raises(UnsupportedError, match="complex32; complex numbers are accepted as"):
        trace_function(lambda self, x: torch.view_as_real(x), X.to(torch.complex32))


def test_outputs_have_names_of_their_own(trace_function):
    def forward(self, output0):
        return output0 + 1, output0 * 2

    signature = trace_function(forward, X).graph.signature
    assert [spec.name for spec in signature.outputs] == ["output0_", "output1"]
