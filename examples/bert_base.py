"""BERT-base in bfloat16 with random weights; dynamic batch and sequence length.

aotpack examples/bert_base.py -o dist --target sm_90
"""

import torch
from torch import nn
from torch.export import Dim
from transformers import BertConfig, BertModel


class Encoder(nn.Module):
    """Token ids in, hidden states of the last layer out."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.bert = BertModel(config, add_pooling_layer=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.bert(input_ids=ids).last_hidden_state


torch.manual_seed(0)
name = "bert_base"
config = BertConfig(attn_implementation="sdpa")
model = Encoder(config).to(torch.bfloat16).eval()
example_inputs = (torch.randint(0, config.vocab_size, (2, 48)),)
dynamic_shapes = {"ids": {0: Dim("batch", min=1, max=64), 1: Dim("seq", min=1, max=512)}}
