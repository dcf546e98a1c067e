"""The weights that the weight program computes: one device allocation."""

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Protocol

from ..devices.block import Block
from ..devices.device import Device
from ..plan import Plan
from ..tensors import DerivedWeight
from .packing import align


class Derivation(Protocol):
    """What binding weights asks of the weight program."""

    @property
    def reads(self) -> frozenset[str]:
        """The weights that it reads."""

    @property
    def makes(self) -> frozenset[str]:
        """The derived weights that it computes."""

    def reads_of(self, plan: Plan) -> frozenset[str]:
        """The weights that a part of it reads."""

    def affected(self, changed: Set[str]) -> Plan:
        """The part of it to run again when weights have changed."""

    def run(self, plan: Plan, addresses: Mapping[str, int]) -> None:
        """Run it, or a part of it, on weights at these addresses; the device is done on return."""


class DerivedWeights:
    """The address of each derived weight, once there is memory for them."""

    def __init__(self, weights: Sequence[DerivedWeight], device: Device) -> None:
        self._device, self._weights = device, weights
        self._block: Block | None = None
        self.total = sum(align(weight.bytes) for weight in weights)

    def bytes_of(self, names: Iterable[str]) -> int:
        """The bytes of those of them that are named."""
        wanted = {*names}
        return sum(align(weight.bytes) for weight in self._weights if weight.name in wanted)

    def reserve(self) -> None:
        """Allocate their memory; padding between rows is zero from then on."""
        if self._block is None and self._weights:
            block = Block(self._device, self.total)
            self._device.clear(block.address, self.total)
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
