"""``quantization_config`` of a checkpoint -> the format of its layers.

It stands in ``config.json``, or alone in a file of the quantiser. What would change results and is
not read is refused.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aotpack.errors import UsageError, a_type
from aotpack.trace.quantize.formats import Format, read_awq, read_gptq, read_packed, read_plain

_FILES = ("config.json", "quantize_config.json", "quant_config.json")
_ACCEPTED = (
    "gptq (4 or 8 bits), awq (4 bits, version gemm), compressed-tensors (pack-quantized with 4 or "
    "8 bits, int-quantized, float-quantized or naive-quantized weights) are accepted"
)
_INSTEAD = "take the float checkpoint and build with --quantize int8 or int4"
_TABLES = (
    "bitsandbytes looks codes up in tables that its own kernels know; load the model with "
    "transformers, call model.dequantize(), and build that with --quantize int8 or int4"
)
_GPTQ_NAMES = ("qweight", "qzeros", "scales", "g_idx?")
_AWQ_NAMES = ("qweight", "qzeros?", "scales")
_OPTIONAL = ("weight_zero_point?", "weight_g_idx?")
_PACKED_NAMES = ("weight_packed", "weight_scale", "weight_shape", *_OPTIONAL)
_PLAIN_NAMES = ("weight", "weight_scale", *_OPTIONAL)
_CHANGES = {
    "input_activations": "its activations are quantised too, which this package would leave wide",
    "output_activations": "its activations are quantised too, which this package would leave wide",
    "kv_cache_scheme": "its keys and values are quantised too, which this package would leave wide",
    "transform_config": "its weights are rotated, which layers undo as they run",
}
_ORDERS = (None, False, "weight", "static")
_BY_ACTIVATIONS = (True, "group", "dynamic")


@dataclass(frozen=True, slots=True)
class _Said:
    """An object of the file; ``path`` leads there."""

    place: Path
    path: str
    values: Mapping[str, Any]

    def number(self, key: str) -> int | None:
        """A whole number."""
        found: int | None = self._of_type(key, int, "a whole number, as 4,")
        return found

    def text(self, key: str) -> str | None:
        """Text, in small letters."""
        found: str | None = self._of_type(key, str, "text")
        return found and found.lower()

    def flag(self, key: str) -> bool | None:
        """A truth value."""
        found: bool | None = self._of_type(key, bool, "true or false")
        return found

    def part(self, key: str) -> "_Said | None":
        """An object in it."""
        found = self._of_type(key, dict, "an object")
        return None if found is None else _Said(self.place, f"{self.path}{key}.", found)

    def refused(self, reason: str) -> UsageError:
        """Why the checkpoint is not read."""
        return UsageError(f"loading {self.place}: {reason}")

    def _of_type(self, key: str, kind: type, accepted: str) -> Any:
        found = self.values.get(key)
        if found is not None and type(found) is not kind:
            raise self.refused(
                f"{self.path}{key} is {found!r} in its configuration; {accepted} is accepted"
            )
        return found


def format_of(place: Path) -> Format:
    """The format of a checkpoint, a folder or a file in one; UsageError for those not read."""
    said = _read(place, place if place.is_dir() else place.parent)
    method = said.text("quant_method") or ("gptq" if "desc_act" in said.values else "awq")
    if method == "compressed-tensors":
        return _compressed(said)
    if "bitsandbytes" in method or "load_in_4bit" in said.values:
        raise said.refused(_TABLES)
    is_known = method in ("gptq", "awq")
    own = next((key for key in ("bits", "w_bit") if key in said.values), "bits")
    bits = said.number(own) if is_known else said.values.get(own)
    version = said.text("version" if method == "awq" else "checkpoint_format")
    if method == "gptq" and bits in (4, 8) and version in (None, "gptq", "gptq_v2"):
        return Format(
            "gptq",
            bits,
            _GPTQ_NAMES,
            read_gptq,
            (_group(said, "group_size"),),
            kind=f"int{bits}",
            offset=0 if version == "gptq_v2" else 1,
            is_ordered=bool(said.flag("desc_act")),
        )
    if method == "awq" and bits == 4 and version in (None, "gemm"):
        key = "q_group_size" if "q_group_size" in said.values else "group_size"
        has_zeros = bool(said.flag("zero_point"))
        return Format("awq", 4, _AWQ_NAMES, read_awq, (_group(said, key),), has_zeros=has_zeros)
    shown = f"{method} with {'no number of' if bits is None else bits} bits"
    shown += f", version {version}" if version else ""
    raise said.refused(f"its weights are {shown}; {_ACCEPTED}. Else {_INSTEAD}.")


def _read(place: Path, folder: Path) -> _Said:
    """What ``config.json``, or a file of the quantiser alone, says about codes."""
    for name in _FILES:
        if not (folder / name).is_file():
            continue
        try:
            read = json.loads((folder / name).read_bytes())
        except (OSError, ValueError, RecursionError) as error:
            raise UsageError(f"loading {folder / name}: it is no JSON: {error}") from error
        if not isinstance(read, dict):
            found = "null" if read is None else a_type(read)
            raise UsageError(f"loading {folder / name}: it is {found}; an object is accepted")
        said = _Said(place, "", read)
        is_whole = name != "config.json" and "quantization_config" not in read
        own = said if is_whole else said.part("quantization_config")
        if own is not None:
            return own
    raise UsageError(
        f"loading {folder}: no quantization_config is in its config.json, so nothing says how "
        "weights are stored; load other weights with model.load_state_dict"
    )


def _group(said: _Said, key: str) -> int:
    """The neighbours in a row that share a scale, -1 for the row."""
    found = said.number(key)
    if found is None or (found < 1 and found != -1):
        words = "missing" if found is None else found
        raise said.refused(
            f"{said.path}{key} is {words} in its configuration; how many neighbours share a scale "
            "is accepted, or -1 for a whole row"
        )
    return found


def _compressed(said: _Said) -> Format:
    """The format of compressed-tensors."""
    every = said.part("config_groups")
    groups = [] if every is None else [one for key in every.values if (one := every.part(key))]
    for one in (said, *groups):
        for key, reason in _CHANGES.items():
            if one.values.get(key):
                raise said.refused(
                    f"{reason} ({one.path}{key}): its results would be others. Quantise weights "
                    f"alone, or {_INSTEAD}."
                )
    sparse = said.part("sparsity_config")
    if sparse is not None and sparse.text("format") not in (None, "dense"):
        raise said.refused(f"its weights are stored as {sparse.text('format')}; dense is accepted")
    weights = [one for group in groups if (one := group.part("weights"))]
    for one in weights:
        _check_order(one)
        _length(one)
    written = {one.text("format") or said.text("format") or "none" for one in groups}
    sizes = {(one.number("num_bits") or 8, one.text("type") or "int") for one in weights}
    (bits, kind), *others = [*sizes] or [(0, "nothing")]
    name, *more = sorted(written) or ["none"]
    lengths = tuple(dict.fromkeys(map(_length, weights)))
    zeros = all(one.flag("symmetric") is False for one in weights)
    if not (others or more) and name == "pack-quantized" and bits in (4, 8) and kind == "int":
        own = f"int{bits}"
        return Format(name, bits, _PACKED_NAMES, read_packed, lengths, own, has_zeros=zeros)
    plain = name in ("int-quantized", "float-quantized", "naive-quantized")
    if not (others or more) and plain and bits == 8 and kind in ("int", "float"):
        own = {"int": "int8", "float": "fp8"}[kind]
        return Format(name, 8, _PLAIN_NAMES, read_plain, lengths, own, has_zeros=zeros)
    shown = " and ".join(f"{number} bits of {one}" for number, one in sorted(sizes))
    raise said.refused(
        f"its weights are {' and '.join([name, *more])} with {shown or 'no bits'}; {_ACCEPTED}. "
        f"Else {_INSTEAD}."
    )


def _length(weights: _Said) -> int:
    """The neighbours in a row that share a scale, -1 for the row."""
    size = weights.number("group_size")
    by_size = "group" if size is not None and size != -1 else "channel"
    strategy = weights.text("strategy") or by_size
    if strategy not in ("tensor", "channel", "group"):
        raise weights.refused(
            f"its scales are for a {strategy}; tensor, channel and group are accepted. Else "
            f"{_INSTEAD}."
        )
    return _group(weights, "group_size") if strategy == "group" else -1


def _check_order(weights: _Said) -> None:
    """Refuse columns whose neighbours have different scales."""
    order = weights.values.get("actorder")
    order = order.lower() if isinstance(order, str) else order
    if any(order is one or order == one for one in _ORDERS):
        return
    if order in _BY_ACTIVATIONS:
        raise weights.refused(
            f"its columns are in the order of activations (actorder group); quantise it with "
            f"actorder 'weight' or none, or {_INSTEAD}."
        )
    raise weights.refused(
        f"{weights.path}actorder is {order!r}; 'weight', 'static' or none is accepted"
    )
