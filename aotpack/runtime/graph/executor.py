"""Joins runs of launches and host calls into one function of the stream."""

import ctypes
from collections.abc import Sequence
from functools import partial

from ..devices.device import Device, HostCall, Issue, Step
from .runs import partitions


def executor(
    device: Device,
    steps: Sequence[Step | HostCall],
    cells: "ctypes.Array[ctypes.c_uint64]",
    *,
    graphs: bool,
) -> Issue:
    """Orders ``steps`` into the fewest runs; the device issues each run of launches."""
    launches = [step for step in steps if isinstance(step, Step)]
    if len(launches) == len(steps):
        return device.executor(launches, cells, graphs=graphs)
    fits = [isinstance(step, Step) for step in steps]
    parts: list[Issue] = []
    for fit, run in partitions([step.after for step in steps], fits):
        if fit:
            parts.append(device.executor(_renumbered(run, steps), cells, graphs=graphs))
        else:
            parts += _calls(run, steps)
    return partial(_issue_all, parts)


def _renumbered(run: Sequence[int], steps: Sequence[Step | HostCall]) -> list[Step]:
    """The launches of a run, with dependences renumbered inside it."""
    numbers = {step: number for number, step in enumerate(run)}
    return [
        step._replace(after=tuple(numbers[one] for one in step.after if one in numbers))
        for step in (steps[number] for number in run)
        if isinstance(step, Step)
    ]


def _calls(run: Sequence[int], steps: Sequence[Step | HostCall]) -> list[Issue]:
    found = (steps[number] for number in run)
    return [step.run for step in found if isinstance(step, HostCall)]


def _issue_all(parts: Sequence[Issue], stream: int) -> None:
    for part in parts:
        part(stream)
