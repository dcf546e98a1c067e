"""Calls that are watched launch by launch: which one fails, which one is the first to write a NaN.

A watched plan runs its launches one at a time, each followed by a host call that waits for it. To
look for NaN, intermediates and results are zeroed before the first launch that writes into them:
what no launch has written yet holds no NaN then.

Rows C:H19, C:K5.
"""

import ctypes
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from .device import Device, HostCall, Step
from .dtypes import DType, widen
from .errors import AotpackError, DeviceError

MODES = ("sync", "nan")
VARIABLE = "AOTPACK_DEBUG"


def debug_mode(given: str | None) -> str | None:
    """What to watch for: as given to ``load``, else by the environment."""
    mode = os.environ.get(VARIABLE) or None if given is None else given
    if mode is not None and mode not in MODES:
        where = VARIABLE if given is None else "debug"
        raise AotpackError(
            f'loading a model: {where}={mode!r}; accepted: "sync" (wait for each launch) and "nan" '
            "(wait, and look for NaN in what it wrote)"
        )
    return mode


@dataclass(frozen=True, slots=True)
class Written:
    """Memory that a launch writes: its cell, and what lies there."""

    name: str
    cell: int
    dtype: DType
    size: int  # bytes
    is_first: bool  # no launch before has written there, and nothing was there


class Watch:
    """Makes the host calls around launches that share ``cells``."""

    def __init__(
        self, model: str, device: Device, cells: "ctypes.Array[ctypes.c_uint64]", mode: str
    ) -> None:
        self._model, self._device, self._cells, self._mode = model, device, cells, mode

    def around(
        self, steps: Sequence[Step], sources: Sequence[str], written: Sequence[Sequence[Written]]
    ) -> list[Step | HostCall]:
        """The steps one after the other, each between what prepares it and what checks it."""
        found: list[Step | HostCall] = []
        for step, source, own in zip(steps, sources, written, strict=True):
            if self._mode == "nan":
                found.append(HostCall(self._clearing(own), _last(found)))
            found.append(step._replace(after=_last(found)))
            found.append(HostCall(self._check(f"{step.name} ({source})", own), _last(found)))
        return found

    def _clearing(self, written: Sequence[Written]) -> Callable[[int], None]:
        def clear(stream: int) -> None:
            for one in written:
                if one.is_first and one.size:
                    zeros = np.zeros(one.size, np.uint8)
                    self._device.copy_in(self._cells[one.cell], zeros.ctypes.data, one.size, stream)
                    self._device.synchronize(stream)

        return clear

    def _check(self, kernel: str, written: Sequence[Written]) -> Callable[[int], None]:
        def check(stream: int) -> None:
            try:
                self._device.synchronize(stream)
            except DeviceError as error:
                raise DeviceError(f"calling {self._model}: kernel {kernel}: {error}") from None
            for one in written if self._mode == "nan" else ():
                self._look(kernel, one, stream)

        return check

    def _look(self, kernel: str, one: Written, stream: int) -> None:
        if not one.dtype.eps or not one.size:
            return
        stored = np.empty(one.size // one.dtype.itemsize, one.dtype.storage)
        self._device.copy_out(stored.ctypes.data, self._cells[one.cell], stored.nbytes, stream)
        self._device.synchronize(stream)
        values = widen(stored) if one.dtype.name == "bfloat16" else stored
        wrong = np.flatnonzero(np.isnan(values))
        if len(wrong):
            raise AotpackError(
                f"calling {self._model}: kernel {kernel} wrote NaN into {one.name!r}: {len(wrong)} "
                f"of {len(stored)} elements of {one.dtype}, the first at position {wrong[0]}"
            )


def _last(found: Sequence[Step | HostCall]) -> tuple[int, ...]:
    return (len(found) - 1,) if found else ()
