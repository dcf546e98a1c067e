"""Plans with size reads on the fake device: what is read, allocated, kept and refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aotpack.ir.symbolic.integers import Int, Var
from aotpack.runtime import Model, load
from aotpack.runtime.errors import AotpackError, AssertionFailed, DeviceError, PackageError
from aotpack.stages import CountedSize, SizeCondition, TensorSpec
from tests.runtime.fake_device import FakeDevice
from tests.runtime.packages import F32, write_demo

HEAD = '''\
"""demo 0.1.0"""
from ._runtime import Buffer, Launch, Part, Plan, SizeRead


def plan(arch: int, b: int, s: int) -> Plan:
    return Plan(buffers=(), outputs=(None,), launches=({launches}))
'''
U0, U1 = Var("u0", 0, 64), Var("u1", 0, 6)
ADD = 'Part((), (Launch("add", (u0, 1, 1), ("x", "y", "output0", u0)),))'
READ = f"SizeRead(('u0',), ('x',), (6,), lambda u0: {ADD}),"
TWICE = (
    'Part((Buffer("t", 40*u0, 0, 1),), (Launch("add", (u0, 1, 1), ("x", "y", "t", u0)), '
    'Launch("add", (u0, 1, 1), ("t", "y", "output0", u0))))'
)
INNER = 'Part((), (Launch("add", (u1, 1, 1), ("t", "y", "output0", u1)),))'
BEHIND = f"SizeRead(('u1',), ('y',), (6,), lambda u1: {INNER})"
SUM = "Launch('add', (6, 1, 1), ('x', 'y', 't', 6))"
OUTER = f"Part((Buffer('t', 24, 0, 1),), ({SUM}, {BEHIND}))"
NESTED = f"SizeRead(('u0',), ('x',), (6,), lambda u0: {OUTER}),"


def counts(number: int) -> np.ndarray[Any, Any]:
    """Six floats whose first eight bytes are a number."""
    x = np.arange(1, 7, dtype=np.float32)
    x[:2] = np.array([number], np.int64).view(np.float32)
    return x.reshape(2, 3)


def model_of(
    folder: Path,
    launches: str = READ,
    device: FakeDevice | None = None,
    size: Var = U0,
    conditions: tuple[SizeCondition, ...] = (),
    **options: Any,
) -> Model:
    package = write_demo(
        folder / "demo",
        wrapper=HEAD.format(launches=launches),
        outputs=(TensorSpec("output0", F32, (Int.of(size),)),),
        counted=(CountedSize(U0, "aten.nonzero at model.py:3"), CountedSize(U1, "aten.item")),
        conditions=conditions,
    )
    return load(package, device or FakeDevice(), **options)


@pytest.mark.row("S:A13")
@pytest.mark.parametrize("place", [(1, 0), (2, 0)])
def test_a_size_is_read_and_its_result_allocated(tmp_path: Path, place: tuple[int, int]) -> None:
    y = np.ones((2, 3), np.float32)
    with model_of(tmp_path, device=FakeDevice(place)) as model:
        for size in (3, 0, 6, 3):
            x = counts(size)
            found = model(x, y)
            np.testing.assert_array_equal(found, x.ravel()[:size] + 1)


@pytest.mark.row("S:A13")
def test_sizes_are_read_behind_sizes(tmp_path: Path) -> None:
    with model_of(tmp_path, NESTED, size=U1) as model:
        for first, second in ((1, 2), (1, 5), (6, 0), (1, 2)):
            x, y = counts(first), counts(second)
            wanted = (x + y + y).ravel()[:second]
            np.testing.assert_array_equal(model(x, y), wanted)


@pytest.mark.row("S:A13")
def test_memory_has_the_bytes_of_the_largest_sizes_or_grows(tmp_path: Path) -> None:
    def allocations(most: int) -> list[int]:
        device = FakeDevice((1, 0))
        launches = f"SizeRead(('u0',), ('x',), ({most},), lambda u0: {TWICE}),"
        seen = []
        y = np.ones((2, 3), np.float32)
        wide = (np.ones((2, 32), np.float32), np.ones((2, 32), np.float32))
        with model_of(tmp_path / str(most), launches, device, Var("u0", 0, 64)) as model:
            for size, (x, other) in ((1, (counts(1), y)), (64, wide), (60, wide), (2, wide)):
                x = x.copy()
                x.ravel()[:2] = np.array([size], np.int64).view(np.float32)
                before = device.allocations
                np.testing.assert_array_equal(model(x, other), (x + other + other).ravel()[:size])
                seen.append(device.allocations - before)
        return seen

    bounded, growing = allocations(64), allocations(2**31 - 1)
    assert bounded[1] == bounded[2] == bounded[3] == 0 < bounded[0]
    assert growing[1] == 1 and growing[2] == growing[3] == 0


@pytest.mark.row("S:A13")
def test_a_bound_that_does_not_fit_is_not_insisted_on(tmp_path: Path) -> None:
    device = FakeDevice((1, 0), capacity=1 << 16)
    launches = f"SizeRead(('u0',), ('x',), (1 << 20,), lambda u0: {TWICE}),"
    with model_of(tmp_path, launches, device) as model:
        x = counts(4)
        np.testing.assert_array_equal(model(x, x), 3 * x.ravel()[:4])


@pytest.mark.row("S:A13")
@pytest.mark.parametrize("size", [-1, 65, 1 << 40])
def test_a_size_outside_of_its_range_is_refused_in_words(tmp_path: Path, size: int) -> None:
    message = f"the data make the size u0 {size}; accepted: 0 to 64\n  aten.nonzero at model.py:3"
    with model_of(tmp_path) as model:
        x = counts(size)
        with pytest.raises(AssertionFailed, match=message):
            model(x, x)
        np.testing.assert_array_equal(model(counts(2), x), (counts(2) + x).ravel()[:2])


@pytest.mark.row("S:A13")
def test_a_condition_is_checked_once_its_sizes_are_known(tmp_path: Path) -> None:
    holds = Int.of(U1) - Int.of(U0) - 1  # 0 where u1 is u0 + 1
    conditions = (SizeCondition(holds, "u1 != u0 + 1", "aten.item"),)
    with model_of(tmp_path, NESTED, size=U1, conditions=conditions) as model:
        assert model(counts(2), counts(4)).shape == (4,)
        with pytest.raises(AssertionFailed, match=r"u0 = 2, u1 = 3|u1 = 3, u0 = 2"):
            model(counts(2), counts(3))


class Recording(FakeDevice):
    """A device whose every stream is being recorded."""

    def capture(self, stream: int) -> int:
        return 1


@pytest.mark.row("S:A13")
def test_a_recording_cannot_ask(tmp_path: Path) -> None:
    model = model_of(tmp_path, device=Recording())
    with model, pytest.raises(DeviceError, match="asks a tensor for a size"):
        model(counts(1), counts(1))


@pytest.mark.row("S:A13")
def test_a_count_that_is_no_tensor_is_refused(tmp_path: Path) -> None:
    lost = READ.replace("'x'", "'lost'")
    with (
        model_of(tmp_path, lost) as model,
        pytest.raises(PackageError, match="a size uses unknown 'lost'"),
    ):
        model(counts(1), counts(1))


@pytest.mark.row("S:A13", "C:H19")
def test_launches_behind_a_read_are_watched(tmp_path: Path) -> None:
    with model_of(tmp_path, debug="nan") as model:
        x = counts(3)
        np.testing.assert_array_equal(model(x, x), 2 * x.ravel()[:3])
        x[0, 2] = np.nan
        with pytest.raises(AotpackError, match="kernel add .* wrote NaN into 'output0': 1 of 3"):
            model(x, x)
