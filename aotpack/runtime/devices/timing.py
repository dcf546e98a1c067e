"""Times issued work by the device's own clock, and names the device."""

import platform
import time
from pathlib import Path

from .cuda import CudaDevice
from .cuda_timing import gpu_name, gpu_seconds
from .device import Device, Issue

_ROUNDS = 7


def seconds(device: Device, issue: Issue) -> float:
    """The median time of the work of ``issue(stream)``, after a warm-up."""
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
    """The name of the measured GPU or CPU."""
    return gpu_name(device) if isinstance(device, CudaDevice) else _processor()


def _processor() -> str:
    """Linux's name of the CPU; the machine's architecture where there is none."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
