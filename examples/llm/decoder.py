"""A causal language model of transformers as methods over one cache: token ids in, token ids out.

The cache has a row for each of ``slots`` sequences, of any lengths. Layers with a sliding window
keep a ring of the last positions, the others all of them.
"""

from collections.abc import Mapping

import torch
from sampling import KEYS, sample
from torch import nn
from transformers import PreTrainedModel

from aotpack import Method


class Cache:
    """What transformers' attention sees of the cache in one call: where keys and values go."""

    def __init__(self, decoder: "Decoder", rows: torch.Tensor | None, places: torch.Tensor) -> None:
        self.decoder, self.rows, self.places = decoder, rows, places

    def update(
        self, keys: torch.Tensor, values: torch.Tensor, layer: int, *_: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return self._put(f"keys_{layer}", keys), self._put(f"values_{layer}", values)

    def _put(self, name: str, new: torch.Tensor) -> torch.Tensor:
        """Write the new positions, (rows, heads, tokens, width), and return all of the rows."""
        store: torch.Tensor = getattr(self.decoder, name)
        rows = torch.arange(len(store), device=store.device) if self.rows is None else self.rows
        store[rows[:, None], :, self.places % store.shape[2]] = new.transpose(1, 2)
        return store if self.rows is None else store[self.rows]


class Decoder(nn.Module):
    """New tokens of some sequences and what was before them -> the next token of each."""

    def __init__(self, model: PreTrainedModel, slots: int, length: int, chunk: int) -> None:
        super().__init__()
        self.model, self.slots, self.length, self.chunk = model, slots, length, chunk
        config = model.config
        self.kinds = getattr(config, "layer_types", None)
        self.kinds = self.kinds or ["full_attention"] * config.num_hidden_layers
        self.window = getattr(config, "sliding_window", None) or length
        width = getattr(config, "head_dim", None)
        width = width or config.hidden_size // config.num_attention_heads
        for layer, kind in enumerate(self.kinds):
            shape = slots, config.num_key_value_heads, self.places(kind), width
            for part in "keys", "values":
                self.register_buffer(f"{part}_{layer}", torch.zeros(shape, dtype=model.dtype))

    def places(self, kind: str) -> int:
        """Positions that a layer keeps: a window's, and those that a chunk adds to it."""
        kept = self.length if kind == "full_attention" else self.window + self.chunk
        return min(self.length, kept)

    def mask(self, kind: str, positions: torch.Tensor) -> torch.Tensor:
        """Which places of the cache each new token sees, (rows, 1, tokens, places)."""
        places = torch.arange(self.places(kind), device=positions.device)
        query = positions[:, None, :, None]
        if kind == "full_attention":  # a place for each position
            return places <= query
        last = positions[:, -1:]
        held = last - (last - places) % len(places)  # the position behind each place
        held = held[:, None, None, :]
        return (held >= 0) & (held <= query) & (held > query - self.window)

    def hidden(
        self, ids: torch.Tensor, starts: torch.Tensor, rows: torch.Tensor | None
    ) -> torch.Tensor:
        """Run the layers on ``ids``, (rows, tokens), that stand at ``starts`` and behind."""
        positions = starts[:, None] + torch.arange(ids.shape[1], device=ids.device)
        masks = {kind: self.mask(kind, positions) for kind in sorted(set(self.kinds))}
        plain = getattr(self.model.config, "layer_types", None) is None
        return self.model.model(
            input_ids=ids,
            position_ids=positions,
            attention_mask=masks["full_attention"] if plain else masks,
            past_key_values=Cache(self, rows, positions),
        ).last_hidden_state

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        logits = self.model.lm_head(hidden).float()
        limit = getattr(self.model.config, "final_logit_softcapping", None)
        return logits if limit is None else torch.tanh(logits / limit) * limit

    def prefill(
        self,
        ids: torch.Tensor,
        slot: torch.Tensor,
        start: torch.Tensor,
        choice: Mapping[str, torch.Tensor],
    ) -> torch.Tensor:
        """Add a chunk of a prompt, (1, tokens), to one slot; return the token that follows."""
        hidden = self.hidden(ids, start, slot)[:, -1]
        return sample(self.logits(hidden), start + ids.shape[1], **choice)

    def decode(
        self, ids: torch.Tensor, starts: torch.Tensor, choice: Mapping[str, torch.Tensor]
    ) -> torch.Tensor:
        """Add one token to each slot; return the tokens that follow.

        A slot without a sequence gives any token, with the position where its next chunk starts:
        what is written there is overwritten before it is read.
        """
        hidden = self.hidden(ids[:, None], starts, None)[:, 0]
        return sample(self.logits(hidden), starts + 1, **choice)

    def check(self, ids: torch.Tensor, slot: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
        """Add the last token of one slot and a draft behind it; return what follows each, greedily.

        The draft is right as far as it repeats the result. What is written for the rest of it is
        overwritten before it is read.
        """
        return self.logits(self.hidden(ids, start, slot)[0]).argmax(-1)


def methods(model: PreTrainedModel, slots: int, length: int, chunk: int) -> dict[str, Method]:
    """Prefill in chunks of up to ``chunk`` tokens, decode, and check of drafts, over one cache."""
    decoder = Decoder(model.eval(), slots, length, chunk)
    tokens = torch.export.Dim("tokens", min=1, max=chunk)
    one, all_slots = torch.zeros(1, dtype=torch.int64), torch.zeros(slots, dtype=torch.int64)
    ids = torch.arange(1, min(chunk, 5) + 1)[None]
    places = {"ids": {1: tokens}, "slot": None, "start": None}
    shapes = {**places, "choice": dict.fromkeys(KEYS)}
    return {
        "prefill": Method(decoder.prefill, (ids, one, one, choices(1)), dynamic_shapes=shapes),
        "decode": Method(decoder.decode, (all_slots + 1, all_slots, choices(slots))),
        "check": Method(decoder.check, (ids, one, one), dynamic_shapes=places),
    }


def choices(rows: int) -> dict[str, torch.Tensor]:
    """Greedy choice for each row."""
    return {
        "temperature": torch.zeros(rows),
        "top_k": torch.zeros(rows, dtype=torch.int64),
        "top_p": torch.ones(rows),
        "seed": torch.zeros(rows, dtype=torch.int64),
    }
