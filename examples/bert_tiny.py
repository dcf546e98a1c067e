"""A two-layer BERT in float32 that takes an attention mask; small enough for tests.

aotpack examples/bert_tiny.py -o dist --target native
"""

import torch
from torch import nn
from torch.export import Dim
from transformers import BertConfig, BertModel


class MaskedEncoder(nn.Module):
    """Token ids and a mask of the real tokens in, hidden states of the last layer out."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.bert = BertModel(config, add_pooling_layer=False)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self.bert(input_ids=ids, attention_mask=mask).last_hidden_state


torch.manual_seed(0)
name = "bert_tiny"
config = BertConfig(
    vocab_size=512,
    hidden_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=256,
    max_position_embeddings=128,
    attn_implementation="sdpa",
)
model = MaskedEncoder(config).eval()
lengths = torch.tensor([[9], [12], [5]])
example_inputs = {
    "ids": torch.randint(0, config.vocab_size, (3, 12)),
    "mask": (torch.arange(12) < lengths).long(),
}
axes = {0: Dim("batch", min=1, max=64), 1: Dim("seq", min=1, max=128)}
dynamic_shapes = {"ids": axes, "mask": axes}
