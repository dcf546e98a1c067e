"""Inputs of other sizes, made of the example's elements."""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import torch
from torch.utils import _pytree as pytree

from aotpack.ir.symbolic.integers import Int, Var
from aotpack.stages import Signature
from aotpack.trace.eager import Call, in_program_order
from aotpack.trace.operators.random.seeds import Example

Change: TypeAlias = Callable[[torch.Tensor, Sequence[int]], torch.Tensor]


def leaves(call: Call) -> list[Any]:
    """The inputs in the order of the program's placeholders."""
    return in_program_order(call.program, *call.example)


def sizes_of(signature: Signature, tensors: Sequence[torch.Tensor]) -> dict[str, int]:
    """The sizes of the example by name, as far as one dimension tells them."""
    found: dict[str, int] = {}
    for spec, tensor in zip(signature.inputs, tensors, strict=True):
        for size, number in zip(spec.shape, tensor.shape, strict=False):
            names = [one for one in size.leaves() if isinstance(one, Var)]
            solved = _solved(size, names[0], number) if len(names) == 1 else None
            if solved is not None:
                found.setdefault(names[0].name, solved)
    return found


def _solved(size: Int, unknown: Var, number: int) -> int | None:
    """The value for which a dimension has its size, which grows with it; None if there is none."""
    values = range(unknown.low, unknown.high + 1)
    place = bisect_left(values, number, key=lambda value: size.evaluate({unknown.name: value}))
    found = values[place] if place < len(values) else unknown.high
    return found if size.evaluate({unknown.name: found}) == number else None


def resized(call: Call, values: Mapping[str, int], change: Change) -> Call:
    """The call on changed inputs, of other sizes."""
    specs = iter(call.signature.inputs)
    found: list[Any] = []
    for leaf in leaves(call):
        if isinstance(leaf, torch.Tensor):
            sizes = next(specs).shape[: leaf.dim()]
            leaf = change(leaf, [int(size.evaluate(values)) for size in sizes])
        found.append(leaf)
    return with_leaves(call, found)


def repeated(x: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """Its elements, repeated or cut."""
    for dim, (size, known) in enumerate(zip(shape, x.shape, strict=True)):
        if size != known:
            x = x.index_select(dim, torch.arange(size) % known)
    return x


def drawn(seed: int) -> Change:
    """Gives tensors of other sizes with elements in another order: the first are often alike.

    Of equal numbers, as in torch.zeros, others: they tell functions apart.
    """

    def change(x: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
        draw = np.random.default_rng(seed)
        if [*x.shape] == [*shape] or x.numel() == 0:
            return _varied(x, draw)
        if x.is_complex() or x.itemsize < 2 or x.numel() < 2 or _differ(x):
            places = torch.from_numpy(draw.integers(0, x.numel(), tuple(shape)))
            return x.reshape(-1)[places]
        return _varied(repeated(x, shape), draw)

    return change


def _differ(x: torch.Tensor) -> bool:
    return bool((x != x.reshape(-1)[0]).any())


def _varied(x: torch.Tensor, draw: np.random.Generator) -> torch.Tensor:
    few = x.is_complex() or x.itemsize < 2 or x.numel() < 2
    return x if few or _differ(x) else _drawn_like(x, draw)


def _drawn_like(x: torch.Tensor, draw: np.random.Generator) -> torch.Tensor:
    """Floats of a normal distribution, or integers up to its largest and 1."""
    if x.is_floating_point():
        return torch.from_numpy(draw.standard_normal(tuple(x.shape))).to(x.dtype)
    most = max(1, min(int(x.max()), 2**31))
    return torch.from_numpy(draw.integers(0, most + 1, tuple(x.shape))).to(x.dtype)


def random_like(leaf: Any, seed: int) -> Any:
    """Other numbers for a tensor; complex ones, and what is no tensor, stay as they are."""
    if not isinstance(leaf, torch.Tensor) or leaf.is_complex() or not leaf.numel():
        return leaf
    return _drawn_like(leaf, np.random.default_rng(seed))


def with_leaves(call: Call, found: Sequence[Any]) -> Call:
    """The call on other leaves, in the order of the program's placeholders."""
    example: Example = pytree.tree_unflatten(list(found), call.program.call_spec.in_spec)
    return replace(call, example=example)
