"""Runs of launches are issued by the device, and calls of the host between them."""

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from aotpack.runtime.devices.device import HostCall, Step
from aotpack.runtime.graph.executor import executor
from tests.runtime.fake_device import FakeDevice


class _Recorder(FakeDevice):
    """Notes the runs it is asked to issue; a step is its name."""

    def __init__(self) -> None:
        super().__init__()
        self.runs: list[list[tuple[str, tuple[int, ...]]]] = []

    def executor(self, steps: Sequence[Step], cells: Any, *, graphs: bool) -> Callable[[int], None]:
        self.runs.append([(step.name, step.after) for step in steps])
        return lambda stream: self.launches.extend(step.name for step in steps)


def _step(name: str, *after: int) -> Step:
    return Step(None, name, (1, 1, 1), (), 0, after)


@pytest.mark.row("S:P5", "S:P6")
def test_host_calls_part_a_plan_into_runs_that_the_device_issues() -> None:
    device = _Recorder()
    call = HostCall(lambda stream: device.launches.append(f"call on {stream}"), (0,))
    steps = [_step("a"), call, _step("b", 1), _step("c"), _step("d", 0, 3)]
    executor(device, steps, (ctypes.c_uint64 * 1)(), graphs=True)(5)
    assert device.runs == [[("a", ()), ("c", ()), ("d", (0, 1))], [("b", ())]]
    assert device.launches == ["a", "c", "d", "call on 5", "b"]


def test_a_plan_without_steps_does_nothing() -> None:
    device = _Recorder()
    executor(device, [], (ctypes.c_uint64 * 1)(), graphs=True)(0)
    assert device.runs == [[]] and device.launches == []
