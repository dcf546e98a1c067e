"""Whole models to measure, with random weights: encoders, decoders, images, recommendations.

``CASES`` maps names to functions that make a module and its arguments on the host, in float32;
``CNN_CASES`` are those whose peers are measured in channels-last.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import transformers
from torch import nn
from torch.nn import functional as F
from transformers.models.whisper.modeling_whisper import WhisperEncoder

from tools.cnn_models import CNNS, IMAGE, UNetBlock, as_trained, unet_inputs

Case = tuple[nn.Module, tuple[torch.Tensor, ...]]


class Part(nn.Module):
    """A model of transformers that gives one tensor of its output."""

    def __init__(self, model: nn.Module, wanted: str = "last_hidden_state", **fixed: Any) -> None:
        super().__init__()
        self.model, self.wanted, self.fixed = model, wanted, fixed

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        return getattr(self.model(given, **self.fixed), self.wanted)  # type: ignore[no-any-return]


def _tokens(batch: int, sequence: int) -> torch.Tensor:
    return torch.randint(0, 30000, (batch, sequence))


def _with_sdpa(config: Any) -> Any:
    config._attn_implementation = "sdpa"
    return config


def bert(batch: int, sequence: int) -> Case:
    config = _with_sdpa(transformers.BertConfig())
    model = transformers.BertModel(config, add_pooling_layer=False)
    return Part(model), (_tokens(batch, sequence),)


def gpt2(batch: int, sequence: int) -> Case:
    model = transformers.GPT2Model(_with_sdpa(transformers.GPT2Config()))
    return Part(model, use_cache=False), (_tokens(batch, sequence),)


def vit(batch: int) -> Case:
    """ViT-B/16."""
    model = transformers.ViTModel(_with_sdpa(transformers.ViTConfig()), add_pooling_layer=False)
    return Part(model), (torch.randn(batch, *IMAGE),)


def t5_encoder(batch: int, sequence: int) -> Case:
    """The size of T5-base."""
    config = transformers.T5Config(d_model=768, d_ff=3072, num_layers=12, num_heads=12)
    return Part(transformers.T5EncoderModel(config)), (_tokens(batch, sequence),)


def deberta(batch: int, sequence: int) -> Case:
    """The size of DeBERTa-v3-base: attention by contents and by relative positions."""
    config = transformers.DebertaV2Config(
        vocab_size=128100,
        hidden_size=768,
        num_hidden_layers=12,
        num_attention_heads=12,
        intermediate_size=3072,
        type_vocab_size=0,
        relative_attention=True,
        position_buckets=256,
        share_att_key=True,
        pos_att_type=["p2c", "c2p"],
        position_biased_input=False,
        norm_rel_ebd="layer_norm",
        layer_norm_eps=1e-7,
    )
    return Part(transformers.DebertaV2Model(config)), (_tokens(batch, sequence),)


def whisper_encoder(batch: int) -> Case:
    """The size of Whisper-base; 30 seconds of sound."""
    config = transformers.WhisperConfig(
        d_model=512, encoder_layers=6, encoder_attention_heads=8, encoder_ffn_dim=2048
    )
    return Part(WhisperEncoder(_with_sdpa(config))), (torch.randn(batch, 80, 3000),)


def mixtral(batch: int, sequence: int) -> Case:
    """Four layers of a small mixture of 8 experts."""
    config = transformers.MixtralConfig(
        hidden_size=1024,
        intermediate_size=3584,
        num_hidden_layers=4,
        num_attention_heads=16,
        num_key_value_heads=4,
        num_local_experts=8,
        vocab_size=32000,
    )
    model = transformers.MixtralModel(_with_sdpa(config))
    return Part(model, use_cache=False), (_tokens(batch, sequence),)


def llama(batch: int, sequence: int) -> Case:
    """The size of Llama-3.2-1B, without a cache; logits of the last token."""
    config = transformers.LlamaConfig(
        hidden_size=2048,
        intermediate_size=8192,
        num_hidden_layers=16,
        num_attention_heads=32,
        num_key_value_heads=8,
        vocab_size=128256,
    )
    model = transformers.LlamaForCausalLM(_with_sdpa(config))
    part = Part(model, "logits", use_cache=False, logits_to_keep=1)
    return part, (_tokens(batch, sequence),)


# --- one token at a time, with a static cache


class RootMeanSquareNorm(nn.Module):
    """In float32, as decoders have it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-5)
        return (wide * scale).to(x.dtype) * self.weight


class DecoderLayer(nn.Module):
    """Attention of one token to a cache of its predecessors, and a gated linear unit."""

    def __init__(self, batch: int, width: int, heads: int, shared: int, wide: int, most: int):
        super().__init__()
        self.head = width // heads
        self.norm, self.second_norm = RootMeanSquareNorm(width), RootMeanSquareNorm(width)
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, shared * self.head, bias=False)
        self.value = nn.Linear(width, shared * self.head, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(width, wide, bias=False)
        self.up = nn.Linear(width, wide, bias=False)
        self.down = nn.Linear(wide, width, bias=False)
        self.register_buffer("keys", torch.zeros(batch, shared, most, self.head))
        self.register_buffer("values", torch.zeros(batch, shared, most, self.head))

    def forward(
        self, x: torch.Tensor, at: torch.Tensor, turn: tuple[torch.Tensor, ...], mask: torch.Tensor
    ) -> torch.Tensor:
        normed = self.norm(x)
        query, key, value = (
            linear(normed).unflatten(-1, (-1, self.head)).transpose(1, 2)
            for linear in (self.query, self.key, self.value)
        )
        self.keys.index_copy_(2, at, _turned(key, turn))  # type: ignore[operator]
        self.values.index_copy_(2, at, value)  # type: ignore[operator]
        mixed = F.scaled_dot_product_attention(
            _turned(query, turn), self.keys, self.values, attn_mask=mask, enable_gqa=True
        )
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        normed = self.second_norm(x)
        return x + self.down(F.silu(self.gate(normed)) * self.up(normed))


def _turned(x: torch.Tensor, turn: tuple[torch.Tensor, ...]) -> torch.Tensor:
    """Rotary positions."""
    cosine, sine = turn
    low, high = x.chunk(2, -1)
    return x * cosine + torch.cat((-high, low), -1) * sine


class Decoder(nn.Module):
    """The size of Llama-3.2-1B; the cache is part of the module."""

    def __init__(self, batch: int, most: int = 2048) -> None:
        super().__init__()
        width, self.most = 2048, most
        self.embedding = nn.Embedding(128256, width)
        self.layers = nn.ModuleList(
            DecoderLayer(batch, width, 32, 8, 8192, most) for _ in range(16)
        )
        self.norm = RootMeanSquareNorm(width)
        rates = 500000.0 ** (-torch.arange(0, 64, 2) / 64)
        self.register_buffer("rates", rates)

    def forward(self, token: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        x = self.embedding(token)
        angles = at.float()[:, None] * self.rates.float()  # type: ignore[operator]
        angles = torch.cat((angles, angles), -1)
        turn = (angles.cos().to(x.dtype), angles.sin().to(x.dtype))
        mask = (torch.arange(self.most, device=at.device) <= at[:, None])[None, None]
        for layer in self.layers:
            x = layer(x, at, turn, mask)
        return F.linear(self.norm(x[:, -1]), self.embedding.weight)


def decode(batch: int) -> Case:
    return Decoder(batch), (_tokens(batch, 1), torch.tensor([1000]))


# --- recommendations, images


class Recommender(nn.Module):
    """A model in the manner of DLRM: 26 tables, products of all pairs, two towers."""

    def __init__(self) -> None:
        super().__init__()
        tables = (nn.EmbeddingBag(100_000, 64, mode="sum") for _ in range(26))
        self.tables = nn.ModuleList(tables)
        self.dense = nn.Sequential(nn.Linear(13, 512), nn.ReLU(), nn.Linear(512, 64), nn.ReLU())
        pairs = 27 * 26 // 2
        self.top = nn.Sequential(
            nn.Linear(pairs + 64, 1024), nn.ReLU(), nn.Linear(1024, 256), nn.ReLU()
        )
        self.last = nn.Linear(256, 1)
        self.register_buffer("pairs", torch.tril_indices(27, 27, -1))

    def forward(self, numbers: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
        dense = self.dense(numbers)
        rows = [table(items[:, place]) for place, table in enumerate(self.tables)]
        stacked = torch.stack([dense, *rows], 1)
        first, second = self.pairs  # type: ignore[misc]
        products = torch.bmm(stacked, stacked.transpose(1, 2))[:, first, second]
        return torch.sigmoid(self.last(self.top(torch.cat((dense, products), 1))))


def dlrm(batch: int) -> Case:
    items = torch.randint(0, 100_000, (batch, 26, 8))
    return Recommender(), (torch.randn(batch, 13), items)


def cnn(name: str, batch: int) -> Case:
    return as_trained(CNNS[name]()), (torch.randn(batch, *IMAGE),)


def unet(batch: int) -> Case:
    return UNetBlock(), unet_inputs(batch)


CNN_CASES: dict[str, Callable[[], Case]] = {
    "resnet50_1": lambda: cnn("resnet50", 1),
    "resnet50_32": lambda: cnn("resnet50", 32),
    "convnext_t_1": lambda: cnn("convnext_t", 1),
    "convnext_t_32": lambda: cnn("convnext_t", 32),
    "efficientnet_b0_1": lambda: cnn("efficientnet_b0", 1),
    "efficientnet_b0_8": lambda: cnn("efficientnet_b0", 8),
    "mobilenet_v3_large_1": lambda: cnn("mobilenet_v3_large", 1),
    "densenet121_8": lambda: cnn("densenet121", 8),
    "vgg16_8": lambda: cnn("vgg16", 8),
    "unet_1": lambda: unet(1),
    "unet_4": lambda: unet(4),
}
OTHER_CASES: dict[str, Callable[[], Case]] = {
    "bert_1x128": lambda: bert(1, 128),
    "bert_32x128": lambda: bert(32, 128),
    "vit_1": lambda: vit(1),
    "vit_32": lambda: vit(32),
    "gpt2_1x512": lambda: gpt2(1, 512),
    "t5_encoder_8x128": lambda: t5_encoder(8, 128),
    "deberta_8x128": lambda: deberta(8, 128),
    "whisper_encoder_1": lambda: whisper_encoder(1),
    "mixtral_1x128": lambda: mixtral(1, 128),
    "dlrm_2048": lambda: dlrm(2048),
    "llama_1b_1_token": lambda: llama(1, 1),
    "llama_1b_prefill_512": lambda: llama(1, 512),
    "llama_1b_decode": lambda: decode(1),
}
CASES = CNN_CASES | OTHER_CASES


def made(name: str, dtype: torch.dtype) -> Case:
    """The same module and arguments in every process, for inference."""
    torch.manual_seed(0)
    module, args = CASES[name]()
    cast = tuple(arg.to(dtype) if arg.is_floating_point() else arg for arg in args)
    return module.eval().to(dtype), cast
