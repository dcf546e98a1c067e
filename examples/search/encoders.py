"""An encoder that embeds texts and one that scores pairs of texts, small, with random weights.

aotpack examples/search/encoders.py -o dist --target cpu

Both are methods of one wheel. Texts of unequal lengths are padded behind; a mask tells how far each
goes. `search.py` finds texts with it, without torch.
"""

import torch
from torch import nn
from transformers import BertConfig, BertForSequenceClassification, BertModel

from aotpack import Method


class Embedder(nn.Module):
    """Token ids and mask, (texts, tokens) -> the mean of each text's states, of length 1."""

    def __init__(self, bert: BertModel) -> None:
        super().__init__()
        self.bert = bert

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        states = self.bert(ids, attention_mask=mask).last_hidden_state
        weights = mask[:, :, None].to(states.dtype)
        return nn.functional.normalize((states * weights).sum(1) / weights.sum(1), dim=-1)


class Scorer(nn.Module):
    """Pairs as token ids, mask and which text each token is of -> a score for each pair."""

    def __init__(self, bert: BertForSequenceClassification) -> None:
        super().__init__()
        self.bert = bert

    def forward(self, ids: torch.Tensor, mask: torch.Tensor, kinds: torch.Tensor) -> torch.Tensor:
        logits = self.bert(ids, attention_mask=mask, token_type_ids=kinds).logits
        return logits[:, 0].sigmoid()


torch.manual_seed(0)
name = "tiny_search"
config = BertConfig(
    vocab_size=260,
    hidden_size=64,
    intermediate_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    max_position_embeddings=256,
    num_labels=1,
    initializer_range=0.2,
)
embedder = Embedder(BertModel(config, add_pooling_layer=False).eval())
scorer = Scorer(BertForSequenceClassification(config).eval())
texts = torch.export.Dim("texts", min=1, max=64)
tokens = torch.export.Dim("tokens", min=1, max=256)
ids = torch.arange(15).reshape(3, 5)
mask = (ids % 5 < torch.tensor([[5], [2], [3]])).long()
sizes = {0: texts, 1: tokens}
methods = {
    "embed": Method(embedder, (ids, mask), dynamic_shapes=(sizes, sizes)),
    "score": Method(scorer, (ids, mask, mask * 0), dynamic_shapes=(sizes, sizes, sizes)),
}
