"""Weights that only the weight program reads: on the device while it runs, and not longer."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

from ..devices.block import Block
from ..devices.device import Device
from ..errors import WeightError
from ..safetensors import Stored, TensorFile
from ..tensors import Weight
from .packing import align
from .streaming import Piece, stream

Digests: TypeAlias = Sequence[str]


class _Place(NamedTuple):
    """Where a weight was read from: a file, the digests of its chunks, the tensor in it."""

    file: TensorFile
    digests: Digests
    stored: Stored


class StagedWeights:
    """One device allocation for as long as it is needed, and where each weight was read from."""

    def __init__(self, weights: Sequence[Weight], device: Device) -> None:
        self._device = device
        self._block: Block | None = None
        self._offsets: dict[str, int] = {}
        self._places: dict[str, _Place] = {}
        self._size = 0
        self.present: set[str] = set()  # those that are in memory now
        for weight in weights:
            self._offsets[weight.name] = self._size
            self._size += align(weight.size)

    def __contains__(self, name: str) -> bool:
        return name in self._offsets

    def address(self, name: str) -> int:
        """The place of a weight, in memory that is allocated when first needed."""
        if self._block is None:
            self._block = Block(self._device, self._size)
        return self._block.address + self._offsets[name]

    def addresses(self) -> dict[str, int]:
        """The address of each, while there is memory."""
        return {name: self.address(name) for name in self._offsets} if self._block else {}

    def remember(self, chosen: Iterable[tuple[Weight, Any]], given: Any, digests: Digests) -> None:
        """Keep in mind from which file weights come, and its digests; no place for other values."""
        for weight, value in chosen:
            self._places.pop(weight.name, None)
            if isinstance(given, TensorFile) and weight.name in self:
                self._places[weight.name] = _Place(given, digests, value)

    def lost(self, names: Iterable[str]) -> list[str]:
        """Those of these weights that are neither in memory nor in a file."""
        return [name for name in names if name not in self.present and name not in self._places]

    def read_again(self, names: Iterable[str]) -> None:
        """Read weights that are not in memory, from the files they came from."""
        absent = {name: self._places[name] for name in names if name not in self.present}
        for path in dict.fromkeys(place.file.path for place in absent.values()):
            own = {name: place for name, place in absent.items() if place.file.path == path}
            pieces = [
                Piece(s.begin, s.begin + s.data.nbytes, self.address(name))
                for name, (_, _, s) in own.items()
            ]
            first = next(iter(own.values()))
            try:
                stream(self._device, path, first.digests, pieces, first.file.identity)
            except WeightError as error:
                more = f"Or bind all weights: it has {', '.join(own)}, which are needed again."
                raise WeightError(f"{str(error).rstrip('.')}. {more}") from None
            self.present |= own.keys()

    def release(self) -> None:
        """Free the memory."""
        self.present.clear()
        self._block = None
