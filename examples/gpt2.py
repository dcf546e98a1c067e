"""GPT-2 small in bfloat16 with random weights; one static sequence of 512 tokens.

aotpack examples/gpt2.py -o dist --target sm_90
"""

import torch
from torch import nn
from transformers import GPT2Config, GPT2Model


class Decoder(nn.Module):
    """Token ids in, hidden states of the last layer out."""

    def __init__(self, config: GPT2Config) -> None:
        super().__init__()
        self.gpt2 = GPT2Model(config)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.gpt2(input_ids=ids, use_cache=False).last_hidden_state


torch.manual_seed(0)
name = "gpt2"
config = GPT2Config(use_cache=False, attn_implementation="sdpa")
model = Decoder(config).to(torch.bfloat16).eval()
example_inputs = (torch.randint(0, config.vocab_size, (1, 512)),)
