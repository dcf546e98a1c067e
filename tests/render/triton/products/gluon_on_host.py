"""Gluon's words for one program at a time, on tensors of torch: what a text computes, not where."""

import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

Tensor = torch.Tensor


class Pointer:
    """The elements of an array from an index on, or at each of some."""

    def __init__(self, elements: Tensor, index: Any = 0) -> None:
        self.elements, self.index = elements.view(-1), index

    def __add__(self, index: Any) -> "Pointer":
        return Pointer(self.elements, self.index + index)

    def expand(self, shape: list[int]) -> "Pointer":
        return Pointer(self.elements, self.index.expand(shape))


def load(place: Pointer, mask: Any = True, other: int = 0) -> Tensor:
    index, mask = torch.broadcast_tensors(torch.as_tensor(place.index), torch.as_tensor(mask))
    found = place.elements[torch.where(mask, index, 0)]
    return torch.where(mask, found, torch.zeros_like(found))


def store(place: Pointer, value: Tensor, mask: Any = True) -> None:
    index, value, mask = torch.broadcast_tensors(place.index, value, torch.as_tensor(mask))
    place.elements[index[mask]] = value[mask]


def _permuted(a: Any, b: Any, selector: int) -> Any:
    parts = [*a.view(np.uint8).reshape(-1, 4).T, *np.uint32(b).reshape(1).view(np.uint8)]
    chosen = [np.broadcast_to(parts[selector >> 4 * i & 7], a.shape) for i in range(4)]
    return np.stack(chosen, -1).astype(np.uint8).reshape(-1).view(np.uint32)


def _difference(a: Any, b: Any) -> Any:
    halves = [torch.from_numpy(one.view(np.int16).copy()).view(torch.bfloat16) for one in (a, b)]
    return (halves[0] - halves[1]).view(torch.int16).numpy().view(np.uint32)


def assembly(text: str, constraints: str, args: Any, **how: Any) -> Tensor:
    """The instructions that the texts have, on four neighbours of 8 bits; two words of halves."""
    (codes,) = args
    words = codes.contiguous().numpy().reshape(-1).view(np.uint32)
    names: dict[str, Any] = {"$2": words}
    for name, rest in re.findall(r"^ +(mov|prmt|lop3|shr|sub)\S* (.*);$", text, re.MULTILINE):
        target, *given = (one.strip() for one in rest.split(","))
        a, *more = (names[one] if one in names else int(one, 0) for one in given)
        match name:
            case "mov":
                names[target] = np.full_like(words, a)
            case "prmt":
                names[target] = _permuted(a, *more)
            case "lop3":
                mask, other, table = more
                anded = a & np.uint32(mask)
                names[target] = anded ^ np.uint32(other) if table == 0x6A else anded | other
            case "shr":
                names[target] = a >> np.uint32(more[0])
            case "sub":
                names[target] = _difference(a, np.broadcast_to(*more, a.shape).copy())
    found = np.stack([names["$0"], names["$1"]], -1).astype(np.uint32).reshape(-1)
    return torch.from_numpy(found.view(np.int16).copy()).view(torch.bfloat16).view(codes.shape)


def run(text: str, name: str, programs: int, args: list[Tensor]) -> None:
    """Run the programs of a kernel's text."""
    number = [0]
    skip: Callable[..., None] = lambda *_, **__: None  # noqa: E731
    language = SimpleNamespace(
        **{one: getattr(torch, one) for one in ("bfloat16", "float32", "where", "sum")},
        **dict.fromkeys(
            ("BlockedLayout", "NVMMADistributedLayout", "SliceLayout", "DotOperandLayout"), skip
        ),
        constexpr=int,
        arange=lambda start, end, layout: torch.arange(start, end),
        zeros=lambda shape, dtype, layout: torch.zeros(shape, dtype=dtype),
        convert_layout=lambda value, *_, **__: value,
        inline_asm_elementwise=assembly,
        program_id=lambda axis: number[0],
        broadcast_to=lambda value, shape: value.expand(shape),
        load=load,
        store=store,
    )
    plain = SimpleNamespace(jit=lambda function: function)
    words: dict[str, Any] = {
        "tl": language,
        "gl": language,
        "triton": plain,
        "gluon": plain,
        "gdc_wait": skip,
        "gdc_launch_dependents": skip,
        "mma_v2": lambda left, right, sums: sums + left.float() @ right.float(),
    }
    exec(re.sub(r"^(from|import) .*$", "", text, flags=re.MULTILINE), words)
    for number[0] in range(programs):
        words[name](*map(Pointer, args))
