"""torch tensors as arguments and results, without importing torch. Results carry no gradient."""

from collections.abc import Callable, Hashable
from typing import Any

from .device import Device, is_host
from .dtypes import DTYPES, DType
from .errors import ArgumentError
from .guards import Seen

_PLACES = {"cpu": 1, "cuda": 2}
_FOREIGN = -1  # no DLPack device: never equal to the model's place


class TorchFramework:
    """Reads addresses off tensors and makes outputs with torch's allocator.

    With an overriding stream, outputs are allocated on it and inputs are recorded on it, so that
    torch's allocator does not hand their memory on while it is in use there.
    """

    name, rank = "torch", 3

    def __init__(self, torch: Any, device: Device, stream: int | None) -> None:
        self._empty = torch.empty
        self._dtypes = {name: getattr(torch, name) for name in DTYPES}
        kind, index = device.place
        self._device = torch.device("cpu") if is_host(device) else torch.device("cuda", index)
        self._current: Callable[[int], int] | None = None
        self._external: Any = None
        self._use_stream = torch.cuda.stream
        if kind == 2 and torch.version.cuda is not None:  # a CPU torch may still give weights
            self._current = torch._C._cuda_getCurrentRawStream
            if stream is not None:
                self._external = torch.cuda.ExternalStream(stream, device=self._device)

    def stream(self) -> int:
        return self._current(self._device.index) if self._current is not None else 0

    def read(self, value: Any, stream: int) -> tuple[int, Hashable, Any]:
        try:
            address = value.data_ptr()
        except RuntimeError as error:
            raise ArgumentError(
                f"reading a torch tensor of layout {value.layout}: it has no plain memory "
                f"({str(error).splitlines()[0]}); accepted: dense tensors"
            ) from None
        if self._external is not None and value.device == self._device:
            value.record_stream(self._external)
        return address, (value.shape, value.dtype, value.device, value.is_contiguous()), value

    def seen(self, facts: Any) -> Seen:
        shape, dtype, device, contiguous = facts
        place = (_PLACES.get(device.type, _FOREIGN), device.index or 0)
        return Seen("torch", tuple(shape), str(dtype).removeprefix("torch."), place, contiguous)

    def empty(self, shape: tuple[int, ...], dtype: DType, stream: int) -> tuple[Any, int]:
        if self._external is None:
            tensor = self._empty(shape, dtype=self._dtypes[dtype.name], device=self._device)
        else:
            with self._use_stream(self._external):
                tensor = self._empty(shape, dtype=self._dtypes[dtype.name], device=self._device)
        return tensor, tensor.data_ptr()
