import weakref

import pytest

from aotpack.runtime.devices.block import Block
from aotpack.runtime.errors import DeviceError
from tests.runtime.fake_device import FakeDevice


@pytest.mark.parametrize("is_shared", [False, True])
def test_memory_lives_as_long_as_its_block(is_shared: bool) -> None:
    device = FakeDevice()
    block = Block(device, 100, is_shared=is_shared)
    other = block
    assert block.address in device.blocks and block.size == 100
    del block
    assert len(device.blocks) == 1
    del other
    assert device.blocks == {}


def test_a_device_that_has_no_memory_left_says_so() -> None:
    with pytest.raises(DeviceError, match="no memory left"):
        Block(FakeDevice(capacity=100), 1000)


def test_a_driver_that_is_gone_is_not_asked_twice() -> None:
    class Gone(FakeDevice):
        def free(self, address: int) -> None:
            raise DeviceError("the driver is shutting down")

    block = weakref.ref(Block(Gone(), 100))
    assert block() is None
