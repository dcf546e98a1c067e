"""Reads safetensors files through a memory map; every size is checked before a byte is used."""

import json
import math
import mmap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .dtypes import BY_SAFETENSORS, Array, DType
from .errors import WeightError

HEADER_LIMIT = 100_000_000


@dataclass(frozen=True, slots=True)
class Stored:
    """A tensor in a file; ``data`` is a read-only view of the map (bfloat16 as uint16 bits)."""

    dtype: DType
    shape: tuple[int, ...]
    data: Array


def read_safetensors(path: Path) -> Mapping[str, Stored]:
    """All tensors of a file by name. The file stays mapped while an array of it is alive."""
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
    except OSError as error:
        raise WeightError(f"reading {path}: {error.strerror or error}; check the path") from None
    header_size = int.from_bytes(mapped[:8], "little")
    if size < 8 or header_size > min(HEADER_LIMIT, size - 8):
        raise _damaged(path, f"its {size} bytes do not hold the header they promise")
    header = _header(path, mapped[8 : 8 + header_size])
    start, available = 8 + header_size, size - 8 - header_size
    whole = np.frombuffer(mapped, np.uint8)[start:] if available else np.empty(0, np.uint8)
    tensors: dict[str, Stored] = {}
    end = 0
    for name, entry in header.items():
        stored = _tensor(path, name, entry, whole)
        tensors[name] = stored
        end = max(end, entry["data_offsets"][1])
    if end != available:
        raise _damaged(path, f"it holds {available} bytes of data, its header describes {end}")
    return tensors


def _header(path: Path, text: bytes) -> dict[str, Any]:
    try:
        header = json.loads(text)
    except ValueError:
        raise _damaged(path, "its header is not JSON") from None
    if not isinstance(header, dict):
        raise _damaged(path, "its header is not an object")
    header.pop("__metadata__", None)
    return header


def _tensor(path: Path, name: str, entry: Any, whole: Array) -> Stored:
    try:
        dtype, shape = BY_SAFETENSORS[entry["dtype"]], tuple(map(int, entry["shape"]))
        begin, end = map(int, entry["data_offsets"])
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(
            path, f"the header's entry for {name!r} lacks or misstates {error}"
        ) from None
    if not 0 <= begin <= end <= len(whole):
        raise _damaged(
            path, f"{name!r} lies at bytes {begin} to {end} of {len(whole)} bytes of data"
        )
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != end - begin:
        raise _damaged(
            path, f"{name!r} is {dtype}{list(shape)} by its header and takes {end - begin} bytes"
        )
    data = np.frombuffer(whole[begin:end], np.dtype(dtype.storage)) if end > begin else None
    return Stored(
        dtype, shape, np.empty(shape, dtype.storage) if data is None else data.reshape(shape)
    )


def _damaged(path: Path, reason: str) -> WeightError:
    return WeightError(
        f"reading {path}: the file is truncated or damaged: {reason}. Copy or download it again."
    )
