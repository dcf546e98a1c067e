"""The weight program: what depends on weights alone, computed once on the device."""

from collections.abc import Mapping, Set
from dataclasses import replace
from functools import cached_property

from .checks.debugging import Watch, weight_lengths
from .checks.plans import check_types
from .devices.device import Device
from .manifest import Manifest, Signature
from .memory.arena import Arena
from .memory.layout import Loaded
from .plan import Branch, Loop, Place, Plan, Repeat, SizeRead, parts
from .prepare import Prepared, prepare
from .structures.trees import Tree

_STREAM = 0


class WeightProgram:
    """The launches that compute derived weights from others."""

    def __init__(
        self,
        manifest: Manifest,
        plan: Plan,
        kernels: Mapping[str, Loaded],
        device: Device,
        debug: str | None,
    ) -> None:
        check_types(manifest, plan)
        self._manifest, self._plan, self._kernels = manifest, plan, kernels
        self._device, self._debug = device, debug
        self._own = frozenset(buffer.name for buffer in plan.buffers)
        self._weights = frozenset(weight.name for weight in manifest.weights) - self._own

    @cached_property
    def reads(self) -> frozenset[str]:
        """The weights that it reads."""
        return self.reads_of(self._plan)

    @cached_property
    def makes(self) -> frozenset[str]:
        """The derived weights that it computes; those of other architectures take no memory."""
        derived = frozenset(weight.name for weight in self._manifest.derived)
        return derived & self._touched_by(self._plan)

    def reads_of(self, plan: Plan) -> frozenset[str]:
        """The weights that a part of it reads."""
        return self._touched_by(plan) & self._weights

    def affected(self, changed: Set[str]) -> Plan:
        """The launches to run again when weights have changed, at least.

        Launches that touch the same tensor, weights aside, run together: names stand for memory
        that several intermediates share.
        """
        places = [(self._touched(place), place) for place in self._plan.launches]
        run = {number for number, (names, _) in enumerate(places) if names & changed}
        count = -1
        while count < len(run):
            count = len(run)
            shared = frozenset[str]().union(*(places[number][0] for number in run)) - self._weights
            run |= {number for number, (names, _) in enumerate(places) if names & shared}
        kept = (place if number in run else () for number, (_, place) in enumerate(places))
        return self._plan._replace(launches=tuple(kept))

    def run(self, plan: Plan, addresses: Mapping[str, int]) -> None:
        """Run it, or a part of it, on weights at these addresses; the device is done on return.

        Its intermediates live in memory of their own, which is free again afterwards.
        """
        manifest, device = self._manifest, self._device
        watch = None
        if self._debug is not None:
            lengths = weight_lengths(manifest)
            watch = Watch(manifest.signature.name, device, self._debug, lengths)
        given = {name: address for name, address in addresses.items() if name not in self._own}
        arena: Arena[Prepared] = Arena(device)
        signature = _without_tensors(manifest.signature)
        try:
            made = prepare(signature, plan, self._kernels, given, arena, device, watch=watch)
            made.issue(_STREAM)
        finally:
            device.synchronize(None)
            arena.free()

    def _touched_by(self, plan: Plan) -> frozenset[str]:
        """The tensors that its launches take."""
        return frozenset[str]().union(*(self._touched(place) for place in plan.launches))

    def _touched(self, place: Place) -> frozenset[str]:
        """The tensors that the launches of a place take; everything for a branch or loop."""
        if isinstance(place, (Branch, Loop, SizeRead, Repeat)):
            derived = (weight.name for weight in self._manifest.derived)
            return self._weights.union(self._own, derived)
        names = (arg for launch in parts(place) for arg in launch.args if isinstance(arg, str))
        return frozenset(names)


def _without_tensors(signature: Signature) -> Signature:
    """The signature of a program that takes and returns nothing."""
    return replace(
        signature,
        sizes=(),
        inputs=(),
        outputs=(),
        args=Tree("tuple"),
        kwargs=Tree("dict"),
        result=Tree("none"),
        positional=(),
        updates=(),
        assertions=(),
    )
