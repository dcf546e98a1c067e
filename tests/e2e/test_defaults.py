"""Parameters that the example leaves out: a call may pass their defaults, and nothing else."""

import pytest
import torch
from torch import Tensor, nn

import aotpack
from aotpack.runtime.errors import ArgumentError

X = torch.randn(2, 3)


class Gated(nn.Module):
    def forward(
        self, x: Tensor, y: Tensor | None = None, flag: bool = True, *, scale: float = 2.0
    ) -> Tensor:
        x = x if y is None else x + y
        return x * scale if flag else x

    def shifted(self, x: Tensor, by: Tensor | None = None, z: Tensor | None = None) -> Tensor:
        return (x if by is None else x + by) - (0 if z is None else z)


CALLS = [
    ((X,), {}),
    ((X, None), {}),
    ((X,), {"y": None}),
    ((X,), {"flag": True}),
    ((X, None, True), {"scale": 2.0}),
    ((), {"scale": 2.0, "x": X}),
]


def test_defaults_may_be_passed() -> None:
    gated, layer = Gated(), nn.GRU(3, 2)
    methods = {
        "gated": aotpack.Method(gated, (X,)),
        "shifted": aotpack.Method(gated.shifted, (X,), {"z": X}),
        "steps": aotpack.Method(layer, (X,)),
    }
    model = aotpack.compile(methods, target="cpu")
    for args, kwargs in CALLS:
        torch.testing.assert_close(model.gated(*args, **kwargs), X * 2)
    for found in (model.shifted(X, None, X), model.shifted(X, by=None, z=X)):
        torch.testing.assert_close(found, X - X)
    for found in (model.steps(X, None), model.steps(X, hx=None)):
        torch.testing.assert_close(found[0], layer(X)[0])
    left_out = "; the example left it out, so its default"
    for method, args, kwargs, words in (
        ("gated", (X, X), {}, f"argument 'y' is Tensor{left_out} None became part"),
        ("gated", (X,), {"flag": False}, f"argument 'flag' is False{left_out} True became part"),
        (
            "gated",
            (X,),
            {"scale": 2},
            rf"'scale' is 2 \(int\){left_out} 2.0 \(float\) .* or build another package",
        ),
        ("gated", (X, None, True, 2.0), {}, "4 positional .* for 3; accepted: x; with its default"),
        ("shifted", (X, X, X), {}, f"argument 'by' is Tensor{left_out} None"),
        ("steps", (X, (X, X)), {}, f"argument 'hx' is tuple{left_out} None"),
    ):
        with pytest.raises(ArgumentError, match=words):
            model.methods[method](*args, **kwargs)
