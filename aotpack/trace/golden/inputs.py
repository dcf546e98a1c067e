"""Golden inputs: the example's own while they fit, else drawn from a seed in their place."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils import _pytree as pytree

from aotpack.runtime.dtypes import DTYPES
from aotpack.runtime.golden.drawn import Drawn
from aotpack.stages import DrawnInput, Recorded
from aotpack.trace.complex_pairs import real_tensor
from aotpack.trace.weights import bytes_of, dtype_of

_LOOKED_AT = 2**22  # elements whose statistics stand for all
_EXACT = 2**53  # integers up to here are numbers of JSON


@dataclass(frozen=True, slots=True)
class GoldenInputs:
    """Inputs kept whole, those drawn, and the draws by the identity of the example's tensors."""

    whole: tuple[Recorded, ...]
    drawn: tuple[DrawnInput, ...]
    draws: Mapping[int, DrawnInput]

    def given(self, example: Any) -> Any:
        """Nested arguments with drawn tensors in place of the example's."""
        tensors = {place: _tensor(one) for place, one in self.draws.items()}

        def drawn(leaf: Any) -> Any:
            if id(leaf) not in tensors:
                return leaf
            made = tensors[id(leaf)].to(leaf.device)
            return torch.view_as_complex(made) if leaf.is_complex() else made

        return pytree.tree_map(drawn, example)


def golden_inputs(
    names: Sequence[str], tensors: Sequence[torch.Tensor], available: float
) -> GoldenInputs:
    """Keep what fits into ``available`` bytes: integers and bools first, then small floats."""

    places = {number: id(tensor) for number, tensor in enumerate(tensors)}
    tensors = [real_tensor(one.detach()) for one in tensors]

    def rank(number: int) -> tuple[bool, int]:
        return tensors[number].is_floating_point(), _bytes(tensors[number])

    kept: set[int] = set()
    for number in sorted(range(len(names)), key=rank):
        size = _bytes(tensors[number])
        if size <= available and not tensors[number].is_meta:
            available -= size
            kept.add(number)
    whole: list[Recorded] = []
    drawn: list[DrawnInput] = []
    draws: dict[int, DrawnInput] = {}
    for number, (name, tensor) in enumerate(zip(names, tensors, strict=True)):
        dtype, shape = dtype_of(tensor.dtype, name), tuple(tensor.shape)
        if number in kept:
            whole.append((name, dtype, shape, bytes(bytes_of(tensor))))
            continue
        place = places[number]
        if place not in draws:
            draws[place] = DrawnInput(name, dtype, shape, number, *_range(tensor))
        drawn.append(replace(draws[place], name=name))
    return GoldenInputs(tuple(whole), tuple(drawn), draws)


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _range(tensor: torch.Tensor) -> tuple[float, float]:
    """Numbers between which an even draw is like the tensor.

    Floats: its mean and deviation, inside of its own range. Integers: its range. Bools: the share.
    """
    if tensor.is_meta:
        return (-1.0, 1.0) if tensor.is_floating_point() else (0.0, 0.0)
    flat = tensor.detach().reshape(-1)
    flat = flat[:: max(1, flat.numel() // _LOOKED_AT)].cpu()
    if tensor.dtype is torch.bool:
        return 0.0, float(flat.double().mean())
    if not tensor.is_floating_point():
        ends = int(flat.min()), int(flat.max())
        low, high = (float(max(-_EXACT, min(_EXACT, end))) for end in ends)
        return low, high
    wide = flat.double()
    wide = wide[wide.isfinite()]
    if not wide.numel():
        return 0.0, 0.0
    mean, spread = float(wide.mean()), math.sqrt(3.0) * float(wide.std(correction=0))
    return max(float(wide.min()), mean - spread), min(float(wide.max()), mean + spread)


def _tensor(one: DrawnInput) -> torch.Tensor:
    """The drawn tensor on the host."""
    stored = Drawn(DTYPES[str(one.dtype)], one.shape, one.seed, one.low, one.high).stored()
    return torch.from_numpy(stored).view(getattr(torch, str(one.dtype)))
