"""A quantised checkpoint in safetensors -> a model whose linear layers have its codes.

The libraries that wrote it are not needed: ``config.json`` beside the file says what wrote it.
"""

from collections.abc import Iterable, Iterator, Mapping
from os import PathLike
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import nn

from aotpack.errors import UsageError, a_type
from aotpack.trace.quantize.codes import Quantized
from aotpack.trace.quantize.configuration import format_of
from aotpack.trace.quantize.formats import Format, Size
from aotpack.trace.quantize.layers import CODES, SCALES, ZEROS, with_codes

GGUF = (
    "a GGUF file has blocks of its own codes; AutoModelForCausalLM.from_pretrained(folder, "
    "gguf_file=...) of transformers widens them, and a build makes codes with --quantize int8 or "
    "int4"
)
_KINDS = ("complex number", "8-bit float", "float", "truth value", "whole number")


def load_checkpoint(model: nn.Module, path: str | PathLike[str]) -> nn.Module:
    """Give ``model`` the weights of a quantised checkpoint, in place, and return it.

    ``path`` is a folder with ``config.json`` and safetensors files, or one such file. The model is
    that of the float weights and may have weights on meta; layers whose codes are in the files
    keep codes, all other weights are read as they are.
    """
    if not isinstance(model, nn.Module):
        raise UsageError(f"loading {path}: the model is {a_type(model)}; an nn.Module is accepted")
    if not isinstance(path, (str, PathLike)):
        raise UsageError(
            f"loading a checkpoint: path is {a_type(path)}; the path of a folder, or of a "
            "safetensors file in one, is accepted"
        )
    place = Path(path)
    if place.suffix == ".gguf":
        raise UsageError(f"loading {place}: {GGUF}")
    files = sorted(place.glob("*.safetensors")) if place.is_dir() else [place]
    if not files or not all(file.is_file() for file in files):
        raise UsageError(f"loading {place}: there is no safetensors file; give one, or its folder")
    how = format_of(place)
    tensors: dict[str, torch.Tensor] = {}
    for file in files:
        for name, one in _tensors(file):
            if name in tensors:
                raise UsageError(f"loading {file}: {name} is in a file before it too; give one")
            tensors[name] = one
    _load(model, tensors, how, place)
    return model


def _tensors(file: Path) -> Iterator[tuple[str, torch.Tensor]]:
    try:
        with safe_open(file, "pt") as opened:
            for name in opened.keys():  # noqa: SIM118 - it is no mapping
                yield name, opened.get_tensor(name)
    except (OSError, SafetensorError) as error:
        raise UsageError(f"loading {file}: it is no safetensors file: {error}") from error


def _load(model: nn.Module, tensors: Mapping[str, torch.Tensor], how: Format, place: Path) -> None:
    """Codes for the layers that have them, the other tensors by name; all are checked first."""
    left = dict(tensors)
    made: dict[str, Quantized] = {}
    required = [name for name in how.names if not name.endswith("?")]
    for name, module in model.named_modules():
        is_plain = isinstance(module, nn.Linear) and module._parameters.get("weight") is not None
        if is_plain and all(_named(name, one) in left for one in required):
            made[name] = _of_layer(name, module, left, how, place)
    if not made:
        raise UsageError(
            f"loading {place}: no nn.Linear of the model has the tensors {', '.join(required)} in "
            f"it; its first names are {', '.join(sorted(tensors)[:4])}"
        )
    wanted = _wanted(model, made)
    others = _checked_others(model, left, wanted, place)
    for name, codes in made.items():
        layer = model.get_submodule(name)
        with_codes(layer, codes, how.kind, layer.get_parameter("weight").dtype)
    _put(model, others, wanted)


def _named(layer: str, part: str) -> str:
    return f"{layer}.{part}" if layer else part


def _of_layer(
    name: str, layer: nn.Module, left: dict[str, torch.Tensor], how: Format, place: Path
) -> Quantized:
    """The codes of one layer, whose tensors are taken out of ``left``."""
    own = {one.rstrip("?"): left.pop(_named(name, one.rstrip("?")), None) for one in how.names}
    rows, columns = layer.get_parameter("weight").shape
    bias = left.get(_named(name, "bias"))
    if bias is not None and layer._parameters.get("bias") is None and not bias.any():
        del left[_named(name, "bias")]  # some write it for layers without one
    try:
        if not rows * columns:
            raise UsageError(f"its weight of shape {[rows, columns]} has no elements")
        given = {key: one for key, one in own.items() if one is not None}
        return how.read(given, how, Size(rows, columns))
    except UsageError as error:
        raise UsageError(f"loading {place}: {name or 'the model'}: {error}") from error


def _wanted(model: nn.Module, made: Iterable[str]) -> dict[str, torch.Tensor]:
    """The tensors that the model has besides those that codes replace."""
    coded = {_named(name, "weight") for name in made}
    return {
        name: one
        for name, one in model.state_dict(keep_vars=True).items()
        if isinstance(one, torch.Tensor)
        and name not in coded
        and name.rpartition(".")[2] not in (CODES, SCALES, ZEROS)
    }


def _checked_others(
    model: nn.Module,
    tensors: Mapping[str, torch.Tensor],
    wanted: Mapping[str, torch.Tensor],
    place: Path,
) -> dict[str, torch.Tensor]:
    """The tensors that are no codes, as ``load_state_dict`` takes them; tied ones come once."""
    buffers = {name for name, _ in model.named_buffers()} - {*model.state_dict()}
    tensors = {name: one for name, one in tensors.items() if name not in buffers}  # inv_freq
    given = {id(wanted[name]) for name in tensors if name in wanted}
    missing = [n for n, one in wanted.items() if n not in tensors and id(one) not in given]
    strange = sorted(name for name in tensors if name not in wanted)
    if missing or strange:
        says = [f"lacks {', '.join(missing[:4])}"] if missing else []
        says += [f"has {', '.join(strange[:4])}, which the model has not"] if strange else []
        raise UsageError(f"loading {place}: it {' and '.join(says)}; give the model of its config")
    for name, tensor in tensors.items():
        found, own = [(_kind(one.dtype), list(one.shape)) for one in (tensor, wanted[name])]
        if found != own:
            raise UsageError(
                f"loading {place}: {name} has {found[0]}s of shape {found[1]}; the model has "
                f"{own[0]}s of shape {own[1]}. Give the model of its config."
            )
    return tensors


def _kind(dtype: torch.dtype) -> str:
    """Of numbers, in words: a cast inside of a kind is one of digits alone."""
    is_kind = (
        dtype.is_complex,
        dtype.is_floating_point and dtype.itemsize == 1,
        dtype.is_floating_point,
        dtype == torch.bool,
        True,
    )
    return _KINDS[is_kind.index(True)]


def _put(
    model: nn.Module, tensors: Mapping[str, torch.Tensor], wanted: Mapping[str, torch.Tensor]
) -> None:
    """Give the model the tensors, in its types, wherever it has a parameter."""
    for name, tensor in tensors.items():
        owner, _, key = name.rpartition(".")
        old = wanted[name]
        for module in model.modules():
            for own, held in [*module._parameters.items()]:
                if held is old:
                    module._parameters[own] = nn.Parameter(tensor.to(old.dtype), False)
        if not isinstance(old, nn.Parameter):
            model.get_submodule(owner)._buffers[key] = tensor.to(old.dtype)
