import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import aotpack
from aotpack.runtime import ArgumentError, WeightError, load, verify
from aotpack.runtime.manifest import read_manifest
from aotpack.runtime.selftest import check_weights
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


def test_what_is_no_file_of_weights_is_refused_in_words(package: Path, device: FakeDevice) -> None:
    os.mkfifo(package.parent / "pipe")
    for given in (package / "lost", package, package.parent / "pipe"):
        refused = f"reading {given}: .*; a safetensors file is accepted; check the path"
        with pytest.raises(WeightError, match=refused):
            load(package, device, weights=given)
        with pytest.raises(WeightError, match=refused):
            check_weights(read_manifest(package), given)


class Counts(torch.nn.Module):
    """A model whose only tensor is state that no checkpoint has."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(2), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen += x
        return self.seen * 1


@pytest.mark.parametrize(
    ("model", "has"), [(Counts(), "constants alone"), (torch.nn.ReLU(), "no tensors")]
)
@pytest.mark.parametrize("mode", ["embed", "sidecar", "none"])
def test_a_package_without_weights_takes_no_file(
    tmp_path: Path, model: torch.nn.Module, has: str, mode: str
) -> None:
    wheel = aotpack.build(
        model, (torch.ones(2),), name="counts", targets="cpu", out=tmp_path, weights=mode
    )
    assert not [*tmp_path.glob("*.weights.safetensors")]
    shutil.unpack_archive(wheel, tmp_path, "zip")
    folder, given = tmp_path / "counts", tmp_path / "lost.safetensors"
    with load(folder, "cpu") as loaded:
        assert loaded(np.ones(2, np.float32)).tolist() == [1, 1]
    assert verify(folder, "cpu").is_passed
    for refused in (load, verify):
        with pytest.raises(ArgumentError, match=f"has no weights to load: its model has {has}"):
            refused(folder, "cpu", weights=given)
