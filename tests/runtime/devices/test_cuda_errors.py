"""Results of the driver in plain English."""

import pytest

from aotpack.runtime import DeviceError
from aotpack.runtime.devices.cuda_errors import failure, result


def test_results_in_english() -> None:
    assert result("counting", (0, 3)) == 3 and result("freeing", (0,)) is None
    with pytest.raises(DeviceError, match=r"allocating: the GPU has no memory left.*result 2\)"):
        result("allocating", (2, None))
    assert "the driver reports a failure (CUDA result 12345)" in str(failure("x", 12345))
