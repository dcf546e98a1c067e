"""The methods of a package as one: what they share, each thing once."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from aotpack.ir.packs import largest, packs_of
from aotpack.render.c.kernels import host_file
from aotpack.render.interface import render_interfaces
from aotpack.stages import Golden, KernelSource, Rendered, Signature, Weight
from aotpack.trees import Tree


def join(name: str, version: str, methods: Mapping[str, Rendered]) -> Rendered:
    """One product of all methods: kernels are equal if their names are, which hold a digest."""
    every = methods.values()
    kernels = _kernels(kernel for one in every for kernel in one.kernels)
    calls = {call.name: call for one in every for call in one.calls}
    weights = _weights(every)
    used = {spelling for weight in weights for spelling in weight.names}
    unused = dict.fromkeys(n for one in every for n in one.signature.unused if n not in used)
    empty = Tree("tuple"), Tree("dict"), Tree("none")
    signature = Signature(name, version, (), (), (), *empty, unused=tuple(unused))
    return Rendered(
        signature,
        weights,
        Golden((), (), ()),
        kernels,
        wrapper="",
        peak_bytes=max(one.peak_bytes for one in every),
        host_file=host_file(f"{name} {version}", kernels),
        choices=tuple(sorted({key for one in every for key in one.choices})),
        settled=tuple(sorted({key for one in every for key in one.settled})),
        calls=tuple(sorted(calls.values(), key=lambda call: call.name)),
        interface=render_interfaces(
            f"{name} {version}", {method: one.signature for method, one in methods.items()}
        ),
        methods=methods,
    )


def _kernels(kernels: Iterable[KernelSource]) -> tuple[KernelSource, ...]:
    """Each kernel once, for all architectures that a method wants it for."""
    found: dict[str, KernelSource] = {}
    for kernel in kernels:
        known = found.get(kernel.name, kernel)
        found[kernel.name] = replace(
            known,
            arches=tuple(sorted({*known.arches, *kernel.arches})),
            is_spare=known.is_spare and kernel.is_spare,
        )
    return tuple(found.values())


def _weights(methods: Iterable[Rendered]) -> tuple[Weight, ...]:
    """Each weight once, in memory order; staged where only weight programs read it."""
    found: dict[str, Weight] = {}
    packs: list[tuple[str, ...]] = []
    for one in methods:
        packs += packs_of((weight.name, weight.follows) for weight in one.weights)
        for weight in one.weights:
            known = found.get(weight.name, weight)
            is_staged = known.is_staged and weight.is_staged
            found[weight.name] = replace(weight, follows=False, is_staged=is_staged)
    firsts = {pack[0]: pack for pack in largest(packs)}
    followers = {name for pack in firsts.values() for name in pack[1:]}
    return tuple(
        replace(found[name], follows=name in followers)
        for first in found
        if first not in followers
        for name in firsts.get(first, (first,))
    )
