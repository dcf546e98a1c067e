"""Sums that cancel: what another order of their terms would give is allowed, and no more."""

import numpy as np
import pytest
import torch

from aotpack.runtime.dtypes import DTYPES, widen

TINY = 2.0**-30  # float32 holds 1, TINY and their difference, but not their sum
ROWS = torch.tensor([[1.0, -1.0, TINY]] * 2)


def bounds(traced):
    """The largest error of each element of the first result."""
    (data,) = [data for name, _, _, data in traced.golden.limits if name.startswith("bounds/")]
    return widen(np.frombuffer(data, np.uint16), DTYPES["bfloat16"])


@pytest.mark.parametrize(
    "sums",
    [
        lambda x: x.sum(1),
        lambda x: x.mean(1),
        lambda x: x.cumsum(1)[:, 2],
        lambda x: x @ torch.ones(3),
        lambda x: torch.nn.functional.avg_pool1d(x, 3),
    ],
    ids=["sum", "mean", "cumsum", "product", "pool"],
)
def test_a_sum_that_is_exact_by_cancellation_may_be_another(trace_function, sums):
    traced = trace_function(lambda self, x: sums(x), ROWS)
    assert (bounds(traced) > TINY / 3).all()


@pytest.mark.parametrize("unit", [1.0, 0.25, 3.0])
def test_sums_of_multiples_are_exact_in_any_order(trace_function, unit):
    x = unit * torch.randint(-99, 99, (40, 7), generator=torch.Generator().manual_seed(0))
    traced = trace_function(lambda self, x: (x.sum(1), x.cumsum(1) > x), x)
    assert traced.golden.eager_errors == (0.0, 0.0)
    size = x.sum(1).abs().numpy()
    assert (bounds(traced) <= 2.0**-22 * size + 1e-37).all()


def test_small_results_of_a_fourier_transform_have_the_error_of_its_row(trace_function):
    """A transform adds all numbers of a row: its errors are of their size."""
    x = torch.randn(2, 128, generator=torch.Generator().manual_seed(0))
    x[:, 100:] *= 1e-6
    traced = trace_function(lambda self, x: torch.fft.irfft(torch.fft.rfft(x) * 1.1), x)
    found, size = bounds(traced).reshape(2, 128), float(x.abs().max())
    assert (np.median(found[:, 100:]) > 2.0**-26 * size).all()
    assert (found < 2.0**-18 * size).all()


def test_small_products_beside_large_ones_have_errors_of_their_own(trace_function):
    x = torch.randn(2, 128, generator=torch.Generator().manual_seed(0))
    x[:, 100:] *= 1e-6
    found = bounds(trace_function(lambda self, x: x * 1.1, x)).reshape(2, 128)
    assert (found[:, 100:] < 1e-11).all()
