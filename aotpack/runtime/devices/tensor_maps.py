"""Descriptors of rectangles of memory (CUtensorMap) that compiled code takes as parameters.

The host makes one when a step is built, and changes its address when that of the tensor changes. A
parameter's bytes are copied by each launch, so work in flight keeps its own.
"""

import ctypes
from collections.abc import Sequence
from typing import NamedTuple

from ..tensors import KernelArg, MapForm, MapSource
from .cuda_errors import failure
from .device import Step

_BYTES, _ALIGNMENT = 128, 64  # of a CUtensorMap
_PROMOTED = 2  # CUtensorMapL2promotion: lines of 128 bytes


class MapSpec(NamedTuple):
    """A descriptor of a kernel: what it describes, what the code expects, and bytes an element."""

    source: MapSource
    form: MapForm
    itemsize: int


def map_specs(
    sources: Sequence[MapSource], forms: Sequence[MapForm], args: Sequence[KernelArg]
) -> tuple[MapSpec, ...]:
    """The descriptors that code takes: the first ones, or none if it makes them itself."""
    pairs = zip(sources[: len(forms)], forms, strict=True)
    return tuple(
        MapSpec(source, form, args[source.pointer].dtype.itemsize) for source, form in pairs
    )


class TensorMap:
    """A descriptor of a step, and the parameters that the compiler puts behind it: its sides."""

    def __init__(
        self,
        library: ctypes.CDLL,
        step: Step,
        spec: MapSpec,
        cells: "ctypes.Array[ctypes.c_uint64]",
    ) -> None:
        source, form = spec.source, spec.form
        values = {f"a{place}": _signed(cells[slot]) for place, slot in enumerate(step.slots)}
        self._sizes, self._strides = (
            [one.evaluate(values) for one in sides] for sides in (source.sizes, source.strides)
        )
        self._spec, self._name, self._library = spec, step.name, library
        self._cells, self._slot = cells, step.slots[source.pointer]
        self._offset = source.offset.evaluate(values) * spec.itemsize
        self._box = form.box
        self._known = -1
        self._memory = ctypes.create_string_buffer(_BYTES + _ALIGNMENT)
        self._address = -(-ctypes.addressof(self._memory) // _ALIGNMENT) * _ALIGNMENT
        self._numbers = [
            *(ctypes.c_int32(size) for size in self._sizes),
            *(ctypes.c_int64(stride) for stride in self._strides),
        ]

    @property
    def parameters(self) -> tuple[int, ...]:
        """The addresses of the parameters."""
        return (self._address, *map(ctypes.addressof, self._numbers))

    def refresh(self, device: str) -> None:
        """Describe the tensor where it lies now."""
        address = self._cells[self._slot]
        if address == self._known:
            return
        count = len(self._sizes)
        sizes = (ctypes.c_uint64 * count)(*(max(1, size) for size in reversed(self._sizes)))
        bytes_apart = (stride * self._spec.itemsize for stride in reversed(self._strides[:-1]))
        strides = (ctypes.c_uint64 * (count - 1))(*bytes_apart)
        box = (ctypes.c_uint32 * count)(*reversed(self._box))
        steps = (ctypes.c_uint32 * count)(*(1 for _ in range(count)))
        status = self._library.cuTensorMapEncodeTiled(
            ctypes.c_void_p(self._address),
            self._spec.form.element,
            count,
            ctypes.c_void_p(address + self._offset),
            *(sizes, strides, box, steps),
            *(0, self._spec.form.swizzle, _PROMOTED, 0),
        )
        if status:
            raise failure(f"describing an argument of {self._name} on {device}", status)
        self._known = address


def tensor_maps(
    library: ctypes.CDLL, step: Step, cells: "ctypes.Array[ctypes.c_uint64]"
) -> list[TensorMap]:
    """The descriptors of a step."""
    return [TensorMap(library, step, spec, cells) for spec in step.kernel.maps]


def _signed(cell: int) -> int:
    return cell - (1 << 64) if cell >> 63 else cell
