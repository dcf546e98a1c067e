"""Reads safetensors files through a memory map; every size is checked before a byte is used."""

import io
import math
import mmap
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Annotated, Any

import numpy as np

from .dtypes import BY_SAFETENSORS, COMPLEX, DTYPES, Array, DType
from .errors import WeightError
from .files.checked import Identity, identity_of, open_at_once
from .files.kinds import MOST, Count
from .files.schema import Mismatch, Parsed, read_record, shown
from .files.strict_json import parse_json

HEADER_LIMIT = 100_000_000
MOST_DIMENSIONS = 64
_PREFIX = 8
_OTHER_FORMATS = {
    b"PK": "a zip archive, such as torch.save and numpy.savez write",
    b"\x80": "a pickle, such as torch.save wrote before torch 1.6",
    b"GGUF": "a GGUF file",
    b"\x89HDF": "an HDF5 file",
}
_REAL = {dtype: DTYPES[real] for real, dtype in COMPLEX.items()}
_KNOWN = {**BY_SAFETENSORS, **{dtype.safetensors: dtype for dtype in _REAL}}


def _read_dtype(name: Any) -> DType:
    if not isinstance(name, str) or name not in _KNOWN:
        raise Mismatch(shown(name), ", ".join(_KNOWN))
    return _KNOWN[name]


@dataclass(frozen=True, slots=True)
class Entry:
    """A tensor of the header: its bytes lie from the first of ``data_offsets`` to the second."""

    dtype: Annotated[DType, Parsed(_read_dtype)]
    shape: tuple[Count, ...]
    data_offsets: tuple[Count, ...]

    def __post_init__(self) -> None:
        if len(self.shape) > MOST_DIMENSIONS:
            found = f"a list of {len(self.shape)}"
            raise Mismatch(found, f"at most {MOST_DIMENSIONS} dimensions").within("shape")
        if math.prod(filter(None, self.shape)) > MOST // self.dtype.itemsize:
            raise Mismatch(f"{[*self.shape]}", f"{MOST} bytes at most").within("shape")
        if len(self.data_offsets) != 2 or self.end - self.begin != self.size:
            what = f"{self.dtype}{[*self.shape]}"
            accepted = f"begin and end of {what}, which takes {self.size} bytes"
            raise Mismatch(f"{[*self.data_offsets]}", accepted).within("data_offsets")

    @property
    def begin(self) -> int:
        return self.data_offsets[0]

    @property
    def end(self) -> int:
        return self.data_offsets[1]

    @property
    def size(self) -> int:
        """Bytes, by type and shape."""
        return math.prod(self.shape) * self.dtype.itemsize

    def moved(self, start: int) -> "Entry":
        """The entry with offsets in the file, whose data begins at ``start``."""
        return replace(self, data_offsets=(start + self.begin, start + self.end))


@dataclass(frozen=True, slots=True)
class Stored:
    """A tensor in a file; ``data`` is a read-only view (bfloat16 as uint16 bits).

    Its bytes begin at byte ``begin`` of the file. Complex numbers are pairs, along a last dimension
    of 2.
    """

    dtype: DType
    shape: tuple[int, ...]
    data: Array
    begin: int = 0
    is_complex: bool = False


class TensorFile(dict[str, Stored]):
    """The tensors of the file at ``path``, which stays mapped while an array of it is alive."""

    def __init__(self, path: Path, identity: Identity, tensors: Mapping[str, Stored]) -> None:
        super().__init__(tensors)
        self.path, self.identity = path, identity


def read_safetensors(path: Path) -> TensorFile:
    """All tensors of a file by name."""
    try:
        with open(path, "rb", opener=open_at_once) as file:
            identity = identity_of(file, path)
            header = read_header(file, identity.size, path)
            mapped = mmap.mmap(file.fileno(), identity.size, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None
    return TensorFile(path, identity, _tensors(mapped, header))


def unreadable(path: Path, error: OSError | ValueError) -> WeightError:
    """Why a file of weights cannot be read."""
    reason = getattr(error, "strerror", None) or error
    return WeightError(f"reading {path}: {reason}; a safetensors file is accepted; check the path")


def parse_safetensors(content: bytes, path: Path) -> Mapping[str, Stored]:
    """All tensors of a file whose bytes have been read."""
    return _tensors(content, read_header(io.BytesIO(content), len(content), path))


def read_header(file: IO[bytes], size: int, path: Path) -> Mapping[str, Entry]:
    """The entries of a file of ``size`` bytes, in the order of their data."""
    begin = file.read(_PREFIX)
    length = int.from_bytes(begin, "little")
    if size < _PREFIX or length > min(HEADER_LIMIT, size - _PREFIX):
        reason = f"its {size} bytes do not hold the header they promise"
        raise _of_other_format(path, begin) or _damaged(path, reason)
    try:
        header = parse_json(file.read(length))
    except ValueError as error:
        damaged = _damaged(path, f"its header is not JSON ({error})")
        raise _of_other_format(path, begin) or damaged from None
    if not isinstance(header, dict):
        raise _damaged(path, "its header is not an object")
    try:
        read_record(Mapping[str, str], header.pop("__metadata__", {}))
        entries = read_record(Mapping[str, Entry], header)
    except Mismatch as error:
        raise _damaged(path, f"in its header {error}") from None
    start, available = _PREFIX + length, size - _PREFIX - length
    ordered = sorted(entries.items(), key=lambda item: (item[1].begin, item[1].end))
    _check_cover(path, ordered, available)
    return {name: entry.moved(start) for name, entry in ordered}


def _check_cover(path: Path, ordered: Sequence[tuple[str, Entry]], available: int) -> None:
    """Each byte of the data belongs to one tensor."""
    end = 0
    for name, entry in ordered:
        if entry.begin != end:
            what = "overlaps the one before it" if entry.begin < end else "lies behind a hole"
            raise _damaged(path, f"{name!a} {what}: it begins at byte {entry.begin}, not {end}")
        end = entry.end
    if end != available:
        raise _damaged(path, f"it holds {available} bytes of data, its header describes {end}")


def _tensors(whole: Any, header: Mapping[str, Entry]) -> dict[str, Stored]:
    return {name: _stored(whole, entry) for name, entry in header.items()}


def _stored(whole: Any, entry: Entry) -> Stored:
    kind = np.dtype(entry.dtype.storage)
    if entry.size:
        count = math.prod(entry.shape)
        data = np.frombuffer(whole, kind, count, entry.begin).reshape(entry.shape)
    else:
        data = np.empty(entry.shape, kind)
    real = _REAL.get(entry.dtype)
    if real is None:
        return Stored(entry.dtype, entry.shape, data, entry.begin)
    shape = (*entry.shape, 2)
    pairs = data.reshape(-1).view(real.storage).reshape(shape)
    return Stored(real, shape, pairs, entry.begin, is_complex=True)


def _of_other_format(path: Path, begin: bytes) -> WeightError | None:
    """The refusal of a file that begins as one of another format."""
    kinds = (kind for mark, kind in _OTHER_FORMATS.items() if begin.startswith(mark))
    kind = next(kinds, f"a text that begins with {begin.decode()!r}" if _is_text(begin) else None)
    if kind is None:
        return None
    return WeightError(
        f"reading {path}: it is {kind}; accepted: a safetensors file, as "
        "safetensors.torch.save_file(state_dict, path) writes, or the tensors by name "
        "themselves, such as torch.load(path)."
    )


def _is_text(begin: bytes) -> bool:
    """True for bytes that are no header's length, of which the last ones are 0, but text."""
    return len(begin) == _PREFIX and re.fullmatch(rb"[ -~\s]*", begin) is not None


def _damaged(path: Path, reason: str) -> WeightError:
    return WeightError(
        f"reading {path}: the file is truncated or damaged: {reason}. Copy or download it again."
    )
