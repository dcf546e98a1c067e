"""The memory of derived weights: allocated once, zero between rows, freed."""

import numpy as np

from aotpack.runtime.dtypes import DTYPES
from aotpack.runtime.memory.derived import DerivedWeights
from aotpack.runtime.tensors import DerivedWeight
from tests.runtime.fake_device import FakeDevice

F32 = DTYPES["float32"]
TWO = (DerivedWeight("a", F32, (3,), 12), DerivedWeight("b", F32, (2, 2), 80))


def test_each_weight_has_a_place_in_one_allocation(device: FakeDevice) -> None:
    derived = DerivedWeights(TWO, device)
    assert derived.places() == {} and derived.total == 512
    derived.reserve()
    (start,) = device.blocks
    assert derived.places() == {"a": (start, 12), "b": (start + 256, 80)}
    assert derived.addresses() == {"a": start, "b": start + 256}
    memory = np.empty(512, np.uint8)
    device.copy_out(memory.ctypes.data, start, 512, 0)
    assert not memory.any()


def test_memory_is_reserved_once_and_freed(device: FakeDevice) -> None:
    derived = DerivedWeights(TWO, device)
    derived.reserve()
    before = derived.places()
    derived.reserve()
    assert derived.places() == before and len(device.blocks) == 1
    derived.free()
    assert device.blocks == {} and derived.places() == {}


def test_a_model_without_any_takes_no_memory(device: FakeDevice) -> None:
    derived = DerivedWeights((), device)
    derived.reserve()
    assert derived.total == 0 and device.blocks == {}
