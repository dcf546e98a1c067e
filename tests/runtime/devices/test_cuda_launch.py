"""One call of the driver for each step: its structs and parameters."""

import ctypes

import pytest

from aotpack.runtime.devices.cuda_launch import Function, StreamExecutor, attributes, relaxed
from aotpack.runtime.devices.device import Step
from aotpack.runtime.errors import DeviceError
from tests.runtime.fake_library import Call, FakeLibrary


def test_clusters_are_attributes_of_nodes_and_launches() -> None:
    assert attributes(Function(1, 128, 0, 1)) == []
    assert [(a.id, list(a.value[:3])) for a in attributes(Function(1, 128, 0, 2))] == [
        (4, [2, 1, 1]),
        (5, [1, 0, 0]),
    ]


CELLS = (ctypes.c_uint64 * 4)(0, 11, 22, 33)


class Library(FakeLibrary):
    """Notes the grid, the stream and the parameters of each launch."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[tuple[int, ...], int | None, tuple[int, ...]]] = []

    def _run(self, call: Call) -> None:
        self.seen.append((call[2], call[1]))


def step(*slots: int, num_ctas: int = 1) -> Step:
    return Step(Function(1, 128, 0, num_ctas), "add", (5, 2, 1), slots, 3, ())


def test_a_launch_points_into_the_cells_with_its_scratch_at_the_end() -> None:
    library = Library()
    library.load(lambda *args: None, 4)
    executor = StreamExecutor("fake:0", library, [step(2, 1, num_ctas=2)], CELLS)  # type: ignore[arg-type]
    executor.issue(0)
    CELLS[2] = 44
    executor.issue(0)
    assert library.seen == [((10, 2, 1), (22, 11, 33, 0)), ((10, 2, 1), (44, 11, 33, 0))]


def test_the_launch_that_fails_is_named() -> None:
    library = Library()
    library.fails["cuLaunchKernelEx"] = 701
    executor = StreamExecutor("fake:0", library, [step(1)], CELLS)  # type: ignore[arg-type]
    with pytest.raises(DeviceError, match="launching add on fake:0: the GPU lacks registers"):
        executor.issue(0)


def test_whatever_happens_inside_the_mode_of_capturing_is_put_back() -> None:
    library = FakeLibrary()
    with pytest.raises(ValueError, match="inside"), relaxed(library):  # type: ignore[arg-type]
        raise ValueError("inside")
    assert library.log == ["cuThreadExchangeStreamCaptureMode"] * 2
