"""Recurrent layers (LSTM, GRU, RNN) as loops whose step is compiled once.

torch unrolls every time step, and so fixes the length of sequences. Here a layer is, for each
direction, one matrix product of the inputs of all steps and one ``scan`` over them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

from aotpack.errors import UnsupportedError
from aotpack.trace.operators.control_flow.control import SCAN

State: TypeAlias = tuple[torch.Tensor, ...]
Step: TypeAlias = Callable[..., State]
"""The state, the input product of the step and the recurrent weights to the new state."""

_PARAMETERS = (
    *("input", "hx", "params", "has_biases", "num_layers"),
    *("dropout", "train", "bidirectional", "batch_first"),
)


class RecurrentLoops(TorchFunctionMode):
    """Inside the block, recurrent layers are loops; packed sequences are refused.

    torch unrolls a layer that draws (dropout in training) and one in an autocast region.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        given = kwargs or {}
        if func in _PACKED or (func in _STEPS and _is_packed(args, given)):
            raise UnsupportedError(
                "packed sequences (pack_padded_sequence) have sizes that depend on data; give the "
                "recurrent layer the padded tensor, and select the steps of each length after it"
            )
        if func not in _STEPS:
            return func(*args, **given)
        call = _Call(**dict(zip(_PARAMETERS, args, strict=False)), **given)
        if not call.is_plain():
            return func(*args, **given)
        with self:
            return call.computed(_STEPS[func])


@dataclass(frozen=True, slots=True)
class _Call:
    """The arguments of a recurrent operator of torch, by their names."""

    input: torch.Tensor
    hx: torch.Tensor | Sequence[torch.Tensor]
    params: Sequence[torch.Tensor]
    has_biases: bool
    num_layers: int
    dropout: float
    train: bool
    bidirectional: bool
    batch_first: bool

    def is_plain(self) -> bool:
        """False for what torch unrolls: dropout in training, and autocast."""
        draws = self.train and self.dropout > 0 and self.num_layers > 1
        return not (draws or torch.is_autocast_enabled(self.input.device.type))

    def computed(self, step: Step) -> State:
        """All layers, each on the results of the one before it."""
        x = self.input.transpose(0, 1) if self.batch_first else self.input
        if x.shape[0] == 0:
            raise ValueError("Expected sequence length to be larger than 0 in RNN")  # as torch's
        initial = (self.hx,) if isinstance(self.hx, torch.Tensor) else tuple(self.hx)
        weights, last = self._weights(), []
        directions = (False, True) if self.bidirectional else (False,)
        for layer in range(self.num_layers):
            outputs = []
            for number, reverse in enumerate(directions):
                first = tuple(h[layer * len(directions) + number] for h in initial)
                *state, output = _layer(step, x, first, next(weights), reverse)
                outputs.append(output)
                last.append(state)
            x = torch.cat(outputs, -1) if self.bidirectional else outputs[0]
        x = x.transpose(0, 1) if self.batch_first else x
        return x, *(torch.stack(given) for given in zip(*last, strict=True))

    def _weights(self) -> Iterator["_Weights"]:
        """Those of each layer and direction, in order."""
        count = len(self.params) // (self.num_layers * (2 if self.bidirectional else 1))
        for start in range(0, len(self.params), count):
            own = list(self.params[start : start + count])
            biases = own[2:4] if self.has_biases else [None, None]
            yield _Weights(own[0], own[1], *biases, *own[4 if self.has_biases else 2 :])


@dataclass(frozen=True, slots=True)
class _Weights:
    """Of one direction of a layer: products with the input and with the state, and projection."""

    of_input: torch.Tensor
    of_state: torch.Tensor
    input_bias: torch.Tensor | None
    state_bias: torch.Tensor | None
    projection: torch.Tensor | None = None


def _layer(
    step: Step, x: torch.Tensor, first: State, weights: _Weights, reverse: bool
) -> tuple[torch.Tensor, ...]:
    """The last state of one direction, and the outputs of all steps."""
    steps = F.linear(x, weights.of_input, weights.input_bias)
    if reverse:
        steps = steps.flip(0)
    used = (weights.of_state, weights.state_bias, weights.projection)
    around = tuple(one for one in used if one is not None)

    def body(*given: torch.Tensor) -> State:
        *state, at, product = given[: len(first) + 2]
        rest = iter(given[len(first) + 2 :])
        bias, projection = (None if one is None else next(rest) for one in used[1:])
        new = step(*state, at, F.linear(state[0], product, bias), projection)
        return *new, new[0].clone()

    *last, outputs = SCAN(body, list(first), [steps], around)
    return *last, outputs.flip(0) if reverse else outputs


def _lstm(
    h: torch.Tensor,
    c: torch.Tensor,
    of_input: torch.Tensor,
    of_state: torch.Tensor,
    projection: torch.Tensor | None,
) -> State:
    enter, forget, new, leave = (of_state + of_input).chunk(4, -1)
    c = forget.sigmoid() * c + enter.sigmoid() * new.tanh()
    h = leave.sigmoid() * c.tanh()
    return h if projection is None else F.linear(h, projection), c


def _gru(
    h: torch.Tensor, of_input: torch.Tensor, of_state: torch.Tensor, projection: None
) -> State:
    inputs, states = of_input.chunk(3, -1), of_state.chunk(3, -1)
    reset, keep = ((a + b).sigmoid() for a, b in zip(inputs[:2], states[:2], strict=True))
    new = (inputs[2] + states[2] * reset).tanh()
    return ((h - new) * keep + new,)


def _rnn_tanh(
    h: torch.Tensor, of_input: torch.Tensor, of_state: torch.Tensor, projection: None
) -> State:
    return ((of_state + of_input).tanh(),)


def _rnn_relu(
    h: torch.Tensor, of_input: torch.Tensor, of_state: torch.Tensor, projection: None
) -> State:
    return ((of_state + of_input).relu(),)


def _is_packed(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """True for the form that takes the sizes of batches; its fourth argument is a list."""
    return "batch_sizes" in kwargs or (len(args) > 3 and not isinstance(args[3], bool))


_STEPS: Mapping[Any, Step] = {
    **dict.fromkeys((torch.lstm, torch.ops.aten.lstm.input), _lstm),
    **dict.fromkeys((torch.gru, torch.ops.aten.gru.input), _gru),
    **dict.fromkeys((torch.rnn_tanh, torch.ops.aten.rnn_tanh.input), _rnn_tanh),
    **dict.fromkeys((torch.rnn_relu, torch.ops.aten.rnn_relu.input), _rnn_relu),
}
_PACKED = frozenset(
    {
        torch._pack_padded_sequence,
        torch.ops.aten._pack_padded_sequence.default,
        *(getattr(torch.ops.aten, kind).data for kind in ("lstm", "gru", "rnn_tanh", "rnn_relu")),
    }
)


def is_recurrent(function: Any) -> bool:
    """True for what ``RecurrentLoops`` replaces or refuses."""
    return function in _STEPS or function in _PACKED
