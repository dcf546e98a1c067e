"""Debugging modes: names the launch that fails, and the first launch that writes a NaN.

A watched plan serialises its launches: a host call synchronises after each. To find NaN,
intermediates and results are zeroed before the first launch that writes them, so that memory not
yet written has no NaN.
"""

import ctypes
import math
import os
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TypeAlias, cast

import numpy as np

from ..devices.device import Device, HostCall, Issue, Step
from ..dtypes import DTYPES, DType, widen
from ..errors import AotpackError, ArgumentError, DeviceError
from ..manifest import Kernel, Manifest
from ..plan import Launch, Plan

Cells: TypeAlias = "ctypes.Array[ctypes.c_uint64]"
WatchTarget: TypeAlias = tuple[Launch, Kernel] | tuple[int, ...]
MODES = ("sync", "nan")
VARIABLE = "AOTPACK_DEBUG"


def debug_mode(given: str | None) -> str | None:
    """The debugging mode: the argument of ``load``, else that of the environment."""
    mode = os.environ.get(VARIABLE) or None if given is None else given
    if mode is not None and mode not in MODES:
        where, kind = (VARIABLE, AotpackError) if given is None else ("debug", ArgumentError)
        raise kind(
            f'loading a model: {where}={mode!r}; accepted: "sync" (wait for each launch) and "nan" '
            "(wait, and look for NaN in what it wrote)"
        )
    return mode


@dataclass(frozen=True, slots=True)
class Written:
    """A tensor that a launch writes, and its cell."""

    name: str
    cell: int
    dtype: DType
    size: int  # bytes
    is_first: bool  # the first write to memory without contents


class Watch:
    """Puts host calls around the launches of a plan.

    ``lengths`` are the bytes of inputs, weights and outputs by name.
    """

    def __init__(self, model: str, device: Device, mode: str, lengths: Mapping[str, int]) -> None:
        self.lengths = lengths
        self._model, self._device, self._mode = model, device, mode

    def instrument(
        self,
        steps: Sequence[Step | HostCall],
        targets: Sequence[WatchTarget],
        cells: Cells,
        lengths: Mapping[int, int],
        fresh: Set[int],
    ) -> list[Step | HostCall]:
        """Serialise the steps, with a host call before and after each launch.

        ``lengths`` are the bytes behind cells; ``fresh`` are the cells without contents before the
        steps. ``targets`` has for a launch its kernel, for other steps the cells they write.
        """
        found: list[Step | HostCall] = []
        unwritten = set(fresh)
        for step, known in zip(steps, targets, strict=True):
            if isinstance(step, HostCall):
                if self._mode == "nan":  # an iteration may write part of a tensor
                    whole = [
                        (cell, lengths[cell]) for cell in sorted(unwritten.intersection(known))
                    ]
                    found.append(HostCall(self._clearing(whole, cells), _last(found)))
                unwritten.difference_update(known)
                found.append(step._replace(after=_last(found)))
                continue
            launch, kernel = cast("tuple[Launch, Kernel]", known)
            written = _written(step, launch, kernel, lengths, unwritten)
            unwritten -= {one.cell for one in written}
            if self._mode == "nan":
                first = [(one.cell, one.size) for one in written if one.is_first]
                found.append(HostCall(self._clearing(first, cells), _last(found)))
            found.append(step._replace(after=_last(found)))
            check = self._check(f"{step.name} ({launch.source})", written, cells)
            found.append(HostCall(check, _last(found)))
        return found

    def _clearing(self, memory: Sequence[tuple[int, int]], cells: Cells) -> Issue:
        """A host call that zeroes the memory of cells, given with their bytes."""

        def clear(stream: int) -> None:
            for cell, size in memory:
                if size:
                    zeros = np.zeros(size, np.uint8)
                    self._device.copy_in(cells[cell], zeros.ctypes.data, size, stream)
                    self._device.synchronize(stream)

        return clear

    def _check(self, kernel: str, written: Sequence[Written], cells: Cells) -> Issue:
        def check(stream: int) -> None:
            try:
                self._device.synchronize(stream)
            except DeviceError as error:
                raise DeviceError(f"calling {self._model}: kernel {kernel}: {error}") from None
            for one in written if self._mode == "nan" else ():
                self._look(kernel, one, cells[one.cell], stream)

        return check

    def _look(self, kernel: str, one: Written, address: int, stream: int) -> None:
        if not one.dtype.eps or not one.size:
            return
        stored = np.empty(one.size // one.dtype.itemsize, one.dtype.storage)
        self._device.copy_out(stored.ctypes.data, address, stored.nbytes, stream)
        self._device.synchronize(stream)
        wrong = np.flatnonzero(np.isnan(widen(stored, one.dtype)))
        if len(wrong):
            raise AotpackError(
                f"calling {self._model}: kernel {kernel} wrote NaN into {one.name!r}: {len(wrong)} "
                f"of {len(stored)} elements of {one.dtype}, the first at position {wrong[0]}"
            )


def lengths_of(manifest: Manifest, sizes: Sequence[int], plan: Plan) -> dict[str, int]:
    """The bytes of inputs, weights and outputs."""
    signature = manifest.signature
    values = {size.name: value for size, value in zip(signature.sizes, sizes, strict=True)}
    shapes = [
        (one.name, one.dtype, tuple(size.evaluate(values) for size in one.shape))
        for one in signature.inputs
    ]
    shapes += [(one.word, DTYPES["int32"], ()) for one in signature.assertions]
    shapes += [
        (one.name, one.dtype, shape)
        for one, shape in zip(signature.outputs, plan.outputs, strict=True)
        if shape is not None
    ]
    found = {name: math.prod(shape) * dtype.itemsize for name, dtype, shape in shapes}
    return found | weight_lengths(manifest)


def weight_lengths(manifest: Manifest) -> dict[str, int]:
    """The bytes of weights; derived ones may have zeros between their rows."""
    given = {one.name: math.prod(one.shape) * one.dtype.itemsize for one in manifest.weights}
    return given | {one.name: one.bytes for one in manifest.derived}


def _written(
    step: Step, launch: Launch, kernel: Kernel, lengths: Mapping[int, int], fresh: Set[int]
) -> list[Written]:
    """The tensors a launch writes."""
    passed = zip(launch.args, kernel.args, step.slots, strict=True)
    return [
        Written(name, cell, arg.dtype, lengths[cell], cell in fresh)
        for name, arg, cell in passed
        if isinstance(name, str) and arg.written
    ]


def _last(found: Sequence[Step | HostCall]) -> tuple[int, ...]:
    return (len(found) - 1,) if found else ()
