"""The port to a machine: a device is current inside a block, whatever ends it."""

import pytest

from aotpack.runtime.devices.device import active, is_host
from tests.runtime.fake_device import FakeDevice


class Current(FakeDevice):
    """Counts who has made it current; where it was already, nobody must undo it."""

    def __init__(self, depth: int = 0) -> None:
        super().__init__()
        self.depth = depth

    def enter(self) -> bool:
        if self.depth:
            return False
        self.depth += 1
        return True

    def leave(self) -> None:
        self.depth -= 1


def test_a_device_is_current_inside_the_block_alone() -> None:
    device = Current()
    with active(device):
        with active(device):
            assert device.depth == 1
        assert device.depth == 1
    assert device.depth == 0


def test_who_had_it_current_before_keeps_it() -> None:
    device = Current(depth=1)
    with active(device):
        pass
    assert device.depth == 1


def test_an_error_inside_leaves_no_device_current() -> None:
    device = Current()
    with pytest.raises(ValueError, match="inside"), active(device):
        raise ValueError("inside")
    assert device.depth == 0


@pytest.mark.parametrize(("place", "host"), [((1, 0), True), ((2, 0), False), ((3, 0), False)])
def test_a_host_computes_on_host_memory(place: tuple[int, int], host: bool) -> None:
    assert is_host(FakeDevice(place)) is host
