import ctypes
from typing import Any

import numpy as np
import pytest

from aotpack.runtime.arrays.frameworks import Spec
from aotpack.runtime.dtypes import DTYPES
from aotpack.runtime.memory.arena import Arena
from aotpack.runtime.staging import (
    CheckedCall,
    fetch,
    return_changes,
    stage_inputs,
    stage_outputs,
)
from tests.runtime.fake_device import FakeDevice

SPEC: Spec = ((2,), (1,), DTYPES["float32"], ())


@pytest.mark.parametrize("shift", [0, 4])
@pytest.mark.parametrize("is_upload", [False, True])
def test_only_arguments_that_kernels_cannot_use_are_copied(shift: int, is_upload: bool) -> None:
    device = FakeDevice()
    arena: Arena[Any] = Arena(device)
    address = device.alloc(64) + shift
    ctypes.memset(address, 7, 8)
    checked = CheckedCall((), (), frozenset([0] if is_upload else []), (8, 0))
    (staged, empty) = stage_inputs(device, arena, checked, [address, 3], 0)
    assert (staged == address) is not (is_upload or bool(shift))
    assert ctypes.string_at(staged, 8) == bytes([7] * 8) and empty == 3
    ctypes.memset(staged, 9, 8)
    return_changes(device, checked, (0,), [address, 3], [staged, 3], 0)
    assert ctypes.string_at(address, 8) == bytes([9] * 8)


def test_results_of_the_host_come_from_staging_buffers() -> None:
    device = FakeDevice()
    arena: Arena[Any] = Arena(device)
    outputs = [-1, 96]
    copied = stage_outputs(arena, (SPEC, SPEC), outputs)
    assert copied == [(0, outputs[0], 8)] and outputs[1] == 96
    ctypes.memset(outputs[0], 0, 8)
    result = np.ones(2, np.float32)
    fetch(device, [result], (SPEC,), copied, 0)
    assert result.tolist() == [0, 0]
