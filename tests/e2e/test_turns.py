"""Loops whose turns are one launch: right against eager, for any number of turns and rows."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn
from torch._higher_order_ops.map import map as map_over
from torch._higher_order_ops.scan import scan
from torch.export import Dim
from torch.utils import _pytree as pytree

import aotpack
from aotpack.target import Target

from .law import LAW, accuracy_complaint
from .oracle import Compiled, agree, compile_all, tensors

H100 = (Target("cuda", 90),)
STEPS, ROWS = Dim("steps", max=60), Dim("rows", max=40)


@dataclass(frozen=True, slots=True)
class Case:
    """A layer, and the shape of its call; the states that are given."""

    name: str
    layer: Callable[[], nn.Module]
    shape: tuple[int, ...]
    states: tuple[tuple[int, ...], ...] = ()
    dtype: torch.dtype = torch.float32

    def call(self) -> tuple[Any, ...]:
        x, *states = (torch.randn(one, dtype=self.dtype) for one in (self.shape, *self.states))
        return (x,) if not states else (x, states[0] if len(states) == 1 else tuple(states))


CASES = (
    Case("LSTM", lambda: nn.LSTM(4, 6, 2), (5, 3, 4), ((2, 3, 6), (2, 3, 6))),
    Case("LSTM unbatched", lambda: nn.LSTM(4, 3, bidirectional=True), (5, 4)),
    Case("LSTM of many units", lambda: nn.LSTM(4, 150), (3, 17, 4), dtype=torch.bfloat16),
    Case("GRU", lambda: nn.GRU(4, 33), (7, 1, 4), ((1, 1, 33),), dtype=torch.float16),
    Case("GRU without biases", lambda: nn.GRU(4, 16, bias=False), (1, 3, 4)),
    Case("RNN", lambda: nn.RNN(4, 128, nonlinearity="relu"), (3, 5, 4), dtype=torch.bfloat16),
)


@pytest.fixture(autouse=True)
def forgetful() -> None:
    """After eight models, torch's ``scan`` would take the sizes of the next one as constants."""
    torch._dynamo.reset()


def is_held(compiled: Compiled) -> bool:
    """True if the package has no loop for the host."""
    return "Loop(" not in compiled.precompiled.rendered.wrapper


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_layers_agree_with_eager(case: Case) -> None:
    torch.manual_seed(0)
    call = case.call()
    compiled = compile_all(case.layer().to(case.dtype), call, targets=H100)
    assert is_held(compiled)
    assert any(binary.num_ctas > 1 for binary in compiled.precompiled.binaries)
    agree(compiled, call)


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU])
def test_one_package_agrees_for_each_batch_and_length(layer: type[nn.RNNBase]) -> None:
    torch.manual_seed(0)
    shapes = {"input": {0: ROWS, 1: STEPS}}
    calls = [(torch.randn(shape),) for shape in ((3, 5, 4), (1, 1, 4), (40, 2, 4))]
    module = layer(4, 20, bidirectional=True, batch_first=True)
    compiled = compile_all(module, calls[0], dynamic_shapes=shapes, targets=H100)
    assert is_held(compiled)
    for call in calls:
        agree(compiled, call)


class Decay(nn.Module):
    """States swap places, and one is as before."""

    def forward(self, first: torch.Tensor, second: torch.Tensor, xs: torch.Tensor) -> Any:
        def step(state: Any, x: torch.Tensor) -> Any:
            one, two, three = state
            new = 0.5 * two + x
            return (new, one.clone(), three.clone()), new.sin()

        return scan(step, (first, second, second + 1), xs, dim=0)


class Mapped(nn.Module):
    """No state at all, on slices in another order of dimensions."""

    def forward(self, xs: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return map_over(lambda x: (x + y).t().relu(), xs)


def test_loops_of_points_are_launches_on_any_gpu() -> None:
    call = (torch.randn(3, 70), torch.randn(3, 70), torch.randn(4, 3, 70))
    compiled = compile_all(Decay(), call, dynamic_shapes=(None, None, {0: STEPS}))
    assert not any(binary.num_ctas > 1 for binary in compiled.precompiled.binaries)
    agree(compiled, call)
    agree(compiled, (*call[:2], torch.randn(1, 3, 70)))


def test_loops_without_states_are_launches() -> None:
    call = (torch.randn(4, 3, 5), torch.randn(3, 5))
    compiled = compile_all(Mapped(), call, targets=H100)
    assert is_held(compiled)
    agree(compiled, call)


class Mixed(nn.Module):
    """The state is read at other places than it is written."""

    def forward(self, first: torch.Tensor, xs: torch.Tensor) -> Any:
        def step(state: torch.Tensor, x: torch.Tensor) -> Any:
            new = state.flip(-1) + x
            return new, new.clone()

        return scan(step, first, xs, dim=0)


LOOPS = (
    (Mixed(), (torch.randn(3, 6), torch.randn(4, 3, 6))),
    (nn.LSTM(4, 6, proj_size=3), (torch.randn(5, 3, 4),)),
    (nn.LSTM(4, 600), (torch.randn(2, 3, 4),)),
)


@pytest.mark.parametrize("model", LOOPS, ids=lambda model: type(model[0]).__name__)
def test_other_loops_stay_loops(model: tuple[nn.Module, tuple[torch.Tensor, ...]]) -> None:
    torch.manual_seed(0)
    compiled = compile_all(*model, targets=H100)
    assert not is_held(compiled)
    agree(compiled, model[1])


def test_older_gpus_of_the_same_package_have_the_loop() -> None:
    torch.manual_seed(0)
    call = (torch.randn(5, 3, 4),)
    compiled = compile_all(nn.GRU(4, 6), call, targets=(Target("cuda", 80), *H100))
    assert "if arch >= 90 else" in compiled.precompiled.rendered.wrapper
    agree(compiled, call)


GPU_CASES = (
    Case("LSTM", lambda: nn.LSTM(64, 256, 2), (33, 10, 64), dtype=torch.bfloat16),
    Case("LSTM of one row", lambda: nn.LSTM(8, 128), (65, 1, 8), dtype=torch.float16),
    Case("LSTM of many rows", lambda: nn.LSTM(8, 100), (9, 300, 8), dtype=torch.bfloat16),
    Case("LSTM of odd units", lambda: nn.LSTM(5, 77), (1, 3, 5), ((1, 3, 77), (1, 3, 77))),
    Case("LSTM in float32", lambda: nn.LSTM(16, 64), (40, 10, 16)),
    Case(
        "GRU both ways",
        lambda: nn.GRU(16, 200, bidirectional=True),
        (20, 65, 16),
        dtype=torch.float16,
    ),
    Case("GRU of 512 units", lambda: nn.GRU(8, 512), (20, 16, 8), dtype=torch.bfloat16),
    Case("RNN", lambda: nn.RNN(4, 7, 2, batch_first=True), (3, 50, 4)),
)


@pytest.mark.gpu
@pytest.mark.parametrize("case", GPU_CASES, ids=lambda case: case.name)
def test_layers_agree_on_a_gpu(case: Case) -> None:
    torch.manual_seed(0)
    module = case.layer().to(case.dtype).eval()
    call = case.call()
    model = aotpack.compile(module, call)
    given = pytree.tree_map(torch.Tensor.cuda, call)
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        eager = copy.deepcopy(module).cuda()(*given)
    exact = copy.deepcopy(module).cuda().double()(*pytree.tree_map(torch.Tensor.double, given))
    first = tensors(model(*given))
    for row in zip(first, tensors(eager), tensors(exact), strict=True):
        assert accuracy_complaint(*(one.cpu() for one in row), LAW) is None
    for _ in range(20):  # as a graph too
        again = tensors(model(*given))
        assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
