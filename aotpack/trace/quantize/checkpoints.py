"""A quantised checkpoint in safetensors -> a model whose linear layers have its codes.

The libraries that wrote it are not needed: ``config.json`` beside the file says what wrote it.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import nn

from aotpack.errors import UsageError
from aotpack.trace.quantize.codes import Quantized
from aotpack.trace.quantize.formats import (
    Format,
    read_awq,
    read_gptq,
    read_packed,
    read_plain,
)
from aotpack.trace.quantize.layers import CODES, SCALES, ZEROS, with_codes

_ACCEPTED = (
    "gptq (4 or 8 bits), awq (4 bits, version gemm), compressed-tensors (pack-quantized with 4 or "
    "8 bits, int-quantized, float-quantized or naive-quantized weights) are accepted"
)
_INSTEAD = "take the float checkpoint and build with --quantize int8 or int4"
_TABLES = (
    "bitsandbytes looks codes up in tables that its own kernels know; load the model with "
    "transformers, call model.dequantize(), and build that with --quantize int8 or int4"
)
GGUF = (
    "a GGUF file has blocks of its own codes; AutoModelForCausalLM.from_pretrained(folder, "
    "gguf_file=...) of transformers widens them, and a build makes codes with --quantize int8 or "
    "int4"
)
_GPTQ_NAMES = ("qweight", "qzeros", "scales", "g_idx?")
_AWQ_NAMES = ("qweight", "qzeros?", "scales")
_PACKED_NAMES = ("weight_packed", "weight_scale", "weight_shape", "weight_zero_point?")
_PLAIN_NAMES = ("weight", "weight_scale", "weight_zero_point?")


def load_checkpoint(model: nn.Module, path: str | Path) -> nn.Module:
    """Give ``model`` the weights of a quantised checkpoint, in place, and return it.

    ``path`` is a folder with ``config.json`` and safetensors files, or one such file. The model is
    that of the float weights and may have weights on meta; layers whose codes are in the files
    keep codes, all other weights are read as they are.
    """
    place = Path(path)
    if place.suffix == ".gguf":
        raise UsageError(f"loading {place}: {GGUF}")
    folder = place if place.is_dir() else place.parent
    files = sorted(place.glob("*.safetensors")) if place.is_dir() else [place]
    if not files or not all(file.is_file() for file in files):
        raise UsageError(f"loading {place}: there is no safetensors file; give one, or its folder")
    how = _format(place, _config(folder))
    _load(model, {name: one for file in files for name, one in _tensors(file)}, how, place)
    return model


def _tensors(file: Path) -> Iterator[tuple[str, torch.Tensor]]:
    try:
        with safe_open(file, "pt") as opened:
            for name in opened.keys():  # noqa: SIM118 - it is no mapping
                yield name, opened.get_tensor(name)
    except (OSError, SafetensorError) as error:
        raise UsageError(f"loading {file}: it is no safetensors file: {error}") from error


def _config(folder: Path) -> Mapping[str, Any]:
    """What ``config.json``, or a file of the quantiser alone, says about codes."""
    for name in ("config.json", "quantize_config.json", "quant_config.json"):
        if (folder / name).is_file():
            read = json.loads((folder / name).read_text())
            found = read.get("quantization_config", None if name == "config.json" else read)
            if isinstance(found, Mapping):
                return found
    raise UsageError(
        f"loading {folder}: no quantization_config is in its config.json, so nothing says how "
        "weights are stored; load other weights with model.load_state_dict"
    )


def _format(place: Path, config: Mapping[str, Any]) -> Format:
    """The format of a ``quantization_config``; UsageError for those that are not read."""
    method = str(config.get("quant_method", "gptq" if "desc_act" in config else "awq"))
    if method == "compressed-tensors":
        return _compressed(place, config)
    bits = config.get("bits", config.get("w_bit"))
    if method == "gptq" and bits in (4, 8):
        offset = 0 if config.get("checkpoint_format", "gptq") == "gptq_v2" else 1
        return Format("gptq", bits, _GPTQ_NAMES, read_gptq, offset, f"int{bits}")
    version = str(config.get("version", "gemm")).lower()
    if method == "awq" and bits == 4 and version == "gemm":
        return Format("awq", 4, _AWQ_NAMES, read_awq)
    if "bitsandbytes" in method or "load_in_4bit" in config:
        raise UsageError(f"loading {place}: {_TABLES}")
    shown = f"{method} with {bits} bits" + (f", version {version}" if method == "awq" else "")
    raise UsageError(f"loading {place}: its weights are {shown}; {_ACCEPTED}. Else {_INSTEAD}.")


def _compressed(place: Path, config: Mapping[str, Any]) -> Format:
    groups = [*(config.get("config_groups") or {}).values()]
    weights = [group.get("weights") or {} for group in groups]
    written = str(config.get("format"))
    if any(group.get("input_activations") for group in groups):
        raise UsageError(
            f"loading {place}: its activations are quantised too, which this package would leave "
            f"wide: its results would be others. Quantise weights alone, or {_INSTEAD}."
        )
    strategies = {str(one.get("strategy") or "channel") for one in weights}
    if strategies - {"tensor", "channel", "group"}:
        raise UsageError(
            f"loading {place}: its scales are for a {' or a '.join(sorted(strategies))}; tensor, "
            f"channel and group are accepted. Else {_INSTEAD}."
        )
    if any(one.get("actorder") in ("group", True) for one in weights):
        raise UsageError(
            f"loading {place}: its columns are in the order of activations (actorder group); "
            f"quantise it with actorder 'weight' or none, or {_INSTEAD}."
        )
    sizes = {(one.get("num_bits"), one.get("type")) for one in weights}
    (bits, kind), *others = [*sizes] or [(None, None)]
    if not others and written == "pack-quantized" and bits in (4, 8) and kind == "int":
        return Format(written, bits, _PACKED_NAMES, read_packed, kind=f"int{bits}")
    plain = written in ("int-quantized", "float-quantized", "naive-quantized")
    if not others and plain and bits == 8 and kind in ("int", "float"):
        kinds = {"int": "int8", "float": "fp8"}
        return Format(written, 8, _PLAIN_NAMES, read_plain, kind=kinds[kind])
    shown = " and ".join(f"{number} bits of {name}" for number, name in sorted(sizes, key=str))
    raise UsageError(
        f"loading {place}: its weights are {written} with {shown}; {_ACCEPTED}. Else {_INSTEAD}."
    )


def _load(model: nn.Module, tensors: Mapping[str, torch.Tensor], how: Format, place: Path) -> None:
    """Codes for the layers that have them, the other tensors by name."""
    left = dict(tensors)
    made: dict[str, Quantized] = {}
    required = [name for name in how.names if not name.endswith("?")]
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear) and all(f"{name}.{one}" in left for one in required):
            made[name] = _of_layer(name, module, left, how, place)
    if not made:
        raise UsageError(
            f"loading {place}: no nn.Linear of the model has the tensors {', '.join(required)} in "
            f"it; its first names are {', '.join(sorted(tensors)[:4])}"
        )
    for name, codes in made.items():
        layer = model.get_submodule(name)
        with_codes(layer, codes, how.kind, layer.get_parameter("weight").dtype)
    _load_others(model, left, place)


def _of_layer(
    name: str, layer: nn.Linear, left: dict[str, torch.Tensor], how: Format, place: Path
) -> Quantized:
    """The codes of one layer, whose tensors are taken out of ``left``."""
    own = {one.rstrip("?"): left.pop(f"{name}.{one.rstrip('?')}", None) for one in how.names}
    for extra in ("weight_g_idx", "weight_shape", "input_scale"):
        left.pop(f"{name}.{extra}", None)
    try:
        codes = how.read({key: one for key, one in own.items() if one is not None}, how)
    except UsageError as error:
        raise UsageError(f"loading {place}: {name}: {error}") from error
    if codes.codes.dtype not in (torch.int8, torch.float8_e4m3fn):
        raise UsageError(f"loading {place}: the codes of {name} are {codes.codes.dtype}")
    rows, columns = codes.codes.shape
    columns *= 2 if how.kind == "int4" else 1
    groups = codes.scales.shape[1]
    parts = [codes.scales, *([] if codes.zeros is None else [codes.zeros])]
    fits = all(part.shape == (rows, groups) for part in parts) and columns % groups == 0
    if (rows, columns) != (layer.out_features, layer.in_features) or not fits:
        raise UsageError(
            f"loading {place}: {name} has {rows} rows of {columns} codes and scales of shape "
            f"{list(codes.scales.shape)}; the layer has {layer.out_features} rows of "
            f"{layer.in_features}, and groups divide a row"
        )
    return codes


def _load_others(model: nn.Module, tensors: Mapping[str, torch.Tensor], place: Path) -> None:
    """The weights that are no codes; tied ones are given once."""
    wanted: dict[str, torch.Tensor] = model.state_dict(keep_vars=True)
    codes = {name for name in wanted if name.rpartition(".")[2] in (CODES, SCALES, ZEROS)}
    buffers = {name for name, _ in model.named_buffers()} - {*wanted}
    tensors = {name: one for name, one in tensors.items() if name not in buffers}  # inv_freq
    given = {id(wanted[name]) for name in tensors if name in wanted}
    missing = [
        n for n, one in wanted.items() if n not in {*codes, *tensors} and id(one) not in given
    ]
    strange = sorted(name for name in tensors if name not in wanted)
    if missing or strange:
        says = [f"lacks {', '.join(missing[:4])}"] if missing else []
        says += [f"has {', '.join(strange[:4])}, which the model has not"] if strange else []
        raise UsageError(f"loading {place}: it {' and '.join(says)}; give the model of its config")
    for name, tensor in tensors.items():
        owner, _, key = name.rpartition(".")
        old = wanted[name]
        for module in model.modules():
            for own, held in [*module._parameters.items()]:
                if held is old:
                    module._parameters[own] = nn.Parameter(tensor.to(old.dtype), False)
        if not isinstance(old, nn.Parameter):
            model.get_submodule(owner)._buffers[key] = tensor.to(old.dtype)
