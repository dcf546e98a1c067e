"""Tensors of torch as arguments and results."""

from pathlib import Path

import numpy as np
import pytest
import torch

from aotpack.runtime import ArgumentError, load
from tests.runtime.fake_device import FakeDevice

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_torch_on_a_host_device(package: Path) -> None:
    with load(package, FakeDevice((1, 0))) as model:
        x = torch.from_numpy(X)
        result = model(x, x)
        assert isinstance(result, torch.Tensor)
        torch.testing.assert_close(result, x * 4)


def test_torch_layouts_without_memory_are_refused(package: Path) -> None:
    with (
        load(package, FakeDevice((1, 0))) as model,
        pytest.raises(ArgumentError, match="layout torch.sparse_coo.*accepted: dense"),
    ):
        model(torch.ones(2, 3).to_sparse(), torch.ones(2, 3))
