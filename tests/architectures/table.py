"""47 architectures of transformers at tiny sizes, with random weights and dynamic dimensions.

Most have one layer; an encoder, a decoder and one whose layers differ have two.

An entry makes a module of positional tensors and names the dimensions of each that are dynamic.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
import transformers
from torch import nn

Sizes = dict[str, int]
VOCABULARY = 99
HIGHEST = {"b": 8, "s": 32}
"""The largest admitted size of each dynamic dimension."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """``make`` builds the model, ``inputs`` its arguments for given sizes.

    ``dynamic`` has, for each argument, the name of the size that each of its dimensions is.
    """

    name: str
    make: Callable[[], nn.Module]
    inputs: Callable[[Sizes], tuple[torch.Tensor, ...]]
    dynamic: tuple[dict[int, str], ...]

    @property
    def sizes(self) -> tuple[str, ...]:
        """The names of the dynamic sizes."""
        return tuple(sorted({name for dims in self.dynamic for name in dims.values()}))


class Packaged(nn.Module):
    """Gives a model its arguments by name and returns the tensors of one field of its result."""

    def __init__(self, model: nn.Module, names: tuple[str, ...], field: str, fixed: dict[str, Any]):
        super().__init__()
        self.model, self.names, self.field, self.fixed = model, names, field, fixed

    def forward(self, *args: torch.Tensor) -> torch.Tensor:
        named = dict(zip(self.names, args, strict=True))
        return getattr(self.model(**named, **self.fixed), self.field)


def _module(
    kind: str, names: tuple[str, ...], field: str, config: Any, **fixed: Any
) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        torch.manual_seed(0)
        model = getattr(transformers, kind)(config())
        return Packaged(model.eval(), names, field, fixed).eval()

    return make


def _ids(sizes: Sizes, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(3, VOCABULARY, (sizes["b"], sizes["s"]), generator=generator)


def _mask(sizes: Sizes) -> torch.Tensor:
    """Each sequence but the first ends earlier."""
    mask = torch.ones(sizes["b"], sizes["s"], dtype=torch.int64)
    for row in range(1, sizes["b"]):
        mask[row, max(1, sizes["s"] - row) :] = 0
    return mask


def _image(size: int) -> Callable[[Sizes], tuple[torch.Tensor, ...]]:
    def inputs(sizes: Sizes) -> tuple[torch.Tensor, ...]:
        generator = torch.Generator().manual_seed(0)
        return (torch.randn(sizes["b"], 3, size, size, generator=generator),)

    return inputs


def _sound(samples: int) -> Callable[[Sizes], tuple[torch.Tensor, ...]]:
    def inputs(sizes: Sizes) -> tuple[torch.Tensor, ...]:
        return (torch.randn(sizes["b"], samples, generator=torch.Generator().manual_seed(0)),)

    return inputs


BS = {0: "b", 1: "s"}
TINY = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
}


def encoder(name: str, kind: str, **options: Any) -> Architecture:
    """Token ids and a padding mask."""

    def config() -> Any:
        return getattr(transformers, f"{kind}Config")(**{**TINY, **options})

    return Architecture(
        name,
        _module(f"{kind}Model", ("input_ids", "attention_mask"), "last_hidden_state", config),
        lambda sizes: (_ids(sizes), _mask(sizes)),
        (BS, BS),
    )


def decoder(name: str, kind: str, **options: Any) -> Architecture:
    """Token ids, causal."""

    def config() -> Any:
        return getattr(transformers, f"{kind}Config")(**{**TINY, **options})

    return Architecture(
        name,
        _module(f"{kind}Model", ("input_ids",), "last_hidden_state", config, use_cache=False),
        lambda sizes: (_ids(sizes),),
        (BS,),
    )


def sequence(name: str, kind: str, **options: Any) -> Architecture:
    """Source and target ids."""

    def config() -> Any:
        return getattr(transformers, f"{kind}Config")(**{"vocab_size": VOCABULARY, **options})

    return Architecture(
        name,
        _module(
            f"{kind}Model",
            ("input_ids", "decoder_input_ids"),
            "last_hidden_state",
            config,
            use_cache=False,
        ),
        lambda sizes: (_ids(sizes), _ids({"b": sizes["b"], "s": 7}, 1)),
        (BS, {0: "b"}),
    )


def vision(
    name: str,
    kind: str,
    *,
    size: int = 32,
    model: str = "Model",
    field: str = "last_hidden_state",
    **options: Any,
) -> Architecture:
    """Images of a fixed size."""

    def config() -> Any:
        return getattr(transformers, f"{kind}Config")(**options)

    return Architecture(
        name, _module(f"{kind}{model}", ("pixel_values",), field, config), _image(size), ({0: "b"},)
    )


VIT = {
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "image_size": 32,
    "patch_size": 8,
}
BART = {
    "d_model": 32,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "max_position_embeddings": 64,
    "pad_token_id": 1,
    "forced_eos_token_id": None,
}
GPT = {
    "vocab_size": VOCABULARY,
    "n_embd": 32,
    "n_layer": 1,
    "n_head": 4,
    "n_positions": 64,
    "bos_token_id": 0,
    "eos_token_id": 0,
}
GQA = {"num_key_value_heads": 2, "pad_token_id": 0}
SOUND = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "conv_dim": (16, 16),
    "conv_stride": (5, 2),
    "conv_kernel": (10, 3),
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
    "num_feat_extract_layers": 2,
}
WHISPER = {
    **BART,
    "vocab_size": VOCABULARY,
    "num_mel_bins": 8,
    "max_source_positions": 16,
    "max_target_positions": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
}


def _whisper_encoder() -> Architecture:
    def make() -> nn.Module:
        torch.manual_seed(0)
        model = transformers.WhisperModel(transformers.WhisperConfig(**WHISPER)).encoder
        return Packaged(model.eval(), ("input_features",), "last_hidden_state", {}).eval()

    def inputs(sizes: Sizes) -> tuple[torch.Tensor, ...]:
        return (torch.randn(sizes["b"], 8, 32, generator=torch.Generator().manual_seed(0)),)

    return Architecture("whisper_encoder", make, inputs, ({0: "b"},))


def _whisper_decoder() -> Architecture:
    def make() -> nn.Module:
        torch.manual_seed(0)
        model = transformers.WhisperModel(transformers.WhisperConfig(**WHISPER)).decoder
        names = ("input_ids", "encoder_hidden_states")
        fixed = {"use_cache": False}
        return Packaged(model.eval(), names, "last_hidden_state", fixed).eval()

    def inputs(sizes: Sizes) -> tuple[torch.Tensor, ...]:
        states = torch.randn(sizes["b"], 16, 32, generator=torch.Generator().manual_seed(0))
        return _ids(sizes), states

    return Architecture("whisper_decoder", make, inputs, (BS, {0: "b"}))


def _clip(part: str, names: tuple[str, ...], options: dict[str, Any]) -> Callable[[], nn.Module]:
    def config() -> Any:
        return getattr(transformers, f"CLIP{part}Config")(**options)

    return _module(f"CLIP{part}Model", names, "last_hidden_state", config)


def _detr() -> Architecture:
    def make() -> nn.Module:
        torch.manual_seed(0)
        backbone = transformers.ResNetConfig(
            embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], out_features=["stage2"]
        )
        config = transformers.DetrConfig(
            use_timm_backbone=False,
            use_pretrained_backbone=False,
            backbone=None,
            backbone_config=backbone,
            num_queries=5,
            **{k: v for k, v in BART.items() if k not in ("forced_eos_token_id", "pad_token_id")},
        )
        model = transformers.DetrModel(config)
        return Packaged(model.eval(), ("pixel_values",), "last_hidden_state", {}).eval()

    return Architecture("detr", make, _image(32), ({0: "b"},))


def _mamba() -> Architecture:
    """Its scan is a loop over positions in Python: torch.export unrolls it, the length is fixed."""
    unrolled = decoder("mamba", "Mamba", state_size=4, expand=2)
    return replace(
        unrolled, inputs=lambda sizes: (_ids({"b": sizes["b"], "s": 6}),), dynamic=({0: "b"},)
    )


ARCHITECTURES: dict[str, Architecture] = {
    architecture.name: architecture
    for architecture in (
        encoder("bert", "Bert", num_hidden_layers=2),
        encoder("roberta", "Roberta", pad_token_id=1),
        encoder("distilbert", "DistilBert", dim=32, hidden_dim=64, n_layers=1, n_heads=4),
        encoder("albert", "Albert", embedding_size=16),
        encoder("electra", "Electra", embedding_size=16),
        encoder(
            "deberta_v2",
            "DebertaV2",
            relative_attention=True,
            position_buckets=8,
            pos_att_type=["p2c", "c2p"],
            share_att_key=True,
            norm_rel_ebd="layer_norm",
        ),
        encoder("mpnet", "MPNet", pad_token_id=1),
        decoder("gpt2", "GPT2", **GPT),
        decoder(
            "gpt_neo",
            "GPTNeo",
            num_hidden_layers=2,
            num_heads=4,
            attention_types=[[["global", "local"], 1]],
            window_size=8,
        ),
        decoder("gpt_neox", "GPTNeoX"),
        decoder("gptj", "GPTJ", **GPT, rotary_dim=4),
        decoder("opt", "OPT", ffn_dim=64, word_embed_proj_dim=32, pad_token_id=1),
        decoder("bloom", "Bloom", n_layer=1, n_head=4),
        decoder("llama", "Llama", **GQA, num_hidden_layers=2),
        decoder("mistral", "Mistral", **GQA, sliding_window=8),
        decoder(
            "mixtral",
            "Mixtral",
            **GQA,
            num_local_experts=4,
            num_experts_per_tok=2,
            experts_implementation="batched_mm",
        ),
        decoder("qwen2", "Qwen2", **GQA),
        decoder("qwen3", "Qwen3", **GQA, head_dim=8),
        decoder("gemma", "Gemma", **GQA, head_dim=8),
        decoder("gemma2", "Gemma2", **GQA, head_dim=8, sliding_window=8, num_hidden_layers=2),
        decoder("phi", "Phi"),
        decoder("phi3", "Phi3", **GQA),
        decoder("falcon", "Falcon"),
        decoder("olmo", "Olmo", **GQA),
        decoder("starcoder2", "Starcoder2", **GQA),
        sequence(
            "t5", "T5", d_model=32, d_kv=8, d_ff=64, num_layers=1, num_heads=4, pad_token_id=0
        ),
        sequence("bart", "Bart", **BART),
        sequence("pegasus", "Pegasus", **BART),
        _whisper_encoder(),
        _whisper_decoder(),
        vision("vit", "ViT", **VIT),
        vision("deit", "DeiT", **VIT),
        vision("beit", "Beit", **VIT, use_relative_position_bias=True),
        vision(
            "swin",
            "Swin",
            image_size=32,
            patch_size=4,
            embed_dim=16,
            depths=[2, 1],
            num_heads=[2, 4],
            window_size=4,
        ),
        vision("convnext", "ConvNext", hidden_sizes=[8, 16, 16, 16], depths=[1, 1, 1, 1]),
        vision(
            "resnet", "ResNet", embedding_size=8, hidden_sizes=[8, 16, 16, 16], depths=[1, 1, 1, 1]
        ),
        vision(
            "regnet",
            "RegNet",
            embedding_size=8,
            hidden_sizes=[8, 16, 16, 16],
            depths=[1, 1, 1, 1],
            groups_width=8,
        ),
        vision("mobilenet_v2", "MobileNetV2", depth_multiplier=0.25, image_size=32),
        Architecture(
            "clip_text",
            _clip("Text", ("input_ids",), {**TINY, "eos_token_id": 2}),
            lambda sizes: (_ids(sizes),),
            (BS,),
        ),
        Architecture(
            "clip_vision", _clip("Vision", ("pixel_values",), VIT), _image(32), ({0: "b"},)
        ),
        vision("siglip_vision", "SiglipVision", **VIT),
        vision("dinov2", "Dinov2", **VIT),
        vision(
            "segformer",
            "Segformer",
            hidden_sizes=[8, 16, 16, 32],
            depths=[1, 1, 1, 1],
            num_attention_heads=[1, 2, 2, 4],
            sr_ratios=[4, 2, 2, 1],
        ),
        _detr(),
        Architecture(
            "wav2vec2",
            _module(
                "Wav2Vec2Model",
                ("input_values",),
                "last_hidden_state",
                lambda: transformers.Wav2Vec2Config(**SOUND),
            ),
            _sound(400),
            ({0: "b"},),
        ),
        Architecture(
            "hubert",
            _module(
                "HubertModel",
                ("input_values",),
                "last_hidden_state",
                lambda: transformers.HubertConfig(**SOUND),
            ),
            _sound(400),
            ({0: "b"},),
        ),
        _mamba(),
    )
}
