"""Where memory lies: counters of launches are zero, nobody else's, one set for each launch."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from aotpack.runtime import load
from aotpack.runtime.errors import PackageError
from aotpack.runtime.memory.layout import memory_layout
from aotpack.runtime.plan import Counters, Loop, Part, Plan
from tests.runtime.fake_device import FakeDevice
from tests.runtime.packages import write_demo

X = np.arange(6, dtype=np.float32).reshape(2, 3)
WRAPPER = '''\
"""demo 0.1.0"""
from ._runtime import Buffer, Counters, Launch, Loop, Part, Plan


def plan(arch: int, b: int, s: int) -> Plan:
    n, grid = b*s, (b*s, 1, 1)
    inner = Part((), (Launch("add", grid, ("output0", "inner", "output0", n)),),
        (Counters("inner", 4*n),))
    return Plan(
        buffers=(Buffer("t", 4*n, 0, 1),),
        outputs=((b, s),),
        counters=(Counters("zero", 4*n),),
        launches=(
            Launch("add", grid, ("x", "zero", "t", n)),
            Launch("add", grid, ("t", "y", "output0", n)),
            Loop(2, "", Part((), ()), inner),
        ),
    )
'''


@pytest.mark.row("C:G19")
def test_counters_are_zero_whatever_lies_elsewhere(tmp_path: Path) -> None:
    device = FakeDevice()
    with load(write_demo(tmp_path / "demo", wrapper=WRAPPER), device) as model:
        for rows in (2, 4, 1, 4):
            x = np.ones((rows, 3), np.float32)
            for _ in range(2):
                np.testing.assert_array_equal(model(x, x * 2), x * 3)
                model.poison()


@pytest.mark.row("C:G19")
def test_no_two_launches_share_counters() -> None:
    """Not those around a loop and those inside, and not those of two parts."""

    def part(name: str) -> Part:
        return Part((), (), (Counters(name, 300),))

    loop = Loop(2, "", part("a"), part("b"))
    layout = memory_layout(Plan((), (), (loop,), (Counters("c", 4), Counters("d", 4))), {})
    found = [*layout.counters, *(one for inner in layout.inner[0] for one in inner.counters)]
    places = {counter.name: (place, place + counter.size) for counter, place in found}
    assert set(places) == {"a", "b", "c", "d"}
    ordered = sorted(places.values())
    assert all(a[1] <= b[0] for a, b in pairwise(ordered))
    assert layout.end >= ordered[-1][1] and layout.total == 0


@pytest.mark.row("C:G19")
def test_a_launch_names_counters_that_there_are(tmp_path: Path) -> None:
    wrapper = WRAPPER.replace('Counters("zero"', 'Counters("other"')
    with (
        load(write_demo(tmp_path / "demo", wrapper=wrapper), FakeDevice()) as model,
        pytest.raises(PackageError, match="uses unknown 'zero'"),
    ):
        model(X, X)
