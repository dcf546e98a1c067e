"""The reductions: numpy parts against plain numpy, Triton texts against the numpy parts."""

from collections.abc import Mapping

import numpy as np
import pytest

from aotpack.ir.dtypes import DType
from aotpack.ir.ops.monoid import Monoid, States, literal
from aotpack.ir.ops.monoids import MONOIDS
from aotpack.ir.ops.reference import Array
from tests.ir import triton_forms as forms

REDUCTIONS = forms.reductions()


def reduced(monoid: Monoid, tile: Array) -> States:
    """The monoid over the last dimension, one element after the other."""
    positions = np.broadcast_to(np.arange(tile.shape[-1]), tile.shape)
    lifted = monoid.lift(tile, positions)
    states = tuple(part[..., 0] for part in lifted)
    for column in range(1, tile.shape[-1]):
        states = monoid.combine(states, tuple(part[..., column] for part in lifted))
    return monoid.finalise(states)


@pytest.mark.row("S:B4", "C:G5", "C:G6", "C:G8", "C:G14", "C:inv18")
@pytest.mark.parametrize(
    ("monoid", "dtype", "block"),
    REDUCTIONS,
    ids=[forms.reduction_name(monoid, dtype, block=block) for monoid, dtype, block in REDUCTIONS],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_triton_text_gives_what_numpy_gives(
    monoid: Monoid,
    dtype: DType,
    block: bool,
    interpreted: Mapping[str, Array],
) -> None:
    want = reduced(monoid, forms.elements(dtype)[:, : forms.COLUMNS - 5])
    name = forms.reduction_name(monoid, dtype, block=block)
    for number, expected in enumerate(want):
        found = interpreted[f"{name}_{number}"]
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-5)


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
    for dtype in filter(monoid.accepts, forms.COMPUTE):
        tile = forms.elements(dtype)[0]
        states = monoid.lift(tile, np.arange(tile.size))
        numbers = zip(monoid.identities(dtype), states, strict=True)
        neutral = tuple(np.full(part.shape, number, part.dtype) for number, part in numbers)
        for pair in ((states, neutral), (neutral, states)):
            for found, part in zip(monoid.combine(*pair), states, strict=True):
                np.testing.assert_array_equal(found, part)


def test_literals_are_triton_text() -> None:
    assert [literal(x) for x in (float("-inf"), 0.5, 3, False)] == [
        'float("-inf")',
        "0.5",
        "3",
        "False",
    ]


def test_types_a_monoid_does_not_take() -> None:
    assert MONOIDS["sum"].accepts(DType.FLOAT64)
    assert not MONOIDS["sum"].accepts(DType.BOOL)
    assert not MONOIDS["welford"].accepts(DType.INT64)
