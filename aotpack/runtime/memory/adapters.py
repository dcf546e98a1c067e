"""Tensors under the names that PEFT writes them with, for the weights of one adapter of a model.

PEFT leaves the adapter's name out: ``base_model.model.q.lora_A.weight`` is the weight
``base_model.model.q.lora_A.default.weight``. ``adapter_config.json`` beside a file has the factors.
"""

import math
import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import NoneType
from typing import Any

import numpy as np

from ..errors import WeightError, a_type
from ..files.strict_json import parse_json
from ..manifest import Manifest
from ..safetensors import Stored, TensorFile
from ..tensors import Weight

_FACTORS = ("lora_A", "lora_embedding_A")
_VECTOR = "lora_magnitude_vector"
_MARKS = (*_FACTORS, "lora_B", "lora_embedding_B", _VECTOR, "modules_to_save")
_OWNED = re.compile(
    rf"(?P<module>.*\.)(?P<mark>{'|'.join(_MARKS)})\.(?P<adapter>[^.]+)(?P<rest>.*)"
)
_ROOT = "base_model.model."
_CONFIG = "adapter_config.json"
_MOST = sys.float_info.max
_LONG = 64  # bits of a number that a message shows


def parts_of(
    given: Any, manifest: Manifest, adapter: str | None, path: Path | None, *, strict: bool
) -> tuple[Mapping[str, Any], ...]:
    """What to bind, all of an adapter's weights and then the factors of its layers.

    Nothing where ``given`` has no names of PEFT and no ``adapter`` is asked for.
    """
    names = {name: 0 for weight in manifest.weights for name in (weight.name, *weight.names)}
    adapters = _adapters_of(names)
    if not isinstance(given, Mapping) or (adapter is None and not _is_of_adapter(given, names)):
        return ()
    if adapter is None and not adapters:
        return ()
    if adapter not in (*adapters, None) or (adapter is None and len(adapters) > 1):
        asked = (
            "adapter=NAME is not given" if adapter is None else f"adapter={adapter!r} is unknown"
        )
        found = ", ".join(map(repr, adapters))
        has = f"the adapters of the model are {found}" if found else "the model has no adapters"
        raise WeightError(f"binding weights to {manifest.signature.name}: {asked}; {has}.")
    own = AdapterNames(names, manifest.unused, adapter or adapters[0])
    named = own.renamed(given, strict=strict)
    factors = {} if path is None else _factors_beside(path, named, manifest.weights)
    if isinstance(given, TensorFile):
        return TensorFile(given.path, given.identity, named), factors
    return named, factors


def factors_of(constants: Mapping[str, Stored], weights: Iterable[Weight]) -> dict[str, Stored]:
    """The factors of the layers of adapters, in memory of their own."""
    owners = (_OWNED.fullmatch(name) for one in weights for name in (one.name, *one.names))
    names = {_scaling_of(one) for one in owners if one}
    found = {name: one for name, one in constants.items() if name in names}
    return {name: replace(one, data=one.data.copy()) for name, one in found.items()}


class AdapterNames:
    """What each weight of one adapter is called in PEFT's files."""

    def __init__(self, weights: Iterable[str], unused: Collection[str], adapter: str) -> None:
        self.adapter, self._unused = adapter, unused
        names = (*weights, *unused)
        self._known = {*names}
        self._names = {
            _spelled(found): name
            for name in names
            if (found := _OWNED.fullmatch(name)) and found["adapter"] == adapter
        }

    def renamed(self, given: Mapping[str, Any], *, strict: bool) -> dict[str, Any]:
        """The tensors under the model's names; refuses others, and (strictly) too few."""
        start = self._start(given)
        names = {key: self._name_of(key, start) for key in given}
        self._check_distinct(names)
        strange = [key for key, name in names.items() if name is None]
        lacking = [one for one in self._names.values() if one not in {*names.values()}]
        if strange:
            accepted = f"such as {min(self._names)!r}"
            raise self._refused(
                f"{_some(strange)} no weight of it; its weights have names {accepted}"
            )
        if strict and lacking:
            raise self._refused(
                f"{_some(lacking)} not given; give all weights of the adapter, or strict=False to "
                "keep what was bound before"
            )
        return {str(name): given[key] for key, name in names.items() if name not in self._unused}

    def _start(self, given: Iterable[str]) -> str:
        """What the model's names have in front, as the part of a module that is not PEFT's."""
        first = next((_tail(key) for key in given if key not in self._known), "")
        longer = [name for name in self._names if name.endswith(f".{first}")]
        is_clear = first and first not in self._names and len(longer) == 1
        return longer[0].removesuffix(first) if is_clear else ""

    def _name_of(self, key: str, start: str) -> str | None:
        return key if key in self._known else self._names.get(start + _tail(key))

    def _check_distinct(self, names: Mapping[str, str | None]) -> None:
        """Refuse two spellings of one weight."""
        keys: dict[str | None, str] = {}
        for key, name in names.items():
            if keys.setdefault(name, key) != key and name is not None:
                raise self._refused(
                    f"{keys[name]!r} and {key!r} are both the weight {name!r}; give one of them"
                )

    def _refused(self, reason: str) -> WeightError:
        return WeightError(f"binding the adapter {self.adapter!r}: {reason}.")


def _adapters_of(names: Iterable[str]) -> list[str]:
    """The adapters of a model with these weights."""
    found = map(_OWNED.fullmatch, names)
    return sorted({one["adapter"] for one in found if one})


def _is_of_adapter(given: Iterable[Any], known: Collection[str]) -> bool:
    """True for names of PEFT's files."""
    new = [name for name in given if isinstance(name, str) and name not in known]
    return any(part in _MARKS for name in new for part in name.split("."))


def _factors_beside(
    path: Path, given: Mapping[str, Any], weights: Sequence[Weight]
) -> Mapping[str, Any]:
    """The factor of each layer of an adapter, as the configuration beside its file says.

    ``given`` has the model's names.
    """
    place = path.with_name(_CONFIG)
    if not place.is_file():
        return {}
    try:
        config = parse_json(place.read_bytes())
    except ValueError as error:
        raise WeightError(f"reading {place}: it is not JSON: {error}.") from None
    by_name = {name: one for one in weights for name in (one.name, *one.names)}
    found = {}
    for name in given:
        owned = _OWNED.fullmatch(name)
        if owned and owned["mark"] in _FACTORS and name in by_name:
            scaling = _scaling_of(owned)
            rank = math.prod(by_name[name].shape[:1])  # a file of another one is refused
            if not rank:
                continue
            factor = _factor(place, config, _tail(owned["module"]), rank)
            if scaling not in by_name:
                raise _fixed(place, owned["module"], factor)
            target = by_name[scaling]
            found[target.name] = _stored(place, factor, target.dtype.name)
    return found


def _factor(place: Path, config: Any, module: str, rank: int) -> float:
    """alpha / rank, where alpha may be the module's own."""
    if not isinstance(config, dict):
        raise WeightError(f"reading {place}: it is {a_type(config)}; an object is accepted.")
    own = config.get("alpha_pattern")
    if not isinstance(own, (dict, NoneType)):
        raise _unread(place, "alpha_pattern", own, "an object of numbers by names of layers")
    found = [key for key in own or () if _is_named(place, key, module)][:1]
    key = f"alpha_pattern[{found[0]!r}]" if found else "lora_alpha"
    alpha = own[found[0]] if own and found else config.get("lora_alpha")
    if alpha is None:
        raise WeightError(f"reading {place}: it has no {key}, by which an adapter is scaled.")
    is_number = isinstance(alpha, (int, float)) and not isinstance(alpha, bool)
    if not is_number or not -_MOST <= alpha <= _MOST:
        raise _unread(place, key, alpha, f"a number up to {_MOST:.3g}")
    is_root = config.get("use_rslora")
    if not isinstance(is_root, (bool, NoneType)):
        raise _unread(place, "use_rslora", is_root, "true or false")
    return float(alpha) / (math.sqrt(rank) if is_root else rank)


def _is_named(place: Path, pattern: str, module: str) -> bool:
    """True if a pattern of PEFT's is for the module."""
    try:
        return re.fullmatch(rf"(.*\.)?({pattern})", module.rstrip(".")) is not None
    except (re.error, OverflowError, RecursionError) as error:
        raise WeightError(
            f"reading {place}: {pattern!r} in alpha_pattern is no regular expression: {error}. "
            "Give names of layers, or patterns of Python's re for them."
        ) from None


def _stored(place: Path, factor: float, kind: str) -> Any:
    """A factor as the weight that it is."""
    with np.errstate(over="ignore"):
        made = np.array(factor, kind)
    if not np.isfinite(made):
        raise _unread(place, "the factor of a layer, alpha by rank,", factor, f"what {kind} holds")
    return made


def _fixed(place: Path, module: str, factor: float) -> WeightError:
    return WeightError(
        f"reading {place}: the factor of {module.rstrip('.')!r} would be {factor:.6g}, but the "
        "build made that of the model a constant. Have the layer read it from a dict, "
        "self.scaling[adapter], and build again; or give the tensors by name, which keep it."
    )


def _unread(place: Path, what: str, found: Any, accepted: str) -> WeightError:
    is_long = isinstance(found, int) and found.bit_length() > _LONG
    shown = f"a number of {found.bit_length()} bits" if is_long else repr(found)
    return WeightError(f"reading {place}: {what} is {shown}; {accepted} is accepted.")


def _scaling_of(owned: re.Match[str]) -> str:
    """The name of the factor of the layer that a weight belongs to."""
    return f"{owned['module']}scaling.{owned['adapter']}"


def _spelled(found: re.Match[str]) -> str:
    """The name in PEFT's files behind ``base_model.model.``."""
    is_module = found["mark"] == "modules_to_save"
    own = found["module"].removesuffix(".") if is_module else found["module"] + found["mark"]
    return _tail(own + found["rest"])


def _tail(name: str) -> str:
    """A name from the model that PEFT wraps; ``weight`` of a vector is left out in older files."""
    own = name.rpartition(_ROOT)[2]
    return own.removesuffix(".weight") if f"{_VECTOR}.weight" in own else own


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:3])) + (", ..." if len(names) > 3 else "")
    return f"{shown} {'is' if len(names) == 1 else 'are'}"
