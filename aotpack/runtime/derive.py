"""Runs the weight program: weights that depend on weights alone, computed once on the device."""

from collections.abc import Mapping
from dataclasses import replace

from .checks.debugging import Watch, weight_lengths
from .checks.plans import check_types
from .devices.device import Device
from .manifest import Manifest, Signature
from .memory.arena import Arena
from .memory.layout import Loaded
from .plan import Plan
from .prepare import Prepared, prepare
from .structures.trees import Tree

_STREAM = 0


def derive(
    manifest: Manifest,
    plan: Plan,
    kernels: Mapping[str, Loaded],
    weights: Mapping[str, int],
    device: Device,
    debug: str | None,
) -> None:
    """Run the weight program on weights at these addresses; returns when the device is done.

    Its intermediates live in memory of their own, which is free again afterwards.
    """
    check_types(manifest, plan)
    watch = None
    if debug is not None:
        watch = Watch(manifest.signature.name, device, debug, weight_lengths(manifest))
    own = {buffer.name for buffer in plan.buffers}
    given = {name: address for name, address in weights.items() if name not in own}
    arena: Arena[Prepared] = Arena(device)
    signature = _without_tensors(manifest.signature)
    try:
        prepare(signature, plan, kernels, given, arena, device, watch=watch).issue(_STREAM)
    finally:
        device.synchronize(None)
        arena.free()


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
