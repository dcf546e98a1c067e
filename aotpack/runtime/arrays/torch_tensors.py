"""torch tensors as arguments and results, without importing torch. Results have no gradient."""

from collections.abc import Callable, Hashable, Sequence
from contextlib import nullcontext
from typing import Any

from ..checks.guards import Seen
from ..devices.device import Device, is_host
from ..dtypes import DTYPES, DType
from ..errors import ArgumentError
from ..strides import is_dense
from .orders import from_memory

_Spec = tuple[tuple[int, ...], tuple[int, ...], DType, tuple[int, ...]]
_FOREIGN = -1  # no DLPack device: never equal to the model's place


class TorchFramework:
    """Reads the addresses of tensors and allocates outputs with torch's allocator.

    With an overriding stream, outputs are allocated on it and inputs are recorded on it, so that
    torch's allocator does not reuse their memory while that stream uses it.
    """

    name, rank = "torch", 3

    def __init__(
        self, torch: Any, device: Device, stream: int | None, *, with_strides: bool
    ) -> None:
        self._with_strides = with_strides
        self._torch = torch
        self._empty: dict[str, Callable[..., Any]] = {}
        self._dtypes = {name: getattr(torch, name) for name in DTYPES if hasattr(torch, name)}
        kind, index = device.place
        self._device = torch.device("cpu") if is_host(device) else torch.device("cuda", index)
        self._kind = _FOREIGN if torch.version.cuda is None else 2  # of tensors with an index
        self._current: Callable[[int], int] | None = None
        self._external: Any = None
        self._use_stream = torch.cuda.stream
        if kind == 2 and torch.version.cuda is not None:  # a CPU torch may give weights
            self._current = torch._C._cuda_getCurrentRawStream
            if stream is not None:
                self._external = torch.cuda.ExternalStream(stream, device=self._device)

    def stream(self) -> int:
        return self._current(self._device.index) if self._current is not None else 0

    def read(self, values: Sequence[Any], stream: int) -> tuple[list[int], Hashable, Any]:
        addresses: list[int] = []
        facts = []
        try:
            for v in values:
                addresses.append(v.data_ptr())
                layout = v.stride() if self._with_strides else v.is_contiguous()
                facts.append((v.shape, v.dtype, v.get_device(), layout, v.is_neg()))
        except RuntimeError:
            raise _without_memory(values) from None
        if self._external is not None:
            for value in values:
                if value.device == self._device:
                    value.record_stream(self._external)
        return addresses, tuple(facts), values

    def seen(self, facts: Any, values: Sequence[Any]) -> list[Seen]:
        for value in values:
            if value.is_nested:
                raise _nested()
            _check_storage(value)
        return [
            Seen(
                "torch",
                tuple(shape),
                str(dtype).removeprefix("torch."),
                (self._kind, index) if index >= 0 else (1, 0),  # or meta, which has no memory
                is_dense(shape, layout) if self._with_strides else layout,
                is_negative,
                True,
                layout if self._with_strides else None if layout else value.stride(),
            )
            for value, (shape, dtype, index, layout, is_negative) in zip(values, facts, strict=True)
        ]

    def copied(
        self,
        values: Sequence[Any],
        copies: tuple[tuple[int, DType, tuple[int, ...]], ...],
        stream: int,
    ) -> Sequence[Any]:
        made = list(values)
        with nullcontext() if self._external is None else self._use_stream(self._external):
            for index, dtype, order in copies:
                resolved = values[index].detach().resolve_neg()
                made[index] = resolved.to(self._dtypes[dtype.name])
                if order:
                    made[index] = from_memory(made[index].permute(order).contiguous(), order)
        return made

    def empty(self, specs: Sequence[_Spec], stream: int) -> tuple[list[Any], list[int]]:
        if self._external is None:
            return self._made(specs)
        with self._use_stream(self._external):
            return self._made(specs)

    def _made(self, specs: Sequence[_Spec]) -> tuple[list[Any], list[int]]:
        tensors, addresses = [], []
        for shape, strides, dtype, _ in specs:
            empty = self._empty.get(dtype.name) or self._allocator(dtype.name)
            tensor = empty(shape, strides)
            tensors.append(tensor)
            addresses.append(tensor.data_ptr())
        return tensors, addresses

    def _allocator(self, dtype: str) -> Callable[..., Any]:
        """A method of an empty tensor, which takes half of the time of ``torch.empty``."""
        like = self._torch.empty(0, dtype=self._dtypes[dtype], device=self._device)
        return self._empty.setdefault(dtype, like.new_empty_strided)


def _check_storage(value: Any) -> None:
    """Refuse a tensor that ends outside of its storage, which may be resized."""
    held = value.untyped_storage().nbytes()
    steps = sum(stride * (n - 1) for stride, n in zip(value.stride(), value.shape, strict=True))
    end = (value.storage_offset() + steps + 1) * value.element_size()
    if value.numel() and end > held > 0:  # without any memory it is refused elsewhere
        raise ArgumentError(
            f"a torch tensor of shape {list(value.shape)} ends at byte {end} of a storage that has "
            f"{held}: it was resized; accepted: tensors inside of their storage"
        )


def _without_memory(values: Sequence[Any]) -> ArgumentError:
    """The error for the first tensor without an address or a shape."""
    for value in values:
        try:
            value.data_ptr(), value.shape
        except RuntimeError as error:
            if value.is_nested:
                return _nested()
            return ArgumentError(
                f"a torch tensor of layout {value.layout} has no plain memory "
                f"({str(error).splitlines()[0]}); accepted: dense tensors, outside of "
                "transformations (vmap, grad, export, fx)"
            )
    return ArgumentError("the memory of a torch tensor was given back meanwhile")


def _nested() -> ArgumentError:
    return ArgumentError(
        "it is a nested tensor; accepted: dense tensors, such as the padded one of "
        "torch.nested.to_padded_tensor(x, 0.0), if the model takes padding"
    )
