"""Times work on a GPU, captured into a graph to exclude host time."""

from collections.abc import Callable
from typing import Any

from .cuda import CudaDevice
from .cuda_errors import result

_ROUNDS = 9
_LEAST_SECONDS = 200e-6  # of a round, well above the clock's resolution


def gpu_name(device: CudaDevice) -> str:
    """The driver's name of the GPU."""
    name: bytes = result("asking the GPU's name", device.driver.cuDeviceGetName(256, device.number))
    return name.split(b"\0")[0].decode()


def gpu_seconds(device: CudaDevice, issue: Callable[[int], None]) -> float:
    """The median time to replay the work that ``issue`` puts on a stream."""
    driver = device.driver
    stream = result("making a stream", driver.cuStreamCreate(1))
    events = [result("making an event", driver.cuEventCreate(0)) for _ in range(2)]
    graph = replay = None
    try:
        issue(int(stream))
        result("running a candidate", driver.cuStreamSynchronize(stream))
        graph = _captured(driver, stream, issue)
        replay = result("making a graph", driver.cuGraphInstantiate(graph, 0))
        once = _median(driver, stream, replay, events, 1)
        return _median(driver, stream, replay, events, max(1, int(_LEAST_SECONDS / once)))
    finally:
        if replay is not None:
            driver.cuGraphExecDestroy(replay)
        if graph is not None:
            driver.cuGraphDestroy(graph)
        for event in events:
            driver.cuEventDestroy(event)
        driver.cuStreamDestroy(stream)


def _captured(driver: Any, stream: Any, issue: Callable[[int], None]) -> Any:
    mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
    result("recording a candidate", driver.cuStreamBeginCapture(stream, mode))
    try:
        issue(int(stream))
    finally:
        ended = driver.cuStreamEndCapture(stream)
    return result("recording a candidate", ended)


def _median(driver: Any, stream: Any, replay: Any, events: list[Any], repeats: int) -> float:
    times = []
    for _ in range(_ROUNDS):
        result("timing", driver.cuEventRecord(events[0], stream))
        for _ in range(repeats):
            result("timing", driver.cuGraphLaunch(replay, stream))
        result("timing", driver.cuEventRecord(events[1], stream))
        result("timing", driver.cuEventSynchronize(events[1]))
        milliseconds = result("timing", driver.cuEventElapsedTime(*events))
        times.append(float(milliseconds) / 1e3 / repeats)
    return max(sorted(times)[_ROUNDS // 2], 1e-9)
