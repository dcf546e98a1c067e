"""Times issued work by the device's own clock, and names the device."""

import platform
import time
from pathlib import Path

from .cuda import CudaDevice
from .cuda_timing import gpu_name, gpu_seconds
from .device import Device, Issue

_ROUNDS = 7


def seconds(device: Device, issue: Issue) -> float:
    """The median time of the work that ``issue(stream)`` issues, once it is warm."""
    if isinstance(device, CudaDevice):
        return gpu_seconds(device, issue)
    issue(0)
    times = []
    for _ in range(_ROUNDS):
        device.synchronize(None)
        start = time.perf_counter()
        issue(0)
        device.synchronize(None)
        times.append(time.perf_counter() - start)
    return sorted(times)[_ROUNDS // 2]


def hardware(device: Device) -> str:
    """What measurements hold for: the GPU's or the processor's name."""
    return gpu_name(device) if isinstance(device, CudaDevice) else _processor()


def _processor() -> str:
    """As Linux calls it; the machine's architecture where that is not told."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
