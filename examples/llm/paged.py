"""A causal language model as methods over a cache of pages: which ones, a block table tells.

A page holds some positions of one sequence, for all heads of a layer. A row of a table names the
pages of a sequence in the order of its positions, so sequences of any lengths share the memory of
one pool, and a call takes as many of them as there are.
"""

from collections.abc import Mapping

import torch
from decoder import choices
from sampling import KEYS, sample
from torch import nn
from transformers import PreTrainedModel

from aotpack import Method


class Pages:
    """What transformers' attention sees of the pool in one call."""

    def __init__(self, pool: "PagedDecoder", tables: torch.Tensor, positions: torch.Tensor) -> None:
        self.pool, self.tables = pool, tables
        self.pages = tables.gather(1, positions // pool.page)
        self.places = positions % pool.page

    def update(
        self, keys: torch.Tensor, values: torch.Tensor, layer: int, *_: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return self._put(f"keys_{layer}", keys), self._put(f"values_{layer}", values)

    def _put(self, name: str, new: torch.Tensor) -> torch.Tensor:
        """Write the new positions, (rows, heads, tokens, width), and return all of the rows."""
        store: torch.Tensor = getattr(self.pool, name)
        store[self.pages, self.places] = new.transpose(1, 2)
        return store[self.tables].flatten(1, 2).transpose(1, 2)


class PagedDecoder(nn.Module):
    """New tokens of some sequences and the tables of their pages -> the next token of each."""

    def __init__(self, model: PreTrainedModel, pages: int, page: int) -> None:
        super().__init__()
        self.model, self.page = model, page
        config = model.config
        width = getattr(config, "head_dim", None)
        width = width or config.hidden_size // config.num_attention_heads
        shape = pages, page, config.num_key_value_heads, width
        for layer in range(config.num_hidden_layers):
            for part in "keys", "values":
                self.register_buffer(f"{part}_{layer}", torch.zeros(shape, dtype=model.dtype))

    def logits(self, ids: torch.Tensor, tables: torch.Tensor, starts: torch.Tensor) -> torch.Tensor:
        """Run ``ids``, (rows, tokens), that stand at ``starts`` and behind."""
        positions = starts[:, None] + torch.arange(ids.shape[1])
        seen = torch.arange(tables.shape[1] * self.page) <= positions[:, :, None]
        hidden = self.model.model(
            input_ids=ids,
            position_ids=positions,
            attention_mask=seen[:, None],
            past_key_values=Pages(self, tables, positions),
        ).last_hidden_state
        return self.model.lm_head(hidden).float()

    def prefill(
        self,
        ids: torch.Tensor,
        tables: torch.Tensor,
        starts: torch.Tensor,
        choice: Mapping[str, torch.Tensor],
    ) -> torch.Tensor:
        """Add a chunk of one prompt, (1, tokens); return the token that follows."""
        logits = self.logits(ids, tables, starts)[:, -1]
        return sample(logits, starts + ids.shape[1], **choice)

    def decode(
        self,
        ids: torch.Tensor,
        tables: torch.Tensor,
        starts: torch.Tensor,
        choice: Mapping[str, torch.Tensor],
    ) -> torch.Tensor:
        """Add one token to each row; return the tokens that follow them."""
        return sample(self.logits(ids[:, None], tables, starts)[:, 0], starts + 1, **choice)

    def check(self, ids: torch.Tensor, tables: torch.Tensor, starts: torch.Tensor) -> torch.Tensor:
        """Add the last token of one sequence and a draft; return what follows each, greedily.

        The draft is right as far as it repeats the result. What is written for the rest of it is
        overwritten before it is read.
        """
        return self.logits(ids, tables, starts)[0].argmax(-1)


def methods(
    model: PreTrainedModel, pages: int, page: int, length: int, rows: int, chunk: int
) -> dict[str, Method]:
    """Prefill in chunks, decode of up to ``rows`` sequences, and check of drafts, over one pool.

    A sequence has at most ``length`` positions.
    """
    decoder = PagedDecoder(model.eval(), pages, page)
    row, token, block = (
        torch.export.Dim(name, min=1, max=most)
        for name, most in (("batch", rows), ("tokens", chunk), ("blocks", -(-length // page)))
    )
    ids, tables = torch.arange(1, 4)[None], torch.arange(6).reshape(3, 2)
    start, starts = torch.zeros(1, dtype=torch.int64), torch.tensor([0, page, 1])
    places = {"ids": {1: token}, "tables": {1: block}, "starts": None}
    shapes = {**places, "choice": dict.fromkeys(KEYS)}
    by_row = {
        "ids": {0: row},
        "tables": {0: row, 1: block},
        "starts": {0: row},
        "choice": {key: {0: row} for key in KEYS},
    }
    one, each = (ids, tables[:1], start), (ids[0], tables, starts)
    return {
        "prefill": Method(decoder.prefill, (*one, choices(1)), dynamic_shapes=shapes),
        "decode": Method(decoder.decode, (*each, choices(3)), dynamic_shapes=by_row),
        "check": Method(decoder.check, one, dynamic_shapes=places),
    }
