"""Functions that ask their data whether they may run are exported without the question."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from aotpack.trace import trace
from aotpack.trace.operators.answers import WithoutDataChecks
from tests.lower.oracle import check_traced, floats

X = floats(4, 6)
WITH_NAN = X.where(X.abs() > 0.3, float("nan"))
WHOLE = torch.tensor([1, 2, 3, 1, 0, 2])
Q = torch.tensor([0.0, 0.4, 1.0])

FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "cov": torch.cov,
    "cov_of_a_row": lambda x: torch.cov(x[0]),
    "weighted_cov": lambda x: x.cov(correction=1, fweights=WHOLE, aweights=x[0].abs() + 1),
    "corrcoef": torch.corrcoef,
    "corrcoef_of_a_row": lambda x: torch.corrcoef(x[0]),
    "quantile": lambda x: torch.quantile(x, Q, 1),
    "quantile_of_all": lambda x: x.quantile(0.3, keepdim=True),
    "nearest_quantile": lambda x: x.quantile(Q, 0, keepdim=True, interpolation="nearest"),
    "midpoint_of_nan": lambda x: WITH_NAN.quantile(0.7, -1, interpolation="midpoint").isnan(),
    "midpoint": lambda x: x.quantile(0.7, -1, interpolation="midpoint"),
    "nanquantile": lambda x: torch.nanquantile(WITH_NAN, Q, 0),
    "variance_of_a_row": lambda x: F.gaussian_nll_loss(x, x + 1, x[:, 0] ** 2, reduction="sum"),
    "gaussian_nll_loss": lambda x: F.gaussian_nll_loss(x, x.roll(1, 0), x.square(), full=True),
}


class Model(nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


@pytest.mark.row("S:H26")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_answers_as_eager(name: str) -> None:
    module = Model(FUNCTIONS[name])
    check_traced(trace(module, (X,), name="m", version="1"), module, (X,))


def test_what_is_left_out_is_the_question_alone() -> None:
    negative = torch.full((4, 6), -1.0)
    with pytest.raises(ValueError, match="negative"):
        F.gaussian_nll_loss(X, X, negative)
    with WithoutDataChecks():
        assert F.gaussian_nll_loss(X, X, negative).isfinite()
        with pytest.raises(ValueError, match=r"variances of \(3, 6\)"):
            F.gaussian_nll_loss(X, X, negative[:3])
