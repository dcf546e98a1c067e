from pathlib import Path

import numpy as np
import pytest

from aotpack.runtime import WeightError, load
from tests.runtime.fake_device import FakeDevice
from tests.runtime.packages import write_demo

X = np.ones((1, 2), np.float32)


def test_a_sidecar_is_found_beside_the_package_or_given(package: Path, device: FakeDevice) -> None:
    folder = write_demo(package.parent / "apart" / "demo", weights="sidecar")
    with pytest.raises(WeightError, match="is in neither .*/demo nor .*/apart. .* --weights FILE"):
        load(folder, device)
    embedded = (package / "weights.safetensors").read_bytes()
    (folder.parent / "demo-0.1.0.weights.safetensors").write_bytes(embedded)
    for given in (None, package / "weights.safetensors"):
        with load(folder, device, weights=given) as model:
            assert model(X, X).tolist() == [[4, 4]]
