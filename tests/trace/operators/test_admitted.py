"""Dynamic sizes that torch.export did not trace, such as 1: right, or refused."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._higher_order_ops.scan import scan
from torch.export import Dim

import aotpack
from aotpack.errors import TraceError

X = torch.randn(4, 4, generator=torch.Generator().manual_seed(0))


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))


def branch(self, x):
    return x * 2 if x.shape[0] > 1 else x * 3


def product_branch(self, x):
    return x * 2 if x.numel() >= 4 else x * 3


def counts(self, x):
    self.counter.calls.add_(1 if x.shape[0] == 1 else 2)
    return x + 1


SHAPES = {
    "one of all": (lambda self, x: x.flatten()[3], "aten.select.int fails: .*index 3 out of range"),
    "the largest of all": (lambda self, x: x.flatten().topk(3)[0], "aten.topk.default fails"),
}
PARTS = {
    "the first of all": (
        lambda self, x: x.reshape(-1)[:3],
        r"slice.Tensor gives \[1\].* has \[3\]",
    ),
    "the first": (lambda self, x: x.relu()[:2], r"slice.Tensor gives \[1, 1\], and"),
    "the last of all": (lambda self, x: x.flatten()[-3:], r"slice.Tensor gives \[1\], and"),
}
"""Right for all sizes if torch.export takes none of them for 2; saved programs are final."""
FIXED = {
    "written slices": (
        lambda self, x: torch.slice_scatter(x, torch.ones(2, 4), 0, 0, 2),
        "slice_scatter.default fails: expected src",
    ),
    "written rows": (
        lambda self, x: x.clone().index_put_((torch.tensor([1]),), torch.ones(4)),
        "index_put.default fails: shape mismatch",
    ),
}
BRANCHES = {
    "a branch": (branch, "output0 differs by"),
    "a branch on a product": (product_branch, "output0 differs by"),
    "a branch that changes state": (counts, "counter.calls differs by 1"),
}


@pytest.mark.row("S:A13", "S:T13")
@pytest.mark.parametrize(("forward", "words"), SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("low", [1, 2])
def test_operators_on_few_elements(trace_function, forward, words, low):
    n = Dim("n", min=low, max=32)
    given = {"x": {0: n, 1: n}}
    if low == 2:
        assert trace_function(forward, X, dynamic_shapes=given)
        return
    with pytest.raises(TraceError, match=rf"{words}.*, where n_?=1\.(.|\n)*from 2 on"):
        trace_function(forward, X, dynamic_shapes=given)


@pytest.mark.row("S:A13", "S:T13")
@pytest.mark.parametrize("name", PARTS)
def test_parts_of_few_elements(name):
    model = type("Model", (nn.Module,), {"forward": PARTS[name][0]})()
    sizes = {0: Dim("n", min=1, max=9), 1: Dim("k", min=1, max=9)}
    given = {"dynamic_shapes": {"x": sizes}, "target": "interpreter"}
    with aotpack.compile(model, (X,), **given) as package:
        for rows in range(1, 10):
            for columns in (1, 2, 3, 9):
                x = torch.randn(rows, columns)
                assert torch.equal(package(x), model(x))


@pytest.mark.row("S:A13", "S:T13")
@pytest.mark.parametrize(("forward", "words"), PARTS.values(), ids=PARTS)
def test_saved_parts_of_few_elements_are_refused(forward, words):
    model = type("Model", (nn.Module,), {"forward": forward})()
    n = Dim("n", min=1, max=32)
    saved = torch.export.export(model, (X,), dynamic_shapes={"x": {0: n, 1: n}})
    with pytest.raises(TraceError, match=rf"{words}.*, where \w+=1\.(.|\n)*from 2 on"):
        aotpack.compile(saved, (X,), target="interpreter")


@pytest.mark.row("S:A13", "S:T13")
@pytest.mark.parametrize(("forward", "words"), FIXED.values(), ids=FIXED)
def test_operators_on_the_example_alone(trace_function, forward, words):
    """torch checks neither on the fake tensors that it exports with."""
    with pytest.raises(TraceError, match=words):
        trace_function(forward, X, dynamic_shapes={"x": {0: Dim("n", min=2), 1: Dim("w")}})
    assert trace_function(forward, X, dynamic_shapes={"x": {0: Dim("n", min=2)}})


@pytest.mark.row("S:A13", "S:T13")
@pytest.mark.parametrize(("forward", "words"), BRANCHES.values(), ids=BRANCHES)
@pytest.mark.parametrize("low", [1, 2])
def test_conditions_on_sizes(trace_function, forward, words, low):
    n = Dim("n", min=low, max=32)
    options = {"modules": {"counter": Counter()}, "dynamic_shapes": {"x": {0: n, 1: n}}}
    if low == 2:
        assert trace_function(forward, X, **options)
        return
    with pytest.raises(TraceError, match=f"another function than the model: where n_?=1, {words}"):
        trace_function(forward, X, **options)


def of_several(self, x):
    if x.shape[0] == 1:
        raise ValueError("too few rows")
    return x * 2


RAISING = {
    "the model": (of_several, "ValueError: too few rows\n  at test_admitted.py"),
    "BatchNorm": (
        lambda self, x: F.batch_norm(x, None, None, training=True),
        "ValueError: Expected more than 1 value per channel",
    ),
    "InstanceNorm": (
        lambda self, x: F.instance_norm(x.T[None]),
        "ValueError: Expected more than 1 spatial element",
    ),
    "GroupNorm": (
        lambda self, x: F.group_norm(x[:, :1].T, 1),
        "ValueError: Expected more than 1 value per channel",
    ),
}


@pytest.mark.row("S:A13", "S:T13")
@pytest.mark.parametrize(("forward", "words"), RAISING.values(), ids=RAISING)
@pytest.mark.parametrize("low", [1, 2])
def test_models_that_raise_for_one_row(trace_function, forward, words, low):
    given = {"x": {0: Dim("n", min=low, max=32)}}
    if low == 2:
        assert trace_function(forward, X, dynamic_shapes=given)
        return
    with pytest.raises(TraceError, match=rf"raises for an admitted size, where n_?=1, {words}"):
        trace_function(forward, X, dynamic_shapes=given)


def test_an_assertion_that_torch_adds(trace_function):
    """Where the results of two branches lie unlike, torch asserts that a size is 2 or more."""

    def forward(self, x):
        def last(carried, column):
            return carried.clone(), column.clone()

        def side(y):
            return scan(last, y.clone(), x, dim=1)[0]

        return torch.cond(x.sum() > 0, lambda y: x + 1, side, (x * 2,))

    given = {"x": {0: Dim("n", min=1, max=9), 1: Dim("m", min=1, max=9)}}
    words = r"as torch.export recorded it where n_?=1, m_?=4: .* >= 2 .*\n.*\n.* from 2 on"
    with pytest.raises(TraceError, match=words):
        trace_function(forward, X, dynamic_shapes=given)


def test_one_of_two_sizes(trace_function):
    """A size of 1 is tried while another one is the example's, and all at once."""

    def forward(self, x, y):
        return x * 2 + y.sum() if x.shape[0] == 1 and y.shape[0] > 1 else x * 3 + y.sum()

    given = {"x": {0: Dim("a", max=9)}, "y": {0: Dim("b", max=9)}}
    with pytest.raises(TraceError, match="where a_?=1, b=4, output0 differs"):
        trace_function(forward, X, X, dynamic_shapes=given)


@pytest.mark.parametrize(
    "is_small",
    [
        lambda x: x.numel() < 4,
        lambda x: x.numel() == 2,
        lambda x: x.shape[0] + x.shape[1] == 3,
        lambda x: 1 < x.numel() <= 3,
        lambda x: not x.numel() - 2,
        lambda x: int(x.numel() == 2),
        lambda x: (x.numel() == 2) * 3,
        lambda x: 3 * ((x.numel() == 2) & (x.shape[0] == 1)),
    ],
)
def test_conditions_on_several_sizes(trace_function, is_small):
    """Right for the example's sizes with one of 1, and wrong where the other is 2 or 3."""

    def forward(self, x):
        return x * 2 if is_small(x) else x

    shapes = {"x": {0: Dim("a", min=1, max=12), 1: Dim("b", min=2, max=24)}}
    with pytest.raises(TraceError, match="where a_?=1, b_?=[23], output0 differs"):
        trace_function(forward, torch.randn(4, 6), dynamic_shapes=shapes)


@pytest.mark.parametrize("asked", [0, 1])
@pytest.mark.parametrize("low", [1, 2])
def test_conditions_on_sizes_of_two_inputs(trace_function, asked, low):
    """torch has a symbol for each input's sizes, until it finds that they are equal."""

    def forward(self, *given):
        return sum(given) * (3 if given[asked].numel() == 2 else 2)

    shape = {0: Dim("a", min=low, max=12), 1: Dim("b", min=2, max=24)}
    given, shapes = torch.randn(2, 4, 6), {"given": (shape, shape)}
    if low == 2:
        assert trace_function(forward, *given, dynamic_shapes=shapes)
        return
    with pytest.raises(TraceError, match="where a_?=1, b_?=2, output0 differs"):
        trace_function(forward, *given, dynamic_shapes=shapes)


def test_a_view_of_one_column_is_written(trace_function):
    """In eager ``contiguous`` and ``flatten`` are views of a column of one element a row."""

    def forward(self, x):
        z = x * 2
        y = z[:, 0].contiguous()
        y += 1
        return z, y

    shapes = {"x": {1: Dim("a", min=1, max=12)}}
    with pytest.raises(TraceError, match="another function than the model"):
        trace_function(forward, torch.randn(4, 6), dynamic_shapes=shapes)


def test_a_condition_behind_another(trace_function):
    def forward(self, x):
        return x * 2 if x.shape[0] == 1 and x.shape[1] > 16 else x

    shapes = {"x": {0: Dim("a", min=1, max=12), 1: Dim("b", min=2, max=64)}}
    with pytest.raises(TraceError, match="where a_?=1, b_?=64, output0 differs"):
        trace_function(forward, torch.randn(4, 6), dynamic_shapes=shapes)


@pytest.mark.parametrize("low", [1, 2])
@pytest.mark.parametrize("example", [torch.zeros(4, 6), torch.ones(4, 6, dtype=torch.int64)])
def test_examples_of_equal_numbers(trace_function, example, low):
    """They show no difference between functions, and others are drawn."""

    def forward(self, x):
        return x + x if x.shape[1] == 1 else x * x

    shapes = {"x": {1: Dim("a", min=low, max=12)}}
    if low == 2:
        assert trace_function(forward, example, dynamic_shapes=shapes)
        return
    with pytest.raises(TraceError, match="where a_?=1, output0 differs"):
        trace_function(forward, example, dynamic_shapes=shapes)


def test_a_slice_of_several_sizes_of_a_saved_program():
    model = type("Model", (nn.Module,), {"forward": lambda self, x: x.reshape(-1)[:3]})()
    shapes = {"x": {0: Dim("a", min=1, max=12), 1: Dim("b", min=2, max=24)}}
    saved = torch.export.export(model, (torch.randn(4, 6),), dynamic_shapes=shapes)
    with pytest.raises(TraceError, match=r"slice.Tensor gives \[2\], .*, where \w+=1, \w+=2"):
        aotpack.compile(saved, (torch.randn(4, 6),), target="interpreter")


def test_branches_that_agree_are_accepted(trace_function):
    def forward(self, x):
        if x.shape[0] == 1:
            return x.cumsum(0)
        return torch.tril(torch.ones(x.shape[0], x.shape[0])) @ x

    n = Dim("n", max=32)
    traced = trace_function(forward, X, dynamic_shapes={"x": {0: n}})
    assert traced.graph.signature.sizes[0].low == 1


def test_derived_sizes_and_kept_state(trace_function):
    """The inputs are shortened to what each size gives; state is as before."""
    counter = Counter()

    def forward(self, x, y):
        self.counter.calls.add_(1)
        return x.sum(0) + y[::2].sum(0)

    n = Dim("n", max=16)
    shapes = {"x": {0: n}, "y": {0: 2 * n + 1}}
    given = X, torch.randn(9, 4)
    options = {"modules": {"counter": counter}, "dynamic_shapes": shapes}
    assert trace_function(forward, *given, **options)
    assert counter.calls == 0


def test_inputs_that_eager_refuses_when_shortened_are_no_reason(trace_function):
    """Offsets point behind the shortened rows."""

    def forward(self, table, places):
        return table[places]

    shapes = {"table": {0: Dim("rows", max=16)}, "places": {0: Dim("n", max=16)}}
    assert trace_function(forward, X, torch.tensor([3, 2]), dynamic_shapes=shapes)


class Speech(nn.Module):
    """A convolution in steps of 2 before layers that fold their rows."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.conv, self.layer = nn.Conv1d(8, 12, 3, stride=2, padding=1), layer

    def forward(self, x):
        found = self.layer(self.conv(x).transpose(1, 2))
        return found[0] if isinstance(found, tuple) else found


@pytest.mark.row("S:A13", "S:T13")
@pytest.mark.parametrize(
    "layer", [nn.Linear(12, 6), nn.LSTM(12, 6, batch_first=True), nn.GRU(12, 6, bidirectional=True)]
)
def test_lengths_of_strided_convolutions(layer):
    """torch.export derives (2*n + 2) % (n + 1) == 0 there, and cannot prove it."""
    x, model = torch.randn(2, 8, 9), Speech(layer).eval()
    package = aotpack.compile(
        model, (x,), dynamic_shapes={"x": {2: Dim("t", min=3, max=100)}}, target="cpu"
    )
    for length in 3, 4, 30, 31:
        given = torch.randn(2, 8, length)
        with torch.no_grad():
            torch.testing.assert_close(package(given), model(given), rtol=1e-4, atol=1e-5)


def test_a_condition_that_fails_for_a_length_is_refused(trace_function):
    def forward(self, x):
        return x[:, ::2].reshape(-1, 4)

    shapes = {"x": {1: Dim("t", min=3, max=100)}}
    with pytest.raises(TraceError, match=r"(?s)right only for some of the sizes.*% 4"):
        trace_function(forward, torch.randn(2, 15), dynamic_shapes=shapes)
