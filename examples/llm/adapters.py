"""A small Llama and several adapters in one wheel: each sequence of a batch names its own.

aotpack examples/llm/adapters.py -o dist --target cpu

Adapters have the names and shapes that PEFT gives them, so that `adapter_model.safetensors` of a
training replaces one of them: `model.bind_weights("french/adapter_model.safetensors",
adapter="french")`. Their factors are read from `adapter_config.json` beside it.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from decoder import Decoder
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from aotpack import Method


class Chosen:
    """The number of the adapter of each row of the call that runs; 0 is none."""

    rows: torch.Tensor | None = None

    @contextmanager
    def as_rows(self, rows: torch.Tensor) -> Iterator[None]:
        self.rows = rows
        try:
            yield
        finally:
            self.rows = None


class Adapted(nn.Module):
    """A linear layer and what the adapter of each row adds to it."""

    def __init__(self, layer: nn.Linear, chosen: Chosen, names: list[str], rank: int) -> None:
        super().__init__()
        self.base_layer, self.chosen = layer, chosen
        inputs, outputs, dtype = layer.in_features, layer.out_features, layer.weight.dtype
        plain = {"bias": False, "dtype": dtype}
        self.lora_A = nn.ModuleDict({name: nn.Linear(inputs, rank, **plain) for name in names})
        self.lora_B = nn.ModuleDict({name: nn.Linear(rank, outputs, **plain) for name in names})
        self.scaling = dict.fromkeys(names, 1.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``x`` is (rows, tokens, inputs). A package stacks adapters once, when they are bound."""
        down = torch.stack([one.weight for one in self.lora_A.values()])
        up = torch.stack([one.weight * self.scaling[name] for name, one in self.lora_B.items()])
        rows = self.chosen.rows
        assert rows is not None
        place = (rows - 1).clamp(min=0)
        added = (x @ down[place].mT) @ up[place].mT
        return self.base_layer(x) + torch.where((rows > 0)[:, None, None], added, 0)


class AdaptedDecoder(Decoder):
    """The methods of a decoder, with the adapter of each row as an input."""

    def __init__(self, model: PreTrainedModel, names: list[str], rank: int, length: int) -> None:
        chosen = Chosen()
        for layer in model.model.layers:
            for part in "q_proj", "v_proj":
                old = getattr(layer.self_attn, part)
                setattr(layer.self_attn, part, Adapted(old, chosen, names, rank))
        super().__init__(model, slots=4, length=length, chunk=16)
        self.chosen = chosen

    def prefill(
        self, ids: torch.Tensor, slot: torch.Tensor, start: torch.Tensor, adapter: torch.Tensor
    ) -> torch.Tensor:
        """Add a chunk of a prompt to one slot; the likeliest token that follows."""
        with self.chosen.as_rows(adapter):
            return self.logits(self.hidden(ids, start, slot)[:, -1]).argmax(-1)

    def decode(
        self, ids: torch.Tensor, starts: torch.Tensor, adapters: torch.Tensor
    ) -> torch.Tensor:
        """Add one token to each slot; the likeliest tokens that follow."""
        with self.chosen.as_rows(adapters):
            return self.logits(self.hidden(ids[:, None], starts, None)[:, 0]).argmax(-1)


torch.manual_seed(0)
name = "tiny_adapters"
names = ["french", "german"]
config = LlamaConfig(
    vocab_size=256,
    hidden_size=64,
    intermediate_size=128,
    num_hidden_layers=1,
    num_attention_heads=4,
    num_key_value_heads=2,
    initializer_range=0.2,
)
decoder = AdaptedDecoder(LlamaForCausalLM(config).eval(), names, rank=4, length=64)
tokens = torch.export.Dim("tokens", min=1, max=16)
one, all_slots = torch.ones(1, dtype=torch.int64), torch.ones(4, dtype=torch.int64)
methods = {
    "prefill": Method(
        decoder.prefill,
        (torch.arange(1, 6)[None], one, 0 * one, one),
        dynamic_shapes={"ids": {1: tokens}, "slot": None, "start": None, "adapter": None},
    ),
    "decode": Method(decoder.decode, (all_slots, 0 * all_slots, all_slots)),
}
