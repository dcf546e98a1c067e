"""The weights that the weight program computes: one device allocation."""

from collections.abc import Sequence

from ..devices.block import Block
from ..devices.device import Device
from ..tensors import DerivedWeight
from .packing import align

_STREAM = 0


class DerivedWeights:
    """The address of each derived weight; ``is_current`` once they are computed from the others."""

    def __init__(self, weights: Sequence[DerivedWeight], device: Device) -> None:
        self._device, self._weights = device, weights
        self._block: Block | None = None
        self.is_current = not weights
        self.total = sum(align(weight.bytes) for weight in weights)

    def reserve(self) -> None:
        """Allocate their memory; padding between rows is zero from then on."""
        if self._block is None and self._weights:
            block = Block(self._device, self.total)
            self._device.clear(block.address, self.total, _STREAM)
            self._block = block

    def places(self) -> dict[str, tuple[int, int]]:
        """The address and bytes of each; empty before ``reserve``."""
        found: dict[str, tuple[int, int]] = {}
        place = self._block.address if self._block else 0
        for weight in self._weights if self._block else ():
            found[weight.name] = (place, weight.bytes)
            place += align(weight.bytes)
        return found

    def addresses(self) -> dict[str, int]:
        """The address of each."""
        return {name: address for name, (address, _) in self.places().items()}

    def free(self) -> None:
        """Free their memory."""
        self._block = None
        self.is_current = not self._weights
