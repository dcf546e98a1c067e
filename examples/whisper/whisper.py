"""A small Whisper with random weights: the encoder fills the cross-attention's cache, once.

aotpack examples/whisper/whisper.py -o dist --target cpu

`encode` writes keys and values of the sound for each layer of the decoder, `decode` adds one token.
"""

from typing import Any

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import WhisperConfig, WhisperForConditionalGeneration

from aotpack import Method


class Transcriber(nn.Module):
    """One sound at a time, over caches of fixed length."""

    def __init__(self, whisper: WhisperForConditionalGeneration) -> None:
        super().__init__()
        self.whisper, self.config = whisper, whisper.config
        lengths = {
            "own": self.config.max_target_positions,
            "sound": self.config.max_source_positions,
        }
        width = self.config.d_model // self.config.decoder_attention_heads
        for layer in range(self.config.decoder_layers):
            for kind, length in lengths.items():
                shape = 1, self.config.decoder_attention_heads, length, width
                for part in "keys", "values":
                    self.register_buffer(f"{kind}_{part}_{layer}", torch.zeros(shape))

    def heads(self, x: torch.Tensor) -> torch.Tensor:
        """(1, tokens, width) -> (1, heads, tokens, width of a head)."""
        return x.unflatten(-1, (self.config.decoder_attention_heads, -1)).transpose(1, 2)

    def encode(self, features: torch.Tensor) -> torch.Tensor:
        """Mel features, (1, bins, frames) -> the encoder's result, which the cache has then."""
        hidden: torch.Tensor = self.whisper.model.encoder(features).last_hidden_state
        for number, layer in enumerate(self.whisper.model.decoder.layers):
            attention = layer.encoder_attn
            getattr(self, f"sound_keys_{number}").copy_(self.heads(attention.k_proj(hidden)))
            getattr(self, f"sound_values_{number}").copy_(self.heads(attention.v_proj(hidden)))
        return hidden

    def attend(
        self, attention: Any, x: torch.Tensor, cache: str, number: int, mask: torch.Tensor | None
    ) -> torch.Tensor:
        """The attention of new tokens over one cache."""
        keys, values = (getattr(self, f"{cache}_{part}_{number}") for part in ("keys", "values"))
        found = scaled_dot_product_attention(self.heads(attention.q_proj(x)), keys, values, mask)
        result: torch.Tensor = attention.out_proj(found.transpose(1, 2).flatten(2))
        return result

    def decode(self, token: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        """A token, (1,), at its place, (1,) -> the token that follows, greedily."""
        decoder = self.whisper.model.decoder
        x = decoder.embed_tokens(token[None]) + decoder.embed_positions.weight[place][None]
        seen = (torch.arange(self.config.max_target_positions) <= place)[None]
        for number, layer in enumerate(decoder.layers):
            new = layer.self_attn_layer_norm(x)
            for part, project in (
                ("keys", layer.self_attn.k_proj),
                ("values", layer.self_attn.v_proj),
            ):
                store = getattr(self, f"own_{part}_{number}")
                store.index_copy_(2, place, self.heads(project(new)))
            x = x + self.attend(layer.self_attn, new, "own", number, seen)
            new = layer.encoder_attn_layer_norm(x)
            x = x + self.attend(layer.encoder_attn, new, "sound", number, None)
            x = x + layer.fc2(layer.activation_fn(layer.fc1(layer.final_layer_norm(x))))
        logits = self.whisper.proj_out(decoder.layer_norm(x))
        return logits[0].argmax(-1)


def transcribe(package: Any, features: Any, start: int, count: int) -> list[int]:
    """Tokens of a loaded package; a sound may follow another in the same caches."""
    package.encode(features)
    tokens = [start]
    for place in range(count):
        new = package.decode(torch.tensor(tokens[-1:]), torch.tensor([place]))
        tokens.append(int(new[0]))
    return tokens[1:]


torch.manual_seed(0)
name = "tiny_whisper"
config = WhisperConfig(
    vocab_size=64,
    d_model=32,
    encoder_layers=1,
    decoder_layers=1,
    encoder_attention_heads=2,
    decoder_attention_heads=2,
    encoder_ffn_dim=64,
    decoder_ffn_dim=64,
    num_mel_bins=8,
    max_source_positions=20,
    max_target_positions=16,
    init_std=0.3,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
    decoder_start_token_id=1,
)
model = WhisperForConditionalGeneration(config).eval()
transcriber = Transcriber(model)
methods = {
    "encode": Method(transcriber.encode, (torch.randn(1, 8, 40),)),
    "decode": Method(transcriber.decode, (torch.tensor([1]), torch.tensor([0]))),
}
