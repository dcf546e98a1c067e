"""Arguments a call changes: staged ones come back, unfit ones are refused before a launch."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aotpack.emit import write_package
from aotpack.runtime import Model, load
from aotpack.runtime.checks.changes import check_no_aliases
from aotpack.runtime.errors import ArgumentError
from tests.runtime.fake_device import FakeDevice
from tests.runtime.packages import WRAPPER, demo

CHANGING = WRAPPER.replace('("x", "y", "total", b*s)', '("x", "y", "x", b*s)').replace(
    '("total", "scale", "output0", b*s)', '("x", "scale", "output0", b*s)'
)


def loaded(folder: Path, device: FakeDevice) -> Model:
    """The demo package, which now adds y to x in place."""
    made = demo(wrapper=CHANGING, updates=("x",))
    golden = made.rendered.golden
    x = np.frombuffer(golden.inputs[0][3], np.float32) * 2
    update = ("x", *golden.inputs[0][1:3], x.tobytes())
    golden = replace(golden, updates=(update,), eager_errors=(1e-6, 1e-6))
    write_package(replace(made, rendered=replace(made.rendered, golden=golden)), folder)
    return load(folder, device)


def numbers() -> np.ndarray[Any, Any]:
    return np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.row("C:H5")
@pytest.mark.parametrize("place", [(2, 0), (1, 0)])
@pytest.mark.parametrize("shifted", [False, True])
def test_change_arrives_at_the_caller(tmp_path: Path, place: Any, shifted: bool) -> None:
    memory = np.zeros(7, np.float32)
    x = memory[1:].reshape(2, 3) if shifted else numbers()
    x[:] = numbers()
    with loaded(tmp_path, FakeDevice(place)) as model:
        assert np.array_equal(model(x, numbers()), numbers() * 4)
    assert np.array_equal(x, numbers() * 2)


def read_only() -> np.ndarray[Any, Any]:
    array = numbers()
    array.flags.writeable = False
    return array


def overlapping() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    memory = np.zeros(9, np.float32)
    return memory[:6].reshape(2, 3), memory[3:].reshape(2, 3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: (read_only(), numbers()), "'x' is read-only, but the model changes it"),
        (lambda: (numbers().T.copy().T, numbers()), "'x' is not contiguous"),
        (overlapping, "'x' shares memory with 'y', but the model changes it"),
    ],
)
def test_refuses(tmp_path: Path, make: Callable[[], Any], message: str) -> None:
    device = FakeDevice((1, 0))
    with loaded(tmp_path, device) as model:
        with pytest.raises(ArgumentError, match=message):
            model(*make())
        assert device.launches == []


spans = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 5)), max_size=6)


@given(spans, st.sets(st.integers(0, 5)))
def test_whatever_a_changed_argument_shares_is_found(
    given_spans: list[tuple[int, int]], chosen: set[int]
) -> None:
    changed = sorted(number for number in chosen if number < len(given_spans))
    inputs = tuple(SimpleNamespace(name=f"x{number}") for number in range(len(given_spans)))
    paths = tuple(one.name for one in inputs)
    signature: Any = SimpleNamespace(name="demo", inputs=inputs, paths=paths)
    is_shared = any(
        one != other and set(range(a, a + n)) & set(range(b, b + m))
        for one, (a, n) in enumerate(given_spans)
        for other, (b, m) in enumerate(given_spans)
        if one in changed
    )
    addresses, sizes = [a for a, _ in given_spans], [n for _, n in given_spans]
    if is_shared:
        with pytest.raises(ArgumentError, match="shares memory with"):
            check_no_aliases(signature, changed, addresses, sizes)
    else:
        check_no_aliases(signature, changed, addresses, sizes)
