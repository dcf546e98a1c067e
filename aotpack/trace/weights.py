"""Parameters, buffers and lifted constants as named bytes; contiguous ones are not copied.

Tied weights (the same storage, offset, shape and strides) are one ``Weight`` with every name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from aotpack.errors import TraceError, UnsupportedError
from aotpack.ir.dtypes import DType
from aotpack.stages import Weight
from aotpack.trace.complex_pairs import real_tensor

Memory: TypeAlias = tuple[Any, ...]
"""The address of a storage, then what of it a tensor is; a name for a tensor without elements."""

_WEIGHT_KINDS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


@dataclass(frozen=True, slots=True)
class Weights:
    """All weights: a name for each placeholder, tensor and tied names for each name."""

    by_placeholder: Mapping[str, str]
    tensors: Mapping[str, torch.Tensor]
    names: Mapping[str, tuple[str, ...]]
    constants: frozenset[str]
    shares: Mapping[str, tuple[str, ...]]

    def name_of(self, target: str) -> str:
        """The name of the weight that ``target`` is a name of."""
        return next(name for name, all_ in self.names.items() if target in all_)

    def weight(self, name: str) -> Weight:
        """The named weight with its bytes."""
        tensor = real_tensor(self.tensors[name])
        dtype = dtype_of(tensor.dtype, f"the weight {name}")
        return Weight(
            name,
            self.names[name],
            dtype,
            tuple(tensor.shape),
            bytes_of(tensor),
            name in self.constants,
            pairs=self.tensors[name].is_complex(),
            shares=self.shares.get(name, ()),
        )


def collect_weights(program: ExportedProgram) -> Weights:
    """Group the program's weights by memory; the first name is the weight's."""
    first: dict[tuple[Any, ...], str] = {}
    names: dict[str, list[str]] = {}
    tensors: dict[str, torch.Tensor] = {}
    by_placeholder: dict[str, str] = {}
    for spec in program.graph_signature.input_specs:
        if spec.kind not in _WEIGHT_KINDS or spec.target is None:
            continue
        tensor = weight_tensor(program, spec.target)
        name = first.setdefault(memory_of(tensor, spec.target), spec.target)
        tensors.setdefault(name, tensor)
        names.setdefault(name, []).append(spec.target)
        by_placeholder[spec.arg.name] = name
    for target, tensor in program.state_dict.items():
        name = first.get(memory_of(tensor, target), target)
        if name in names and target not in names[name]:
            names[name].append(target)
    tied = {name: tuple(all_) for name, all_ in names.items()}
    constants = frozenset(
        name for name, all_ in tied.items() if not any(n in program.state_dict for n in all_)
    )
    shares = overlapping({name: memory_of(one, name) for name, one in tensors.items()})
    return Weights(by_placeholder, tensors, tied, constants, shares)


def overlapping(memory: Mapping[str, Memory]) -> dict[str, tuple[str, ...]]:
    """The other tensors that lie in the memory of each, by storage and span of bytes."""
    spans: dict[int, list[tuple[int, int, str]]] = {}
    for name, (storage, *part) in memory.items():
        if isinstance(storage, int):
            offset, shape, strides, dtype, _ = part
            ends = offset, offset + _reach(shape, strides)
            start, end = (one * dtype.itemsize for one in ends)
            spans.setdefault(storage, []).append((start, end, name))
    found: dict[str, list[str]] = {}
    for several in spans.values():
        ordered = sorted(several)
        for number, (_, end, name) in enumerate(ordered):
            for start, _, other in ordered[number + 1 :]:
                if start >= end:
                    break
                if not _meet(memory[name], memory[other]):
                    continue
                found.setdefault(name, []).append(other)
                found.setdefault(other, []).append(name)
    return {name: tuple(sorted(others)) for name, others in found.items()}


def _reach(shape: Sequence[int], strides: Sequence[int]) -> int:
    """The elements from the first to the last."""
    return 1 + sum((size - 1) * step for size, step in zip(shape, strides, strict=True))


def _meet(one: Memory, other: Memory) -> bool:
    """Whether two tensors of one storage have an element in common; columns have none."""
    parts = [(offset, shape, strides) for _, offset, shape, strides, _, _ in (one, other)]
    if one[-2] != other[-2]:  # the types
        return True
    least = min(offset for offset, *_ in parts)
    most = max(offset + _reach(*sizes) for offset, *sizes in parts)
    places = torch.zeros(most - least, dtype=torch.bool)
    views = [places.as_strided(shape, strides, offset - least) for offset, shape, strides in parts]
    views[0].fill_(True)
    return bool(views[1].any())


def memory_of_names(program: ExportedProgram) -> dict[str, Memory]:
    """The view of memory that each name of a parameter, buffer or constant stands for."""
    named = {**program.constants, **program.state_dict}
    tensors = {name: one for name, one in named.items() if isinstance(one, torch.Tensor)}
    return {name: memory_of(tensor, name) for name, tensor in tensors.items()}


def weight_tensor(program: ExportedProgram, target: str) -> torch.Tensor:
    """The parameter, buffer or constant called ``target``."""
    found = program.state_dict.get(target)
    tensor = program.constants[target] if found is None else found
    assert isinstance(tensor, torch.Tensor)
    return tensor.detach()


def dtype_of(dtype: torch.dtype, what: str) -> DType:
    """Our element type for torch's; an error names ``what`` has it and the accepted types."""
    name = str(dtype).removeprefix("torch.")
    try:
        return DType(name)
    except ValueError:
        accepted = (
            "complex numbers are accepted as complex64 and complex128"
            if dtype.is_complex
            else f"accepted are {', '.join(map(str, DType))}"
        )
        raise UnsupportedError(f"{what} has the element type {name}; {accepted}") from None


def bytes_of(tensor: torch.Tensor) -> memoryview:
    """The elements in row-major order as unsigned bytes; shares memory with a contiguous tensor."""
    dense = tensor.detach().cpu().contiguous()
    flat = dense.as_strided((dense.numel(),), (1,))  # a dimension of size 1 may have any stride
    return flat.view(torch.uint8).numpy().data


def memory_of(tensor: torch.Tensor, name: str) -> Memory:
    """What of which memory a tensor is."""
    if tensor.numel() == 0:
        return (name,)
    if is_traceable_wrapper_subclass(tensor):
        parts, _ = tensor.__tensor_flatten__()
        return (type(tensor).__name__, *(memory_of(getattr(tensor, part), name) for part in parts))
    if isinstance(tensor, FakeTensor):
        raise TraceError(
            f"reading the tensors of the program: {name} has no data. torch.export in strict mode "
            "makes such tensors of memory that forward takes by .data. Write to the tensor itself, "
            "with torch.no_grad(), or leave out strict"
        )
    try:
        start = tensor.untyped_storage().data_ptr()
    except NotImplementedError as error:  # a tensor inside of torch.func.grad
        raise TraceError(
            f"reading the tensors of the program: {name} is a tensor of a transformation, such as "
            "torch.func.grad or jacrev, which the export keeps. Accepted are models without "
            "gradients: write them out, or give jvp, which is computed forward"
        ) from error
    layout = (tuple(tensor.shape), tensor.stride(), tensor.dtype, str(tensor.device))
    return (start, tensor.storage_offset(), *layout)
