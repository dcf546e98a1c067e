"""What the methods of a package share lives as long as one of them does."""

import gc
import weakref
from pathlib import Path

import numpy as np
import pytest

from aotpack.runtime import AotpackError, load

from ..fake_device import FakeDevice
from ..packages import write_demo, write_stateful

X = np.ones((1, 2), np.float32)


def test_memory_is_freed_once_nobody_holds_it(tmp_path: Path) -> None:
    device = FakeDevice()
    model = load(write_demo(tmp_path / "demo"), device)
    model(X, X)
    held, gone = model._held, weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None and device.blocks
    del held
    gc.collect()
    assert not device.blocks


def test_closing_twice_frees_once(tmp_path: Path) -> None:
    device = FakeDevice()
    with load(write_demo(tmp_path / "demo"), device) as model:
        assert model.methods == {"": model}
    model.close()
    assert not device.blocks
    with pytest.raises(AotpackError, match="reading the state of demo: the model was closed"):
        _ = model.state


def test_another_name_of_state_is_answered_with_the_near_one(tmp_path: Path) -> None:
    with load(write_stateful(tmp_path / "demo"), FakeDevice()) as model:
        state = model.state
        assert [*state] == ["scale"] and state["scale"].shape == (1,)
        assert "scales" not in state and state.get("scales") is None
        with pytest.raises(KeyError, match="the state has no 'scales'; did you mean 'scale'"):
            state["scales"]
        with pytest.raises(KeyError, match="the state has no 'nope'; it has scale"):
            state["nope"]


def test_state_is_written_to_in_its_memory_alone(tmp_path: Path) -> None:
    with load(write_stateful(tmp_path / "demo"), FakeDevice()) as model:
        state = model.state
        with pytest.raises(AotpackError, match=r"setting 'scale' of the state.*bind_weights\(\{'s"):
            state["scale"] = np.ones(1, np.float32)
        assert state == {"scale": state["scale"]} and "scale" in repr(state)
