"""Recurrent layers are loops: right against eager, compiled once for any number of steps."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.nn.utils.rnn import pack_padded_sequence

import aotpack
from aotpack.errors import AotpackError, TraceError
from aotpack.ir.program import Loop
from aotpack.lower import lower
from aotpack.pipeline import Build, Source
from aotpack.stages import Lowered

from .oracle import agree, compile_all

STEPS, ROWS = Dim("steps", max=60), Dim("rows", max=9)


@dataclass(frozen=True, slots=True)
class Case:
    """A layer of 4 inputs, and the shapes of the inputs of its calls; the states that are given."""

    name: str
    layer: Callable[[], nn.Module]
    shapes: tuple[tuple[int, ...], ...]
    states: tuple[tuple[int, ...], ...] = ()
    dtype: torch.dtype = torch.float32

    def call(self, shape: tuple[int, ...]) -> tuple[Any, ...]:
        x, *states = (torch.randn(one, dtype=self.dtype) for one in (shape, *self.states))
        return (x,) if not states else (x, states[0] if len(states) == 1 else tuple(states))


CASES = (
    Case(
        "LSTM given states",
        lambda: nn.LSTM(4, 6, 2, bias=False, dropout=0.5),
        ((5, 3, 4),),
        ((2, 3, 6), (2, 3, 6)),
    ),
    Case("LSTM unbatched", lambda: nn.LSTM(4, 3, bidirectional=True), ((5, 4),)),
    Case("LSTM bfloat16", lambda: nn.LSTM(4, 6), ((7, 3, 4),), dtype=torch.bfloat16),
    Case("GRU float16", lambda: nn.GRU(4, 6), ((7, 3, 4),), dtype=torch.float16),
    Case("GRU bias off", lambda: nn.GRU(4, 6, bias=False), ((5, 3, 4),), ((1, 3, 6),)),
    Case("RNN", lambda: nn.RNN(4, 6, 2, bidirectional=True, batch_first=True), ((3, 5, 4),)),
    Case("RNN relu", lambda: nn.RNN(4, 6, nonlinearity="relu"), ((5, 3, 4),)),
    Case("LSTMCell", lambda: nn.LSTMCell(4, 6), ((3, 4),)),
    Case("GRUCell", lambda: nn.GRUCell(4, 6), ((3, 4),), ((3, 6),)),
    Case("RNNCell", lambda: nn.RNNCell(4, 6), ((3, 4),)),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_programs_agree_with_eager(case: Case) -> None:
    torch.manual_seed(0)
    call = case.call(case.shapes[0])
    agree(compile_all(case.layer().to(case.dtype), call, targets=()), call)


DYNAMIC = (
    Case(
        "LSTM",
        lambda: nn.LSTM(4, 6, bidirectional=True, batch_first=True, proj_size=3),
        ((3, 5, 4), (1, 1, 4), (2, 40, 4)),
    ),
    Case("GRU", lambda: nn.GRU(4, 5, batch_first=True), ((3, 5, 4), (1, 1, 4), (2, 40, 4))),
)


@pytest.mark.parametrize("case", DYNAMIC, ids=lambda case: case.name)
def test_targets_agree_for_each_batch_and_length(case: Case) -> None:
    torch.manual_seed(0)
    first, *_ = case.shapes
    shapes = {"input": {0: ROWS, 1: STEPS}}
    compiled = compile_all(case.layer(), case.call(first), dynamic_shapes=shapes)
    for shape in case.shapes:
        agree(compiled, case.call(shape))


def lowered(layer: nn.Module, *args: Any) -> Lowered:
    return lower(Build(Source(layer.eval(), args)).traced)


def test_the_step_is_compiled_once() -> None:
    """Each layer and direction is one loop, and its program is as large for any length."""
    sizes = []
    for steps in (3, 30):
        program = lowered(nn.LSTM(4, 6, 2, bidirectional=True), torch.randn(steps, 2, 4)).program
        loops = [one for one in program.operations if isinstance(one, Loop)]
        assert len(loops) == 4
        sizes.append((len(program.operations), [len(one.body.operations) for one in loops]))
    assert sizes[0] == sizes[1]


def test_an_exported_program_with_a_whole_layer_has_the_loop() -> None:
    layer, x = nn.GRU(4, 6).eval(), torch.randn(5, 2, 4)
    program = torch.export.export(layer, (x,))
    assert any("gru" in str(node.target) for node in program.graph.nodes)
    model = lower(Build(Source(program, (x,))).traced)
    assert any(isinstance(one, Loop) for one in model.program.operations)


class Packs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LSTM(4, 6)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        return self.layer(pack_padded_sequence(x, lengths, enforce_sorted=False))[1][0]


def test_refuses_packed_sequences() -> None:
    with pytest.raises(AotpackError, match="packed sequences .* give the recurrent layer the pad"):
        lowered(Packs(), torch.randn(5, 2, 4), torch.tensor([5, 3]))


def test_refuses_no_steps_as_torch_does() -> None:
    with pytest.raises(TraceError, match="[Ee]xpected sequence length to be larger than 0"):
        aotpack.compile(nn.LSTM(4, 6), (torch.randn(0, 2, 4),), target="cpu")
