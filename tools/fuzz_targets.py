"""What ``tools.fuzz_parsers`` runs: the targets, the inputs they begin with, and their changes."""

import copy
import hashlib
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from aotpack.runtime import AotpackError, load
from aotpack.runtime.command import summary
from aotpack.runtime.files.sums import SUMS, read_sums, sums_text
from aotpack.runtime.manifest import Manifest, read_manifest
from aotpack.runtime.safetensors import read_safetensors

Change = Callable[[bytes, random.Random], bytes]

_DEEP, _TWICE = "@deep@", "@twice@"
_DEPTH = 3000
_LARGE = 1 << 20
_BYTEWISE = 0.2  # of all changes
_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 255, 1 << 31, 1 << 62, 1 << 63, 1 << 64, -(1 << 63)),
    *(1 << 999, 0.5, -0.0, 1e308, float("inf"), float("nan"), "", "x", "0", "\0", "\ud800"),
    *("..", "../x", "/", "//", "malloc", "b//0", "8//(b-3)", "-b", "b-99", "min(b)", "b" * 300),
    *("(" * 500 + "b" + ")" * 500, "b" + "+b" * 400, "9" * 5000, "a" * 5000, "float32", "int8"),
    *("F32", "I64", [], {}, [[]], [0], {"": 0}, [None] * 70, ["x"] * 70, [1 << 62, 1 << 62, 4]),
    _DEEP,
)


class Target(NamedTuple):
    """``run`` reads an input, and lets all exceptions pass but AotpackError."""

    run: Callable[[bytes], None]
    seeds: tuple[bytes, ...]
    change: Change


def target_of(name: str, package: Path) -> Target:
    """The target of a name, with a package of its own."""
    manifest = (package / "manifest.json").read_bytes()
    sums = read_sums(package) if name == "load" else {}
    if name == "safetensors":
        seeds = tuple(path.read_bytes() for path in sorted(package.glob("*.safetensors")))
        return Target(lambda data: _read_tensors(package / "fuzzed", data), seeds, changed_tensors)
    run = _describe if name == "manifest" else _load_and_call
    held = () if name == "manifest" else ("inputs",)

    def with_manifest(data: bytes) -> None:
        (package / "manifest.json").write_bytes(data)
        sums["manifest.json"] = hashlib.sha256(data).hexdigest()
        (package / SUMS).write_bytes(sums_text(sums))
        try:
            run(package)
        except AotpackError:
            return

    def change(data: bytes, rng: random.Random) -> bytes:
        return changed_json(data, rng, held, _BYTEWISE if name == "manifest" else 0)

    return Target(with_manifest, (manifest,), change)


def _describe(package: Path) -> None:
    """Read the manifest and use what the commands use of it."""
    manifest = read_manifest(package)
    summary(manifest).encode()
    for sizes in _some_sizes(manifest):
        for tensor in (*manifest.signature.inputs, *manifest.signature.outputs):
            tuple(size.evaluate(sizes) for size in tensor.shape)
        for kernel in manifest.kernels.values():
            kernel.moved.evaluate(sizes), kernel.flops.evaluate(sizes)


def _some_sizes(manifest: Manifest) -> Iterator[dict[str, int]]:
    yield {size.name: size.low for size in manifest.signature.sizes}
    yield {size.name: size.high for size in manifest.signature.sizes}


def _load_and_call(package: Path) -> None:
    with load(package, "cpu") as model:
        for rows in (1, 3, 64):
            model(np.ones((rows, 8), np.float32))


def _read_tensors(file: Path, data: bytes) -> None:
    file.write_bytes(data)
    try:
        for stored in read_safetensors(file).values():
            assert stored.data.shape == stored.shape
            if stored.data.nbytes < _LARGE:
                stored.data.tobytes()
    except AotpackError:
        return


def changed_tensors(data: bytes, rng: random.Random) -> bytes:
    """A safetensors file with another header, other data, or another length."""
    size = int.from_bytes(data[:8], "little")
    header, rest = data[8 : 8 + size], data[8 + size :]
    header = changed_json(header, rng, (), _BYTEWISE)
    if rng.random() < _BYTEWISE:
        rest = changed_bytes(rest, rng)
    size = len(header) if rng.random() < 1 - _BYTEWISE else rng.choice((0, 1, size, 1 << 63))
    return size.to_bytes(8, "little") + header + rest


def changed_json(data: bytes, rng: random.Random, held: tuple[str, ...], bytewise: float) -> bytes:
    """JSON with a few values, keys or bytes changed; values below the keys ``held`` stay."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return changed_bytes(data, rng)
    if not isinstance(value, (dict, list)) or rng.random() < bytewise:
        return changed_bytes(data, rng)
    try:
        for _ in range(rng.choice((1, 1, 1, 2, 4))):
            _change_value(value, rng, held)
        text = json.dumps(value)
    except RecursionError:  # earlier changes nested it deeper than Python's stack
        return changed_bytes(data, rng)
    text = text.replace(f'"{_DEEP}"', "[" * _DEPTH + "]" * _DEPTH)
    return text.replace(_TWICE, "").encode()


def _change_value(value: Any, rng: random.Random, held: tuple[str, ...]) -> None:
    places = list(_places(value, held))
    if not places:
        return
    inside, key = rng.choice(places)
    action = rng.randrange(6)
    if action == 0:
        del inside[key]
    elif action == 1 and isinstance(inside, dict):
        inside[rng.choice((_TWICE + key, "new", ""))] = inside[key]
    elif action == 2 and isinstance(inside[key], (int, str)):
        inside[key] = _near(inside[key], rng)
    elif action == 3:
        other, name = rng.choice(places)
        inside[key], other[name] = copy.deepcopy(other[name]), copy.deepcopy(inside[key])
    elif action == 4 and isinstance(inside, list):
        inside.insert(rng.randrange(len(inside) + 1), copy.deepcopy(inside[key]))
    else:
        inside[key] = copy.deepcopy(rng.choice(_VALUES))


def _near(value: int | str, rng: random.Random) -> float | str:
    if isinstance(value, str):
        at = rng.randrange(len(value) + 1)
        return value[:at] + rng.choice("\0%*./09a\ud800") + value[at + 1 :]
    value %= 1 << 999
    return rng.choice((value - 1, value + 1, -value, value * 2, value << 32, value + 0.5))


def _places(value: Any, held: tuple[str, ...]) -> Iterator[tuple[Any, Any]]:
    """Every entry of every object and list."""
    entries = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in entries:
        if key not in held:
            yield value, key
            if isinstance(inner, (dict, list)):
                yield from _places(inner, held)


def changed_bytes(data: bytes, rng: random.Random) -> bytes:
    """Some bytes flipped, left out, repeated or put in."""
    found = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        at, length = rng.randrange(len(found) + 1), rng.choice((1, 1, 4, 64))
        part = found[at : at + length]
        action = rng.randrange(4)
        if action == 0:
            found[at : at + length] = bytes(byte ^ (1 << rng.randrange(8)) for byte in part)
        elif action == 1:
            found[at : at + length] = b""
        elif action == 2:
            found[at:at] = part * rng.choice((1, 2, 100))
        else:
            found[at:at] = rng.randbytes(length)
    return bytes(found)
