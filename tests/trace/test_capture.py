"""Export: torch's complaints come back short, with the user's line."""

import logging
import threading
from dataclasses import dataclass

import pytest
import torch
from torch import nn
from torch._higher_order_ops.scan import scan
from torch.export import Dim
from torch.func import grad, vmap

from aotpack.errors import TraceError
from aotpack.trace import trace

X = torch.randn(2, 4)


class Locked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()

    def forward(self, x):
        return x


def test_encoder_layer_keeps_its_operators(trace_function):
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).requires_grad_(False)
    graph = trace_function(lambda self, x: self.a(x[None]), X, modules={"a": layer}).graph
    assert "aten.scaled_dot_product_attention.default" in {node.op for node in graph.nodes}
    assert torch.backends.mha.get_fastpath_enabled()


def two_reads(self, x):
    found = x.nonzero()
    number = x.argmax().item()
    return x if found.shape[0] + number > 3 else -x


def train(self, x):
    loss = (x * x).sum()
    loss.backward()
    return loss


def print_one(self, x):
    print(f"{x[0, 0]:.3f}")
    return x + 1


def carry(is_kept, x):
    def step(c, row):
        turned = (c @ c).t()
        return (turned.contiguous() if is_kept else turned), c.sum() + row

    return scan(step, x @ x.t(), x[:, 0])


@dataclass
class Pair:
    x: torch.Tensor
    y: torch.Tensor


class Box:
    """No structure that torch knows."""

    def __init__(self, x):
        self.x = x


def write_rows(self, x):
    ring = torch.zeros(99, *x.shape)
    ring.narrow(0, x.argmax(), 1)[:] = x
    return ring.sum(0)


def write_a_row_as_advised(self, x):
    ring = torch.zeros(99, *x.shape)
    ring[x.argmax()] = x
    return ring.sum(0)


def test_rows_are_written_as_a_refusal_says(trace_function):
    operators = [node.op for node in trace_function(write_a_row_as_advised, X).graph.nodes]
    assert any("index_put" in one for one in operators)


@pytest.mark.parametrize(
    ("forward", "message"),
    [
        (
            lambda self, x: Box(x),
            r"Found <class '.*Box'> in output, which is not a known type.\n"
            r"  a model takes and returns tensors, .* or return the tensors that are in it$",
        ),
        (lambda self, x: x @ x, r"RuntimeError: .*\n  at test_capture.py:\d+: .*x @ x"),
        (lambda self, x: max(x[0]), r"maximum.*\n  the max and min of Python.*x\.max\(\).*\n  at "),
        (
            lambda self, x: vmap(grad(lambda x: x.tanh().sum()))(x),
            r"\n  derivatives by torch.func .*\n  at ",
        ),
        (train, r"does not require grad.*\n  training and gradients are not packaged: .*\n  at "),
        (print_one, r"__format__\n  tensors have no values while .*leave out the print.*\n  at "),
        (
            lambda self, x: carry(False, x),
            r"same metadata but found:\n  pair\[0\] differ in 'stride.*\n  a value that a loop "
            r"carries .*\.contiguous\(\)\n  at test_capture.py:\d+: return scan.*$",
        ),
        (
            lambda self, x: x * torch.distributed.get_world_size(),
            r"communication between processes \(torch.distributed\) is not packaged: package the "
            r"parts .*get_rank\(\) .*\n  at test_capture.py:\d+: ",
        ),
        (
            lambda self, x: x if x.sum() > 0 else -x,
            r"a Python value in forward is data-dependent: the condition u0 is 1. It is read .*\n"
            r"  at test_capture.py:\d+: .*x.sum\(\) > 0.*\n"
            r"Accepted in its place are torch.where .*torch.cond",
        ),
        (
            two_reads,
            r"data-dependent: the condition u0 \+ u1 > 3\. .*\n"
            r"  u0 is read at test_capture.py:\d+: found = x.nonzero.*\n"
            r"  u1 is read at test_capture.py:\d+: number = x.argmax.*\n"
            r"  at test_capture.py:\d+: return x if found.shape.*\nAccepted",
        ),
        (
            lambda self, x: x[: int(x.sum().item())],
            r"data-dependent: an integer that is made of a float\. .*\n  at .*x.sum\(\).item",
        ),
        (
            lambda self, x: x[: int(x.sum())],
            r"data-dependent: an integer that is made of a float\. .*\n  at .*x.sum\(\)\)",
        ),
        (
            lambda self, x: x * float(x.max()),
            r"a number, or a condition, that is made of a float\. .*\n  at .*float\(x.max.*\n"
            r"Accepted .* float\(x.max\(\)\) as a factor is x.max\(\)",
        ),
        (
            lambda self, x: x[x.nonzero().flatten().tolist()],
            r"data-dependent: .*\n.*\n  at .*tolist.*\nAccepted .* as an index it stays a tensor",
        ),
        (
            lambda self, x: torch.nn.functional.one_hot(x.long()),
            r"data-dependent: the integer u0\. .*\n  at .*\n.*for sizes .*plain numbers",
        ),
        (
            lambda self, x: x.narrow(0, x.argmax(), 1),
            r"data-dependent: the integer u0\. .*\n  at .*x.narrow.*\nAccepted .* torch.where",
        ),
        (
            write_rows,
            r"data-dependent: the integer u0\. .*\n  at .*ring.narrow.*\[:\] = x.*\n"
            r"Accepted .* an index that stays a tensor: x\[n\] = row and x\[n\] \+= row",
        ),
        (
            lambda self, x: x if torch.equal(x, x + 1) else -x,
            r"data-dependent: the result of aten.equal.default\. .*\n  at .*torch.equal",
        ),
    ],
)
def test_refuses(trace_function, forward, message, capfd):
    with pytest.raises(TraceError, match=message) as caught:
        trace_function(forward, X)
    assert "TORCH_LOGS" not in str(caught.value) and len(str(caught.value).splitlines()) < 12
    assert capfd.readouterr().err == ""


def test_a_carried_value_that_keeps_its_strides_is_accepted(trace_function):
    trace_function(lambda self, x: carry(True, x), X)


@pytest.mark.parametrize("sizes", [None, ({"x": {0: Dim("n", min=2, max=64)}, "y": None},)])
def test_a_dataclass_that_is_not_registered_is_refused(trace_function, sizes):
    words = r"test_capture.Pair'>(.|\n)*register a dataclass with torch.export.register_dataclass"
    with pytest.raises(TraceError, match=words):
        trace_function(lambda self, pair: pair.x + 1, Pair(X, X), dynamic_shapes=sizes)


def leave(self, x):
    raise SystemExit(3)


def leave_in_eager(self, x):
    if not torch.compiler.is_exporting():
        raise SystemExit("enough")
    return x + 1


@pytest.mark.parametrize(
    ("forward", "message"),
    [
        (leave, r"exporting m with torch.export: SystemExit: 3\n  at test_capture.py:\d+: raise"),
        (
            leave_in_eager,
            r"running m eagerly .*SystemExit: enough\n  at test_capture.py:\d+: raise",
        ),
    ],
)
def test_a_model_cannot_end_the_build(trace_function, forward, message):
    with pytest.raises(TraceError, match=message):
        trace_function(forward, X)


class Deciding(nn.Module):
    """By data, or by a size."""

    def __init__(self, by_data):
        super().__init__()
        self.by_data = by_data

    def forward(self, x):
        if self.by_data:
            return x if x.sum() > 0 else -x
        return x + torch.ones(4, 1)


@pytest.mark.parametrize(
    ("by_data", "message"),
    [
        (True, r"data-dependent: .*\n  at test_capture.py:\d+: return x if x.sum\(\) > 0"),
        (False, r"\n  n is 4\n  at test_capture.py:\d+: return x \+ torch.ones"),
    ],
)
def test_strict_mode_is_refused_in_the_same_words(by_data, message, capfd):
    n = {"x": {0: Dim("n", min=2, max=64)}}
    args = {"name": "m", "version": "1", "strict": True, "dynamic_shapes": n}
    with pytest.raises(TraceError, match=message):
        trace(Deciding(by_data), (torch.ones(4, 4),), **args)
    assert capfd.readouterr().err == ""


def grow(self, x):
    return x * 2 if x.shape[0] > 5 else x


@pytest.mark.parametrize(
    ("forward", "names", "message"),
    [
        (
            lambda self, x: x + self.a.weight,
            "n",
            r"sizes that were declared, those where\n  n is 4, as add asks\n  at test_\w+.py:\d+:"
            r" .*weight,\nLeave n out of the dynamic shapes where it is always 4, or change .*$",
        ),
        (
            lambda self, x: torch.gradient(x, spacing=(torch.arange(4.0),), dim=0)[0],
            "n",
            r"where\n  n is 4, as gradient asks\n  at .*gradient",
        ),
        (
            lambda self, x: x * 2 if x.shape[0] == 4 else x,
            "n",
            r"where\n  n is 4\n  at .* if",
        ),
        (
            grow,
            "n",
            r"\n  n <= 5: n is dimension 0 .*\n  at .*: return x \* 2 .*\n.*"
            r"Declare Dim\('n', min=2, max=5\) for dimension 0 of argument 'x', and pad",
        ),
        (
            lambda self, x: x[:, 0].reshape(2, -1),
            "n",
            r"multiple of 2, as reshape asks: n == 2 or \(n % 2\) == 0\n(.|\n)*Declare 2\*Dim\('n'",
        ),
        (lambda self, x: x @ x, "nm", r"\n  m is n\n  m is dimension 1 (.|\n)*  at .*x @ x"),
    ],
)
def test_sizes_that_the_model_does_not_admit_are_refused(trace_function, forward, names, message):
    dims = {axis: Dim(name, min=2, max=64) for axis, name in enumerate(names)}
    with pytest.raises(TraceError, match=message):
        trace_function(
            forward,
            torch.ones(4, 4),
            modules={"a": nn.Linear(4, 4)},
            dynamic_shapes={"x": dims},
        )


def test_sizes_that_the_model_admits_are_accepted(trace_function):
    n = Dim("n", min=6, max=64)
    graph = trace_function(grow, torch.ones(8, 4), dynamic_shapes={"x": {0: n}}).graph
    assert [(size.low, size.high) for size in graph.signature.sizes] == [(6, 64)]


def test_the_log_of_sizes_is_left_as_it_was(trace_function):
    log = logging.getLogger("torch.fx.experimental.symbolic_shapes")
    before = (log.handlers, log.level, log.propagate, log.disabled)
    trace_function(lambda self, x: x + 1, X)
    assert (log.handlers, log.level, log.propagate, log.disabled) == before


def along(function, x):
    return torch.func.jvp(function, (x,), (x + 1,))[1]


def test_forward_derivatives_are_accepted_and_after_a_refusal_too(trace_function):
    square = torch.ones(2, 2)
    with pytest.raises(TraceError, match="functionalising m: "):
        trace_function(lambda self, x: along(lambda x: x.tanh() @ x, x), square)
    assert type((square + 1).clone()) is torch.Tensor and (square + 1).untyped_storage().nbytes()
    graph = trace_function(lambda self, x: along(torch.tanh, x), square).graph
    assert "aten.tanh.default" in {node.op for node in graph.nodes}


def test_refuses_what_cannot_be_copied(trace_function):
    with pytest.raises(
        TraceError, match="copying Model before tracing: cannot pickle '_thread.lock'"
    ):
        trace_function(lambda self, x: self.a(x), X, modules={"a": Locked()})
