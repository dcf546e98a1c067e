"""Changes in place of permuted tensors: views taken afterwards are those of the old layout."""

import pytest
import torch
from torch import nn

import aotpack
from aotpack.errors import TraceError
from aotpack.lower import LOWERINGS
from aotpack.trace import trace
from aotpack.trace.operators.layouts import kept_layouts
from tests.lower.oracle import check_traced

X = torch.arange(-15.0, 15.0).view(2, 5, 3)
FIRST = torch.zeros(1, 2, 3, dtype=torch.int64)

CHANGES = {
    "masked_fill_": lambda t: t.masked_fill_(t > 0, 0.5),
    "cumsum_": lambda t: t.cumsum_(0),
    "tril_": lambda t: t.tril_(),
    "scatter_": lambda t: t.scatter_(0, FIRST, 1.0),
    "scatter_add_": lambda t: t.scatter_add_(0, FIRST, torch.ones(1, 2, 3)),
    "index_add_": lambda t: t.index_add_(0, torch.tensor([3, 1]), torch.ones(2, 2, 3)),
    "baddbmm_": lambda t: t.baddbmm_(torch.ones(5, 2, 2), torch.ones(5, 2, 3)),
    "twice": lambda t: t.cumsum_(1).masked_fill_(t > 3, 0.5),
}


class Model(nn.Module):
    """Changes a permuted tensor, then every second element in the order of memory."""

    def __init__(self, change, flat):
        super().__init__()
        self.change, self.flat = change, flat

    def forward(self, x):
        t = (x * 2).permute(1, 0, 2).clone()
        self.change(t)
        self.flat(t.permute(1, 0, 2))[::2].add_(1)
        return t * 1, t.sum(0)


def check(model, x, shapes=None):
    whole = frozenset(LOWERINGS)
    traced = trace(model, (x,), name="m", version="1", whole=whole, dynamic_shapes=shapes)
    check_traced(traced, model, (x,))


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_view_after_a_change_is_possible(change):
    check(Model(change, lambda t: t.view(-1)), X)


@pytest.mark.parametrize("name", ["masked_fill_", "cumsum_"])
def test_a_reshape_after_a_change_remains_a_view(name):
    check(Model(CHANGES[name], lambda t: t.reshape(-1)), X)


def test_sizes_may_be_dynamic():
    def change(t):
        t.masked_fill_(t > 0, 0.5)

    check(Model(change, lambda t: t.view(-1)), X, {"x": {0: torch.export.Dim("rows", min=2)}})


def test_a_base_of_a_permuted_view_keeps_its_order():
    class Base(nn.Module):
        def forward(self, x):
            base = x * 2
            base.permute(1, 0, 2).cumsum_(0)
            base.view(-1)[::2].add_(1)
            return base * 1

    check(Base(), X)


@pytest.mark.parametrize(
    ("change", "is_changed"),
    [
        (lambda x: x.permute(1, 0, 2).clone().masked_fill_(x[0, 0] > 0, 0.5), True),
        (lambda x: x.permute(1, 0, 2).clone().add_(1), False),  # keeps its layout by itself
        (lambda x: x.clone().masked_fill_(x > 0, 0.5), False),
        (lambda x: x.permute(1, 0, 2).contiguous().cumsum_(0), False),
        (lambda x: x.clone()[:, ::2].masked_fill_(x[:, ::2] > 0, 0.5), False),  # a part has gaps
        (lambda x: x.permute(1, 0, 2).masked_fill(x[0, 0] > 0, 0.5), False),
        (lambda x: x.permute(1, 0, 2).transpose_(0, 1), False),
    ],
)
def test_programs_are_changed_only_where_a_layout_is_lost(change, is_changed):
    module = type("Model", (nn.Module,), {"forward": lambda self, x: change(x)})()
    program = torch.export.export(module, (X,))
    before = str(program.graph)
    with kept_layouts(program):
        assert (str(program.graph) != before) == is_changed
        assert ("copy_" in str(program.graph)) == is_changed
    assert str(program.graph) == before


def scaled(x):
    made = x * 1
    made[:, : x.shape[0] - x.shape[1]] *= 2
    return made


def added(x):
    made = torch.zeros_like(x)[None]
    made[:, :, x.shape[1] - x.shape[0] :] += x[:, x.shape[1] - x.shape[0] :]
    return made


def added_to_rows(x):
    made = x[None] * 1
    made[:, : x.shape[0] - x.shape[1]] += 1
    return made


def of_rows_that_data_choose(x):
    made = x[x[:, 0] > 0]
    made[:, : x.shape[0] - x.shape[1]] *= 2
    return made


@pytest.mark.parametrize("low", [1, 2])
@pytest.mark.parametrize(
    ("function", "strict"),
    [
        (scaled, False),
        (scaled, True),
        (added, False),
        (added, True),
        (added_to_rows, False),
        (added_to_rows, True),
        (of_rows_that_data_choose, False),
    ],
)
def test_an_assignment_to_a_slice_between_two_sizes(*, function, low, strict):
    """Its length is that of no input: torch asks whether it is contiguous, which nobody knows."""
    model = type("Slices", (nn.Module,), {"forward": lambda self, x: function(x)})()
    a, b = (torch.export.Dim(name, min=low, max=64) for name in "ab")
    how = {"dynamic_shapes": {"x": {0: a, 1: b}}, "target": "cpu", "strict": strict}
    package = aotpack.compile(model, (torch.randn(7, 4),), **how)
    for rows in (low, 2, 3, 5):
        for columns in (low, 2, 4, 7):
            x = torch.randn(rows, columns)
            torch.testing.assert_close(package(x), function(x))


def flat(x):
    return (x * 1)[:, : x.shape[0] - x.shape[1]].view(-1)


def given_all_rows(x):
    made = x[None] * 1
    made[:, : x.shape[0] - x.shape[1]] = x
    return made


@pytest.mark.parametrize(
    ("function", "line"), [(flat, r"return .*view\(-1\)"), (given_all_rows, r"made\[.* = x$")]
)
def test_another_shape_of_such_a_slice_is_refused(function, line):
    model = type("Other", (nn.Module,), {"forward": lambda self, x: function(x)})()
    a, b = (torch.export.Dim(name, min=2, max=64) for name in "ab")
    shapes = {"x": {0: a, 1: b}}
    with pytest.raises(TraceError, match=rf"\n  at test_layouts.py:\d+: {line}"):
        trace(model, (torch.randn(7, 4),), name="m", version="1", dynamic_shapes=shapes)


class OfAtLeastOne(nn.Module):
    """Branches whose results have a size that is a maximum, and the stride of it."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        size = torch.sym_max(1, x[x > 0].shape[0])
        made = x.new_zeros((4, size)) + x.sum()
        steps = torch.arange(4.0)[:, None]
        made = torch.cond(x.sum() > 0, lambda a: a * 2 + steps, lambda a: a - steps, (made,))
        return made * 1, x * made.stride(0)


@pytest.mark.row("S:I3")
def test_a_stride_of_a_size_that_is_a_maximum_is_that_size() -> None:
    model = aotpack.compile(OfAtLeastOne(), (torch.ones(7),), target="cpu")
    for x in (torch.ones(7), -torch.ones(7), torch.tensor([1.0, -1, -1, -1, -1, -1, -1])):
        size = max(1, int((x > 0).sum()))
        made = (torch.zeros(4, size) + x.sum()) * (2 if x.sum() > 0 else 1)
        made += (1 if x.sum() > 0 else -1) * torch.arange(4.0)[:, None]
        results = model(x)
        assert torch.equal(results[0], made) and torch.equal(results[1], x * size)
