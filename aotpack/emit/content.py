"""A file of the package: its path, size, hash, and its bytes in pieces.

Weights may be large: they are read piece by piece, never concatenated.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from aotpack.ir.dtypes import DType
from aotpack.runtime.files.chunks import CHUNK

_PIECE = 1 << 24
_HEADER_ALIGNMENT = 8


@dataclass(frozen=True)
class Content:
    """A file at ``path`` (with slashes), made of ``pieces``; ``is_packed``: not compressible."""

    path: str
    pieces: tuple[memoryview, ...]
    is_packed: bool = False

    @classmethod
    def of(cls, path: str, data: bytes) -> "Content":
        return cls(path, (memoryview(data),))

    @property
    def size(self) -> int:
        return sum(piece.nbytes for piece in self.pieces)

    @cached_property
    def sha256(self) -> bytes:
        digest = hashlib.sha256()
        for piece in self.walk():
            digest.update(piece)
        return digest.digest()

    def chunk_digests(self) -> list[str]:
        """The sha256 of each chunk that a runtime reads at once."""
        found, digest, room = [], hashlib.sha256(), CHUNK
        for piece in self.walk():
            while piece:
                digest.update(piece[:room])
                piece, room = piece[room:], room - len(piece[:room])
                if not room:
                    found.append(digest.hexdigest())
                    digest, room = hashlib.sha256(), CHUNK
        return found if room == CHUNK else [*found, digest.hexdigest()]

    def moved(self, path: str) -> "Content":
        """The same file at another path; its hash, if known, is kept."""
        moved = Content(path, self.pieces, self.is_packed)
        if "sha256" in self.__dict__:
            moved.__dict__["sha256"] = self.sha256
        return moved

    def walk(self) -> Iterator[memoryview]:
        """The bytes in pieces of bounded size."""
        for piece in self.pieces:
            for start in range(0, piece.nbytes, _PIECE):
                yield piece[start : start + _PIECE]

    def write(self, folder: Path) -> None:
        """Write the file below ``folder``."""
        target = folder / self.path
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as file:
            for piece in self.walk():
                file.write(piece)


def safetensors(
    path: str, tensors: Iterable[tuple[str, DType, tuple[int, ...], memoryview]]
) -> Content:
    """A safetensors file; tensors are written in the order given."""
    header: dict[str, object] = {}
    pieces: list[memoryview] = []
    end = 0
    for name, dtype, shape, data in tensors:
        header[name] = {
            "dtype": dtype.facts.safetensors,
            "shape": list(shape),
            "data_offsets": [end, end + data.nbytes],
        }
        pieces.append(data)
        end += data.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _HEADER_ALIGNMENT)
    start = memoryview(len(text).to_bytes(8, "little") + text)
    return Content(path, (start, *pieces), is_packed=True)
