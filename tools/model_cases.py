"""Whole models to measure, with random weights: encoders, decoders, images, recommendations.

``CASES`` maps names to functions that make a module and its arguments on the host, in float32;
``CNN_CASES`` are those whose peers are measured in channels-last.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import transformers
from torch import nn
from transformers.models.whisper.modeling_whisper import WhisperEncoder

from aotpack.ir.ops.quantization import read_quantization
from aotpack.trace.host.copies import HostCopies
from aotpack.trace.quantize.layers import quantize
from tools.attention_models import SpatialTransformer
from tools.cnn_models import CNNS, IMAGE, UNetBlock, as_trained, unet_inputs
from tools.decoder_models import LLAMA_1B, LLAMA_8B_LAYERS, QWEN3, Decoder, DecoderSizes

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


def swin(batch: int) -> Case:
    """Swin-T."""
    return Part(transformers.SwinModel(transformers.SwinConfig())), (torch.randn(batch, *IMAGE),)


def clip_image(batch: int) -> Case:
    """The size of the images' encoder of CLIP-L/14."""
    config = transformers.CLIPVisionConfig(
        hidden_size=1024,
        intermediate_size=4096,
        num_hidden_layers=24,
        num_attention_heads=16,
        patch_size=14,
    )
    model = transformers.CLIPVisionModel(_with_sdpa(config))
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


# --- one token for each sequence, with a static cache


def decode(sizes: DecoderSizes, batch: int) -> Case:
    return Decoder(sizes, batch), (_tokens(batch, 1), torch.tensor([1000]))


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


class Recurrent(nn.Module):
    """Layers of LSTM or GRU over a whole sequence; gives the outputs of all steps."""

    def __init__(self, kind: type[nn.RNNBase], hidden: int, layers: int) -> None:
        super().__init__()
        self.layers = kind(hidden, hidden, layers)

    def forward(self, steps: torch.Tensor) -> torch.Tensor:
        return self.layers(steps)[0]  # type: ignore[no-any-return]


def recurrent(kind: type[nn.RNNBase], steps: int, batch: int) -> Case:
    return Recurrent(kind, 256, 6), (torch.randn(steps, batch, 256),)


def cnn(name: str, batch: int) -> Case:
    return as_trained(CNNS[name]()), (torch.randn(batch, *IMAGE),)


def sdxl_attention(batch: int) -> Case:
    """As in SDXL's UNet at 32x32: two transformer blocks, 77 tokens of text."""
    args = (torch.randn(batch, 1280, 32, 32), torch.randn(batch, 77, 2048))
    return SpatialTransformer(1280, 2048, 2), args


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
    "llama_1b_decode": lambda: decode(LLAMA_1B, 1),
    "qwen3_decode_1": lambda: decode(QWEN3, 1),
    "qwen3_decode_8": lambda: decode(QWEN3, 8),
    "qwen3_decode_32": lambda: decode(QWEN3, 32),
    "llama_8b_layers_decode_1": lambda: decode(LLAMA_8B_LAYERS, 1),
    "llama_8b_layers_decode_8": lambda: decode(LLAMA_8B_LAYERS, 8),
    "llama_8b_layers_decode_32": lambda: decode(LLAMA_8B_LAYERS, 32),
    "swin_t_8": lambda: swin(8),
    "clip_l_8": lambda: clip_image(8),
    "sdxl_attention_2": lambda: sdxl_attention(2),
    "lstm_512x10": lambda: recurrent(nn.LSTM, 512, 10),
    "gru_512x10": lambda: recurrent(nn.GRU, 512, 10),
}
_OF_CODES = {"llama_1b_decode": LLAMA_1B, "llama_8b_layers_decode": LLAMA_8B_LAYERS}
_CODES = ("int8", "fp8", "int4")
QUANTIZED = {f"{name}_{kind}": kind for name in _OF_CODES for kind in _CODES}
"""Those whose weights are codes, as ``--quantize`` makes them."""
OTHER_CASES |= {
    f"{name}_{kind}": partial(decode, config, 1)
    for name, config in _OF_CODES.items()
    for kind in _CODES
}
CASES = CNN_CASES | OTHER_CASES


def made(name: str, dtype: torch.dtype) -> Case:
    """The same module and arguments in every process, for inference."""
    torch.manual_seed(0)
    module, args = CASES[name]()
    cast = tuple(arg.to(dtype) if arg.is_floating_point() else arg for arg in args)
    module = module.eval().to(dtype)
    if name in QUANTIZED:
        kind = read_quantization(QUANTIZED[name])
        quantize({"": (module, (cast, {}))}, kind, name, HostCopies())
    return module, cast
