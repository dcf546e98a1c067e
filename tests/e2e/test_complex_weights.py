"""Complex weights that are bound: kernels read them as pairs of reals."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

import aotpack
from aotpack.runtime.errors import WeightError


class Turned(nn.Module):
    """A product with complex factors."""

    def __init__(self) -> None:
        super().__init__()
        self.factors = nn.Parameter(torch.randn(4, 3, dtype=torch.complex64))
        self.pairs = nn.Parameter(torch.randn(3, 2))  # real, and of the shape of pairs

    def forward(self, x: Tensor) -> Tensor:
        return torch.view_as_real(x.to(torch.complex64) @ self.factors) * self.pairs


def given(model: nn.Module, kind: str, folder: Path) -> Any:
    """The weights of a model as a caller may have them."""
    weights = {name: tensor.detach() for name, tensor in model.state_dict().items()}
    if kind == "file":
        save_file(weights, folder / "weights.safetensors")
        return folder / "weights.safetensors"
    if kind == "numpy":
        return {name: tensor.numpy() for name, tensor in weights.items()}
    if kind == "conjugated":
        turned = weights["factors"].conj().resolve_conj().conj()
        return {**weights, "factors": turned}
    if kind == "transposed":
        return {**weights, "factors": weights["factors"].mT.contiguous().mT}
    if kind == "pairs":
        return {**weights, "factors": torch.view_as_real(weights["factors"])}
    return model.state_dict()


@pytest.mark.parametrize(
    "kind", ["state_dict", "numpy", "file", "conjugated", "transposed", "pairs"]
)
def test_they_are_bound(kind: str, tmp_path: Path) -> None:
    x, other = torch.randn(5, 4), Turned().eval()
    package = aotpack.compile(Turned().eval(), (x,), target="cpu")
    package.bind_weights(given(other, kind, tmp_path))
    torch.testing.assert_close(package(x), other(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("factors", np.ones((4, 3), np.complex128)),
        ("factors", np.ones((3, 4), np.complex64)),
        ("pairs", np.ones((3, 2), np.complex64)),
        ("pairs", np.ones(3, np.complex64)),
    ],
)
@pytest.mark.parametrize("is_file", [False, True])
def test_others_are_refused(name: str, value: Any, is_file: bool, tmp_path: Path) -> None:
    package = aotpack.compile(Turned().eval(), (torch.randn(5, 4),), target="cpu")
    given: Any = {name: value}
    if is_file and value.dtype != np.complex128:  # which safetensors does not write
        given = tmp_path / "weights.safetensors"
        save_file({name: torch.from_numpy(value)}, given)
    accepted = {"factors": "complex64.4, 3.", "pairs": "float32.3, 2."}[name]
    with pytest.raises(WeightError, match=f"'{name}' is .*; accepted: {accepted}"):
        package.bind_weights(given, strict=False)
