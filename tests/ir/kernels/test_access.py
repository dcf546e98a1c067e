"""Steps of offsets along an axis; elements that are gathered are no neighbours."""

import pytest

from aotpack.ir.kernels.access import axes_in, local_slope, slope
from aotpack.ir.symbolic.integers import Axis, Indirect, Int
from tests.ir.programs import I64, J, K, load

GATHERED = Int.of(Indirect(load("i", J, dtype=I64), Int.of(50)))  # what is read by J


@pytest.mark.parametrize(
    ("offset", "along_j", "along_k"),
    [
        (Int.of(J) * 8 + K, 8, 1),
        (Int.of(J) * K, None, None),
        (Int.of(J) // 2 * 8 + K, None, 1),
        (GATHERED * 8 + K, None, 1),
        (GATHERED * 8 + J, None, 0),
    ],
)
def test_slopes(offset: Int, along_j: int | None, along_k: int | None) -> None:
    assert slope(offset, J) == along_j
    assert slope(offset, K) == along_k


def test_a_gather_promises_no_neighbours() -> None:
    assert local_slope(GATHERED * 8 + K, K) == 1
    assert local_slope(GATHERED * 8 + K, J) == 0
    assert local_slope(GATHERED * 8 + J, J) is None


def test_axes_are_seen_through_what_is_read() -> None:
    assert axes_in((GATHERED, Int.of(K))) == {J, K}
    assert axes_in((Int.of(3),)) == frozenset[Axis]()
