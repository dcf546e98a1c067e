"""Descriptors that a launch passes: what the driver is asked for, and when again."""

import ctypes
from typing import Any

import pytest

from aotpack.runtime.devices.cuda_launch import Function
from aotpack.runtime.devices.device import Step
from aotpack.runtime.devices.tensor_maps import TensorMap, map_specs, tensor_maps
from aotpack.runtime.dtypes import DTYPES
from aotpack.runtime.errors import DeviceError
from aotpack.runtime.sizes import Size
from aotpack.runtime.tensors import KernelArg, MapForm, MapSource

ARGS = (KernelArg(DTYPES["float16"], True, False), KernelArg(DTYPES["int32"], False, False))
SOURCE = MapSource(0, Size("8*a1"), (Size("a1"), Size(64)), (Size(128), Size(1)))
FORM = MapForm(3, 6, (32, 64))


class Library:
    """The part of the driver that describes memory; it notes what it is asked."""

    def __init__(self, status: int = 0) -> None:
        self.status, self.asked = status, list[tuple[Any, ...]]()

    def cuTensorMapEncodeTiled(self, *args: Any) -> int:  # noqa: N802
        _, element, rank, address, sizes, strides, box, steps, *rest = args
        lists = tuple(tuple(one) for one in (sizes, strides, box, steps))
        self.asked.append((element, rank, address.value, *lists, *rest))
        return self.status


def made(library: Any, rows: int = 40) -> tuple[TensorMap, Any]:
    cells = (ctypes.c_uint64 * 3)(0, 4096, rows)
    function = Function(1, 128, 0, 1, False, map_specs((SOURCE,), (FORM,), ARGS))
    step = Step(function, "k", (1, 1, 1), (1, 2), 0, ())
    (found,) = tensor_maps(library, step, cells)
    return found, cells


def test_sides_are_described_innermost_first() -> None:
    library = Library()
    found, _ = made(library)
    found.refresh("cuda:0")
    assert library.asked == [(6, 2, 4096 + 2 * 320, (64, 40), (256,), (64, 32), (1, 1), 0, 3, 2, 0)]
    address, *numbers = found.parameters
    assert address % 64 == 0 and len(numbers) == 4
    sizes = [ctypes.c_int32.from_address(one).value for one in numbers[:2]]
    strides = [ctypes.c_int64.from_address(one).value for one in numbers[2:]]
    assert sizes == [40, 64] and strides == [128, 1]


def test_a_tensor_is_described_again_where_it_has_moved() -> None:
    library = Library()
    found, cells = made(library)
    for place in (4096, 4096, 8192):
        cells[1] = place
        found.refresh("cuda:0")
    assert [asked[2] for asked in library.asked] == [4736, 8832]


def test_an_empty_side_is_one_element() -> None:
    library = Library()
    made(library, rows=0)[0].refresh("cuda:0")
    assert library.asked[0][3] == (64, 1)


def test_what_cannot_be_described_is_said() -> None:
    found, _ = made(Library(status=1))
    with pytest.raises(DeviceError, match="describing an argument of k on cuda:0"):
        found.refresh("cuda:0")


def test_code_that_makes_descriptors_itself_takes_none() -> None:
    assert map_specs((SOURCE,), (), ARGS) == ()


def test_code_takes_the_first_descriptors_of_its_kernel() -> None:
    """What is compiled of another text takes fewer, or none."""
    forms = [map_specs((SOURCE, SOURCE), (FORM,) * count, ARGS) for count in range(3)]
    assert [len(one) for one in forms] == [0, 1, 2]
