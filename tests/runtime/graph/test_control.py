"""Plans with branches and loops on the fake device: what is issued, and on which memory."""

from pathlib import Path

import numpy as np
import pytest

from aotpack.runtime import load
from aotpack.runtime.errors import AotpackError, DeviceError, PackageError
from tests.runtime.fake_device import FakeDevice
from tests.runtime.packages import write_demo

X = np.arange(6, dtype=np.float32).reshape(2, 3)
HEAD = '''\
"""demo 0.1.0"""
from ._runtime import Branch, Buffer, Launch, Loop, Part, Plan


def plan(arch: int, b: int, s: int) -> Plan:
    n, grid = b*s, (b*s, 1, 1)
    add, scale = Launch("add", grid, ("x", "y", "output0", n)), Launch
    return Plan(buffers=({buffers}), outputs=((b, s),), launches=({launches}))
'''
ADD = 'Part((), (Launch("add", grid, ("x", "y", "output0", n)),))'
SCALE = 'Part((), (Launch("scale", grid, ("x", "scale", "output0", n)),))'
TWICE = (
    'Part((Buffer("t", 4*n, 0, 1),), ('
    'Launch("add", grid, ("x", "y", "t", n)), Launch("add", grid, ("t", "kept", "output0", n))))'
)


def model_of(folder: Path, launches: str, buffers: str = "", device: FakeDevice | None = None):
    wrapper = HEAD.format(buffers=buffers, launches=launches)
    return load(write_demo(folder / "demo", wrapper=wrapper), device or FakeDevice())


@pytest.mark.row("S:I3")
def test_sizes_choose_a_side(tmp_path: Path) -> None:
    with model_of(tmp_path, f"Branch(min(1, max(0, s - 3)), {ADD}, {SCALE}),") as model:
        np.testing.assert_array_equal(model(X, X + 1), X * 2)
        wide = np.ones((2, 4), np.float32)
        np.testing.assert_array_equal(model(wide, wide * 2), wide * 3)


@pytest.mark.row("S:I3")
@pytest.mark.parametrize("first", [0.0, 1.0])
def test_a_tensor_chooses_a_side(tmp_path: Path, first: float) -> None:
    """The host reads one byte: of a float, the lowest is 0, that of the smallest number 1."""
    x = X.copy()
    x[0, 0] = np.uint32(1).view(np.float32) if first else 0
    with model_of(tmp_path, f"Branch('x', {ADD}, {SCALE}),") as model:
        np.testing.assert_array_equal(model(x, X + 1), x + X + 1 if first else x * 2)


@pytest.mark.row("S:I4")
def test_a_loop_counts(tmp_path: Path) -> None:
    """The body takes the number of its turn as an integer: so many elements are added."""
    body = 'Part((), (Launch("add", grid, ("output0", "y", "output0", "turn")),))'
    device = FakeDevice()
    with model_of(tmp_path, f"Loop(s + 1, 'turn', {SCALE}, {body}),", device=device) as model:
        wanted = (X * 2).ravel()
        for turn in range(4):
            wanted[:turn] += X.ravel()[:turn]
        np.testing.assert_array_equal(model(X, X), wanted.reshape(X.shape))
        assert device.launches == ["scale", *["add"] * 4]


@pytest.mark.row("S:I4")
def test_a_loop_asks_before_each_turn(tmp_path: Path) -> None:
    """``a`` goes down by the smallest number there is; its lowest byte is 0 once it is 0.0."""
    x = np.full((1, 1), np.uint32(3).view(np.float32))
    less = np.full((1, 1), -np.uint32(1).view(np.float32))
    test = 'Part((), (Launch("add", grid, ("a", "zero", "asked", n)),))'
    body = 'Part((), (Launch("add", grid, ("a", "y", "a", n)),))'
    entry = 'Part((), (Launch("add", grid, ("x", "zero", "a", n)),))'
    buffers = 'Buffer("a", 4*n, 0, 1), Buffer("asked", 4*n, 0, 0), Buffer("zero", 4*n, 0, 1),'
    end = 'Launch("add", grid, ("a", "zero", "output0", n)),'
    device = FakeDevice()
    launches = f"Loop('asked', '', {entry}, {body}, {test}), {end}"
    with model_of(tmp_path, launches, buffers, device) as model:
        assert model(x, less)[0, 0] == 0
        assert device.launches == ["add"] * (1 + 2 * 3 + 1 + 1)


@pytest.mark.row("S:I3", "S:O4")
def test_parts_have_memory_beside_what_lives_around_them(tmp_path: Path) -> None:
    keep = 'Launch("scale", grid, ("x", "scale", "kept", n)),'
    read = 'Launch("add", grid, ("output0", "kept", "output0", n)),'
    buffers = 'Buffer("kept", 4*n, 0, 2),'
    launches = f"{keep} Branch(s // 3, {TWICE}, {TWICE}), {read}"
    with model_of(tmp_path, launches, buffers) as model:
        np.testing.assert_array_equal(model(X, X), 6 * X)


@pytest.mark.row("S:I3")
@pytest.mark.parametrize(
    ("launches", "message"),
    [
        (f"Branch('lost', {ADD}, {SCALE}),", "a condition uses unknown 'lost'"),
        (f"Branch(1, {TWICE}, {ADD}),", "add uses unknown 'kept'"),
        (
            f"Loop(2, 'turn', {ADD}, Part((), (Launch('add', grid, ('turn', 'y', 'x', n)),))),",
            "add cannot take 'turn' there",
        ),
        ('Launch("add", grid, ("x", "y", "output0", "x")),', "add cannot take 'x' there"),
    ],
)
def test_wrong_parts(tmp_path: Path, launches: str, message: str) -> None:
    with model_of(tmp_path, launches) as model, pytest.raises(PackageError, match=message):
        model(X, X)


class Recording(FakeDevice):
    """A device whose every stream is being recorded."""

    def capture(self, stream: int) -> int:
        return 1


@pytest.mark.row("S:I3")
def test_a_recording_cannot_ask(tmp_path: Path) -> None:
    model = model_of(tmp_path, f"Branch('x', {ADD}, {SCALE}),", device=Recording())
    with model, pytest.raises(DeviceError, match="asks a tensor which way to go"):
        model(X, X)


@pytest.mark.row("S:I3", "C:H19")
def test_launches_inside_are_watched(tmp_path: Path) -> None:
    wrapper = HEAD.format(buffers="", launches=f"Branch(1, {ADD}, {SCALE}),")
    with load(write_demo(tmp_path / "demo", wrapper=wrapper), FakeDevice(), debug="nan") as model:
        np.testing.assert_array_equal(model(X, X), X * 2)
        with pytest.raises(AotpackError, match="kernel add .* wrote NaN into 'output0': 6 of 6"):
            model(X * np.float32(np.nan), X)
