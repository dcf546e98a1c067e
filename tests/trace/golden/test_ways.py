"""Golden data in little room, and the reasons why there are none."""

import math

import pytest
import torch
from torch import nn
from torch._higher_order_ops import while_loop

from aotpack.errors import TraceError, UsageError
from aotpack.ir.golden import read_golden
from aotpack.trace import trace
from aotpack.trace.golden import budget

X = torch.randn(64, 400, generator=torch.Generator().manual_seed(0))  # 102,400 bytes
IDS = torch.arange(400) % 7


class Model(nn.Module):
    def forward(self, x: torch.Tensor, ids: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.softmax(-1), (x * 1e4).floor().int() + ids, x.sum()


class Picky(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch._assert((x == x.round()).all(), "whole numbers alone")
        if not torch.compiler.is_compiling() and float(x.sum() % 1) != 0:
            raise ValueError("whole numbers alone")
        return x + 1


def golden(model: nn.Module, *args: torch.Tensor, size: float = 4e6):
    return trace(model, args, name="m", version="1", golden=size).golden


def kept_bytes(found) -> int:
    tensors = (*found.inputs, *found.outputs, *found.updates, *found.limits)
    return sum(len(data) for *_, data in tensors)


def test_small_data_are_kept_whole():
    found = golden(Model(), X, IDS)
    assert [name for name, *_ in found.inputs] == ["x", "ids"]
    assert (found.drawn, found.sampled, found.note) == ((), (), "")
    assert [shape for _, _, shape, _ in found.outputs] == [(64, 400), (64, 400), ()]


@pytest.mark.parametrize("size", [2e4, 6e4])
def test_large_floats_are_drawn_and_large_results_sampled(size: float):
    found = golden(Model(), X, IDS, size=size)
    assert [name for name, *_ in found.inputs] == ["ids"]
    (x,) = found.drawn
    assert (x.name, x.shape) == ("x", (64, 400)) and -1.8 < x.low < -1.6 and 1.6 < x.high < 1.8
    assert [one.name for one in found.sampled] == ["outputs/output0", "outputs/output1"]
    assert size / 3 < kept_bytes(found) < size
    assert "x: drawn from a seed" in found.note
    assert found == golden(Model(), X, IDS, size=size), "another time the same"


def test_one_tensor_given_twice_is_drawn_once():
    found = golden(nn.Bilinear(400, 400, 2), X, X, size=1e4)
    one, other = found.drawn
    assert (one.name, other.name) == ("input1", "input2")
    assert (one.seed, one.low, one.high) == (other.seed, other.low, other.high)


def test_integers_that_do_not_fit_are_drawn_in_their_range():
    table = nn.Embedding(50, 3)
    found = golden(table, torch.randint(3, 50, (5000,)), size=2e4)
    (ids,) = found.drawn
    assert (ids.low, ids.high) == (3.0, 49.0)


def test_none_keeps_what_times_a_package():
    found = golden(Model(), X, IDS, size=0)
    assert (found.outputs, found.inputs) == ((), ()) and len(found.drawn) == 2
    assert found.note == "it was built with golden data of none"


def test_a_model_that_refuses_drawn_inputs_has_no_golden_data():
    whole = X.round()
    assert golden(Picky(), whole).outputs
    found = golden(Picky(), whole, size=1e4)
    assert not found.outputs
    assert "the model refuses inputs drawn from a seed: " in found.note


class Changed(nn.Module):
    """Another function while it is exported, of fractions alone."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + (0.0 if torch.compiler.is_exporting() else (x - x.round()).abs())


def test_another_function_on_drawn_inputs_is_refused():
    assert golden(Changed(), X.round()).outputs, "of whole numbers it is the same"
    with pytest.raises(TraceError, match="gives another function than the model"):
        golden(Changed(), X.round(), size=1e4)


class Converging(nn.Module):
    """An average that stops in float32 long before it does in float64, or ever with noise."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def changes(y: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
            return (y - before).abs().max() > 0

        def step(y: torch.Tensor, before: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return y + (x - y) * 0.001, y.clone()

        return while_loop(changes, step, (x * 1.00001, x * 1.0))[0]


def test_a_loop_that_does_not_end_in_float64_leaves_out_the_reference():
    found = golden(Converging(), X[0, :8].clone())
    assert found.outputs and "no reference: in float64 a while_loop takes more than" in found.note


def test_a_run_that_costs_too_much_is_left_out(monkeypatch: pytest.MonkeyPatch):
    """The figures of a large model, at a small one."""
    monkeypatch.setattr(budget, "MOST_BYTES", 150_000)
    found = golden(Model(), X, IDS)
    assert not found.outputs and "a run of the model on the example holds 0.0 GB" in found.note
    assert golden(Model(), X, IDS, size=math.inf).outputs, "full is full"


def test_without_a_reference_results_are_compared_with_eagers(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(budget, "MOST_SECONDS", 0.0)
    found = golden(Model(), X, IDS)
    assert "no reference: the float64 reference takes about" in found.note
    eager = Model()(X, IDS)
    for (name, _, _, data), result in zip(found.outputs, eager, strict=True):
        stored = torch.frombuffer(bytearray(data), dtype=result.dtype).view(result.shape)
        assert torch.equal(stored, result), name
    limits = {name for name, *_ in found.limits}
    assert {"bounds/outputs/output0", "ranges/outputs/output1"} <= limits


@pytest.mark.parametrize(
    ("value", "size"), [("full", math.inf), ("none", 0.0), ("4", 4e6), (0.5, 5e5), (".25", 2.5e5)]
)
def test_sizes_are_read(value: object, size: float):
    assert read_golden(value) == size


@pytest.mark.parametrize("value", ["4MB", "", "-1", 0, "1e3", "all", math.nan, None])
def test_other_sizes_are_refused(value: object):
    with pytest.raises(UsageError, match="golden data of .*; accepted are 'full', 'none' and meg"):
        read_golden(value)
