"""The golden data of a package: the tensors of its file, and the inputs that are drawn."""

from collections.abc import Mapping
from pathlib import Path

from ..safetensors import Stored, read_safetensors
from .drawn import Drawn


def read_golden(file: Path, drawn: Mapping[str, Drawn]) -> Mapping[str, Stored]:
    """All tensors by name: inputs/NAME, outputs/NAME, updates/NAME, and limits of results."""
    tensors = dict(read_safetensors(file))
    for name, one in drawn.items():
        tensors[f"inputs/{name}"] = Stored(one.dtype, one.shape, one.stored())
    return tensors
