"""Timing on a GPU: replays of one graph count, by the GPU's clock, and everything is given back."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from aotpack.runtime.devices.cuda import CudaDevice
from aotpack.runtime.devices.cuda_timing import gpu_name, gpu_seconds
from aotpack.runtime.errors import DeviceError


class Driver:
    """As much of cuda.bindings.driver as timing needs; a replay takes ``seconds`` of its clock."""

    CUstreamCaptureMode = SimpleNamespace(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL=1)

    def __init__(self, seconds: float, fails: str = "") -> None:
        self.seconds, self.fails = seconds, fails
        self.clock = 0.0
        self.marks: dict[int, float] = {}
        self.alive: list[str] = []
        self.replays = 0

    def __getattr__(self, name: str) -> Callable[..., tuple[Any, ...]]:
        kind = name.removeprefix("cu").removesuffix("Create").removesuffix("Destroy")

        def call(*args: Any) -> tuple[Any, ...]:
            if name == self.fails:
                return (719, None)
            if name.endswith("Create") or name in ("cuGraphInstantiate", "cuStreamEndCapture"):
                self.alive.append({"GraphInstantiate": "GraphExec"}.get(kind, kind))
                return (0, len(self.alive))
            if name.endswith("Destroy"):
                self.alive.remove("StreamEndCapture" if kind == "Graph" else kind)
            return (0,)

        return call

    def cuGraphLaunch(self, graph: int, stream: int) -> tuple[int]:  # noqa: N802
        self.clock += self.seconds
        self.replays += 1
        return (0,)

    def cuEventRecord(self, event: int, stream: int) -> tuple[int]:  # noqa: N802
        self.marks[event] = self.clock
        return (0,)

    def cuEventElapsedTime(self, first: int, second: int) -> tuple[int, float]:  # noqa: N802
        return 0, (self.marks[second] - self.marks[first]) * 1e3

    def cuDeviceGetName(self, length: int, number: int) -> tuple[int, bytes]:  # noqa: N802
        return 0, b"NVIDIA H200\0\0\0"


def gpu(driver: Driver) -> CudaDevice:
    """A device with this driver that was never opened."""
    device = CudaDevice.__new__(CudaDevice)
    device.driver, device.number = driver, 0
    return device


@pytest.mark.parametrize(("seconds", "rounds"), [(1e-6, 100), (1e-2, 1)])
def test_a_replay_is_timed_in_rounds_long_enough_for_the_clock(seconds: float, rounds: int) -> None:
    driver, streams = Driver(seconds), list[int]()
    assert gpu_seconds(gpu(driver), streams.append) == pytest.approx(seconds)
    assert len(streams) == 2 and driver.replays >= 9 * rounds
    assert driver.alive == []


@pytest.mark.parametrize(
    ("fails", "doing"),
    [("cuStreamEndCapture", "recording a candidate"), ("cuGraphInstantiate", "making a graph")],
)
def test_a_candidate_that_fails_leaves_nothing_behind(fails: str, doing: str) -> None:
    driver = Driver(1e-6, fails)
    with pytest.raises(DeviceError, match=f"{doing}: a kernel failed"):
        gpu_seconds(gpu(driver), lambda stream: None)
    assert driver.alive == []


def test_a_gpu_goes_by_the_driver_s_name() -> None:
    assert gpu_name(gpu(Driver(1.0))) == "NVIDIA H200"
