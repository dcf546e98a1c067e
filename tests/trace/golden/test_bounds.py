"""What each element of a result may be, from eager and from further runs of the reference."""

import numpy as np
import torch

from aotpack.runtime.dtypes import DTYPES, widen

X = torch.linspace(-2, 2, 96).view(8, 12)


def limits(traced, key):
    """The recorded limit of a result, or None."""
    found = [one for one in traced.golden.limits if one[0] == key]
    if not found:
        return None
    ((_, dtype, shape, data),) = found
    stored = np.frombuffer(data, DTYPES[str(dtype)].storage).reshape(shape)
    return widen(stored, DTYPES[str(dtype)])


def test_what_no_rounding_changes_has_no_range(trace_function):
    def forward(self, x):
        order = (x * 3).argsort(-1), (x.half() + 1).half().int(), x.argmax()
        return *order, (x * 8).round().int(), x > 0, (x.int() * 3).sum(0)

    traced = trace_function(forward, (X * 8).round() / 8)
    assert [name for name, *_ in traced.golden.limits] == []


def test_ties_remain_ties(trace_function):
    x = torch.randint(0, 3, (4, 50), generator=torch.Generator().manual_seed(0)).float() / 3
    traced = trace_function(lambda self, x: (x.exp().argmax(-1), x.sin().argmin(-1)), x)
    assert traced.golden.limits == ()


def test_what_a_rounding_changes_has_the_range_of_what_was_seen(trace_function):
    """A third of the numbers lie at a boundary: times 3 they are integers or nearly so."""
    x = torch.arange(1.0, 31.0) / 3
    traced = trace_function(lambda self, x: (x * 3 - 0.1 * 10).floor().int(), x + 1e-9)
    rows = limits(traced, "ranges/outputs/output0")
    assert rows is not None and len(rows) > 3
    places, low, high = rows.T
    assert (high - low == 1).all()
    assert ((low == places - 1) & (high == places)).all()


def test_bounds_follow_the_size_of_numbers(trace_function):
    x = torch.cat([torch.full((500,), 1e6), torch.full((500,), 1.0)]) + torch.arange(1000) / 7
    traced = trace_function(lambda self, x: x.sqrt() * x, x)
    bounds = limits(traced, "bounds/outputs/output0")
    exact = x.double().sqrt() * x.double()
    assert (bounds < 64 * 2.0**-24 * exact.numpy()).all()
    assert (bounds > 0.5 * 2.0**-24 * exact.numpy()).all()


def test_a_sum_that_cancels_has_the_bound_of_its_terms(trace_function):
    x = torch.randn(4, 1000, generator=torch.Generator().manual_seed(0)) * 1000
    x = torch.cat([x, 0.1 - x.flip(-1)], -1)
    traced = trace_function(lambda self, x: x.sum(-1), x)
    bounds = limits(traced, "bounds/outputs/output0")
    assert (bounds > 1000 * 2.0**-24).all() and (bounds < 1000).all()


def test_eager_outside_of_its_type_excuses_itself_alone(trace_function):
    x = torch.tensor([300.0, 2.0, 1.0], dtype=torch.float16)
    traced = trace_function(lambda self, x: (x * x * 0.5, x * x), x)
    half, square = (limits(traced, f"bounds/outputs/output{n}") for n in (0, 1))
    assert np.isinf(half).tolist() == [True, False, False]
    assert half[1] < 0.1 and not np.isinf(square).any()
    assert np.isinf(np.frombuffer(traced.golden.outputs[1][3], np.float32)).tolist() == [
        True,
        False,
        False,
    ]
