"""The reductions: their parts against plain numpy."""

import numpy as np
import pytest

from aotpack.ir.dtypes import DType
from aotpack.ir.ops.monoid import Monoid
from aotpack.ir.ops.monoids import MONOIDS
from tests.ir.samples import COMPUTE, elements, reduced


@pytest.mark.row("S:B4", "C:G11")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    ("name", "meaning"),
    [
        ("sum", lambda x: x.sum(-1)),
        ("prod", lambda x: x.prod(-1)),
        ("max", lambda x: x.max(-1)),
        ("min", lambda x: x.min(-1)),
        ("welford", lambda x: x.mean(-1)),
        ("logsumexp", lambda x: np.log(np.exp(x).sum(-1))),
    ],
)
def test_values_are_numpy_s(name: str, meaning: object) -> None:
    tile = np.random.default_rng(0).normal(0, 1, (3, 17))
    tile[2] = [*([-np.inf] * 16), 1.0] if name == "logsumexp" else tile[2]
    assert callable(meaning)
    np.testing.assert_allclose(reduced(MONOIDS[name], tile)[0], meaning(tile), rtol=1e-12)


@pytest.mark.row("S:B4", "C:G8", "C:inv19")
def test_nan_wins_every_order_reduction() -> None:
    tile = np.array([[1.0, np.nan, np.inf, np.nan]])
    assert np.isnan(reduced(MONOIDS["max"], tile)[0]).all()
    assert reduced(MONOIDS["argmax"], tile)[0] == 1
    assert reduced(MONOIDS["argmin"], tile)[0] == 1


@pytest.mark.row("S:B4", "C:G8", "C:inv19")
def test_ties_take_the_first_index_and_running_extremes_the_latest() -> None:
    tile = np.array([[2.0, 7.0, 7.0, 1.0, 1.0]])
    assert reduced(MONOIDS["argmax"], tile)[0] == 1
    assert reduced(MONOIDS["argmin"], tile)[0] == 3
    assert reduced(MONOIDS["cummax"], tile)[1] == 2
    assert reduced(MONOIDS["cummin"], tile)[1] == 4


@pytest.mark.row("S:B5", "C:G7")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("monoid", MONOIDS.values(), ids=lambda monoid: monoid.name)
def test_identity_changes_nothing(monoid: Monoid) -> None:
    for dtype in filter(monoid.accepts, COMPUTE):
        tile = elements(dtype)[0]
        states = monoid.lift(tile, np.arange(tile.size))
        numbers = zip(monoid.identities(dtype), states, strict=True)
        neutral = tuple(np.full(part.shape, number, part.dtype) for number, part in numbers)
        for pair in ((states, neutral), (neutral, states)):
            for found, part in zip(monoid.combine(*pair), states, strict=True):
                np.testing.assert_array_equal(found, part)


def test_types_a_monoid_does_not_take() -> None:
    assert MONOIDS["sum"].accepts(DType.FLOAT64)
    assert not MONOIDS["sum"].accepts(DType.BOOL)
    assert not MONOIDS["welford"].accepts(DType.INT64)
