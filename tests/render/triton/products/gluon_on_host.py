"""Gluon's words for one program at a time, on tensors of torch: what a text computes, not where."""

import re
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

Tensor = torch.Tensor
_DTYPES = "int8 uint8 int32 int64 float32 float16 bfloat16".split()
_SKIPPED = (
    "BlockedLayout NVMMADistributedLayout SliceLayout DotOperandLayout SwizzledSharedLayout barrier"
).split()


class Pointer:
    """The elements of an array from an index on, or at each of some."""

    def __init__(self, elements: Tensor, index: Any = 0) -> None:
        self.elements, self.index = elements.view(-1), index

    def __add__(self, index: Any) -> "Pointer":
        return Pointer(self.elements, self.index + index)

    def to(self, dtype: torch.dtype) -> "Pointer":
        """Itself as an address."""
        return self

    def expand(self, shape: list[int]) -> "Pointer":
        return Pointer(self.elements, self.index.expand(shape))


class Shared:
    """Shared memory, or a part of it."""

    def __init__(self, elements: Tensor) -> None:
        self.elements = elements

    def slice(self, start: int, length: int, dim: int) -> "Shared":
        return Shared(self.elements.narrow(dim, start, length))

    def load(self, layout: Any) -> Tensor:
        return self.elements.clone()

    def store(self, value: Tensor) -> None:
        assert self.elements.shape == value.shape
        self.elements.copy_(value)


class _Copies:
    """Copies into shared memory, which are there after a wait for the groups they belong to."""

    def __init__(self) -> None:
        self.open = list[tuple[Shared, Pointer]]()
        self.groups = list[list[tuple[Shared, Pointer]]]()

    def async_load(self, place: Shared, source: Pointer) -> None:
        place.elements.fill_(85)  # what was there may be gone at once
        self.open.append((place, source))

    def commit_group(self) -> None:
        self.groups.append(self.open)
        self.open = []

    def wait_group(self, most: int) -> None:
        while len(self.groups) > most:
            for place, source in self.groups.pop(0):
                place.store(load(source))


class _Array(Tensor):
    """A tensor whose conversions may keep its bits."""

    def to(self, dtype: torch.dtype, bitcast: bool = False) -> Tensor:  # type: ignore[override]
        return self.view(dtype) if bitcast else super().to(dtype)


def load(place: Pointer, mask: Any = True, other: int = 0) -> Tensor:
    index, mask = torch.broadcast_tensors(torch.as_tensor(place.index), torch.as_tensor(mask))
    found = place.elements[torch.where(mask, index, 0)]
    return torch.where(mask, found, torch.zeros_like(found)).as_subclass(_Array)


def store(place: Pointer, value: Tensor, mask: Any = True) -> None:
    index, value, mask = torch.broadcast_tensors(place.index, value, torch.as_tensor(mask))
    place.elements[index[mask]] = value[mask].to(place.elements.dtype)


def _permuted(a: Any, b: Any, selector: int) -> Any:
    parts = [*a.view(np.uint8).reshape(-1, 4).T, *np.uint32(b).reshape(1).view(np.uint8)]
    chosen = [np.broadcast_to(parts[selector >> 4 * i & 7], a.shape) for i in range(4)]
    return np.stack(chosen, -1).astype(np.uint8).reshape(-1).view(np.uint32)


def _difference(a: Any, b: Any) -> Any:
    halves = [torch.from_numpy(one.view(np.int16).copy()).view(torch.bfloat16) for one in (a, b)]
    return (halves[0] - halves[1]).view(torch.int16).numpy().view(np.uint32)


def _halves(text: str, codes: Tensor) -> Tensor:
    """The instructions that the texts have, on four neighbours of 8 bits; two words of halves."""
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


def _digits(x: Tensor) -> list[Tensor]:
    """What the instructions on words do: carries included."""
    whole = x.to(torch.int64) + 0x808080
    low = [(whole >> 8 * place & 255) - 128 for place in range(3)]
    return [one.to(torch.int8) for one in (*low, whole >> 24)]


def _assembly(text: str, constraints: str, args: Sequence[Tensor], **how: Any) -> Any:
    if "prefetch" in text:
        start, length = args
        assert isinstance(start, Pointer) and start.elements.element_size() == 1
        assert length % 16 == start.index % 16 == 0 < length <= len(start.elements) - start.index
        return None
    (x,) = args
    if constraints.count("=") == 4:
        assert text.count("prmt.b32") == 8 and text.count("0x00808080") == 4
        return _digits(x)
    if constraints.count("=") == 2:
        return _halves(text, x)
    assert "0xF0F0F0F0" in text or "0x0F0F0F0F" in text
    return (x & 15) ^ 8 if "0x0F0F0F0F, 0x08080808, 0x6A" in text else x & -16


def _smaller(a: Any, b: Any) -> Any:
    return torch.clamp(a, max=b) if isinstance(a, Tensor) else min(a, b)


def run(text: str, name: str, programs: int, args: list[Tensor]) -> None:
    """Run the programs of a kernel's text."""
    number = [0]
    skip: Callable[..., None] = lambda *_, **__: None  # noqa: E731
    language = SimpleNamespace(
        **{one: getattr(torch, one) for one in (*_DTYPES, "where", "sum", "abs", "exp", "rsqrt")},
        **dict.fromkeys(_SKIPPED, skip),
        float8e4nv=torch.float8_e4m3fn,
        constexpr=int,
        arange=lambda start, end, layout: torch.arange(start, end, dtype=torch.int32).as_subclass(
            _Array
        ),
        zeros=lambda shape, dtype, layout: torch.zeros(shape, dtype=dtype),
        full=lambda shape, value, dtype, layout: torch.full(shape, value, dtype=dtype),
        allocate_shared_memory=lambda dtype, shape, layout: Shared(
            torch.zeros(shape, dtype=dtype).as_subclass(_Array)
        ),
        convert_layout=lambda value, *_, **__: value,
        inline_asm_elementwise=_assembly,
        program_id=lambda axis: number[0],
        num_programs=lambda axis: programs,
        broadcast_to=lambda value, shape: value.expand(shape),
        broadcast=torch.broadcast_tensors,
        expand_dims=torch.unsqueeze,
        split=lambda value: value.unbind(-1),
        join=lambda a, b: torch.stack((a, b), -1),
        max=torch.amax,
        maximum=torch.maximum,
        minimum=_smaller,
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
        "async_copy": _Copies(),
        "mma_v2": lambda left, right, sums: sums + (left.double() @ right.double()).to(sums.dtype),
    }
    text = text.replace(".type.layout", "")  # tensors of torch have none
    exec(re.sub(r"^(from|import) .*$", "", text, flags=re.MULTILINE), words)
    for number[0] in range(programs):
        words[name](*map(Pointer, args))
