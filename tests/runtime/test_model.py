import gc
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from aotpack.runtime import AotpackError, ArgumentError, ClosedError, DeviceError, Model, load
from aotpack.runtime.arrays.device_array import DeviceArray
from aotpack.runtime.dtypes import DTYPES

from .fake_device import FakeDevice
from .packages import write_stateful

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_numpy_in_numpy_out(model: Model, device: FakeDevice) -> None:
    result = model(X, X + 1)
    assert type(result) is np.ndarray
    np.testing.assert_array_equal(result, (2 * X + 1) * 2)
    assert device.launches == ["add", "scale"]


def test_what_is_public_is_read_only(model: Model) -> None:
    for name in ("device", "manifest", "signature", "targets"):
        with pytest.raises(AttributeError, match=f"'{name}' of a loaded model is read-only; load"):
            setattr(model, name, 3)
    with pytest.raises(AttributeError):
        model.target = "cpu"  # a property
    model.label = "first"
    np.testing.assert_array_equal(model(X, X), X * 4)


def test_a_closed_model_is_not_entered(package: Path) -> None:
    with load(package, FakeDevice((1, 0))) as model:
        assert model(X, X).shape == X.shape
    with pytest.raises(ClosedError, match="entering demo: the model was closed"), model:
        pass


def test_device_arrays_come_back_as_device_arrays(model: Model, device: FakeDevice) -> None:
    x = DeviceArray.from_numpy(device, X, DTYPES["float32"])
    live = len(device.blocks)
    result = model(x, x)
    assert isinstance(result, DeviceArray)
    np.testing.assert_array_equal(result.numpy(), X * 4)
    del result
    assert len(device.blocks) == live + 1  # the arena stays, the output is freed


def test_numpy_is_used_in_place_on_a_host_device(package: Path) -> None:
    device = FakeDevice((1, 0))
    with load(package, device) as model:
        np.testing.assert_array_equal(model(X, X), X * 4)


@pytest.mark.row("S:A12", "C:H7", "C:inv25")
def test_unaligned_tensors_are_staged(package: Path) -> None:
    device = FakeDevice((1, 0))
    with load(package, device) as model:
        base = torch.arange(13, dtype=torch.float32)
        x = base[1:7].reshape(2, 3)
        assert x.data_ptr() % 16
        torch.testing.assert_close(model(x, x), x * 4)
        assert x.data_ptr() not in device.arguments[0]


@pytest.mark.row("S:O4", "S:O5")
def test_no_allocation_in_the_steady_state(model: Model, device: FakeDevice) -> None:
    model(X, X)
    before = device.allocations
    for _ in range(5):
        model(X, X)
    assert device.allocations == before


def test_larger_sizes_grow_the_arena_and_smaller_still_work(model: Model) -> None:
    big = np.ones((8, 32), np.float32)
    for x in (X, big, X, big):
        np.testing.assert_array_equal(model(x, x), x * 4)


def test_out_of_memory_leaves_the_model_usable(package: Path) -> None:
    device = FakeDevice(capacity=2200)
    with load(package, device) as model:
        model(X, X)
        big = np.ones((8, 32), np.float32)
        with pytest.raises(DeviceError, match="no memory left"):
            model(big, big)
        np.testing.assert_array_equal(model(X, X), X * 4)


def test_threads_share_a_model(package: Path) -> None:
    device = FakeDevice()
    inside = threading.Barrier(2, timeout=10)
    with load(package, device, concurrency=2) as model:
        device.before_issue = lambda: inside.wait() and None
        results: list[bool] = []

        def work(value: int) -> None:
            x = np.full((2, 3), value, np.float32)
            for _ in range(5):
                results.append(bool(np.array_equal(model(x, x), x * 4)))

        threads = [threading.Thread(target=work, args=(value,)) for value in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert results == [True] * 10


def test_stream_override(package: Path, device: FakeDevice) -> None:
    class Stream:
        def __cuda_stream__(self) -> tuple[int, int]:
            return (0, 77)

    with load(package, device, stream=Stream()) as model:
        model(X, X)
    assert device.streams == [77]
    with pytest.raises(ArgumentError, match="stream is of type str; accepted"):
        load(package, device, stream="fast")
    for wrong in (-5, True):
        with pytest.raises(ArgumentError, match=f"stream={wrong}; accepted: a stream's address"):
            load(package, device, stream=wrong)
    with pytest.raises(ArgumentError, match="loading demo: a stream is given, .*Leave stream out"):
        load(package, FakeDevice((1, 0)), stream=Stream())


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("forward", r"no attribute 'forward'; call the model itself: model\(...\)$"),
        ("eval", "in its mode: leave it out$"),
        ("to", r"load\(device=...\) loads it on another$"),
        ("state_dict", "manifest.weights has names, types and shapes"),
        ("inptus", r"no attribute 'inptus'; did you mean 'inputs'\?$"),
        ("xyz", "no attribute 'xyz'$"),
    ],
)
def test_what_a_module_of_torch_has_is_told(model: Model, name: str, words: str) -> None:
    with pytest.raises(AttributeError, match=words):
        getattr(model, name)
    assert not hasattr(model, name) and hasattr(model, "inputs")


@pytest.mark.row("S:inv39")
def test_close_gives_all_memory_back(package: Path, device: FakeDevice) -> None:
    model = load(package, device)
    model(X, X)
    assert model.memory == 256 + 1024
    model.close()
    model.close()
    assert device.blocks == {} and device.is_closed
    with pytest.raises(ClosedError, match="calling demo: the model was closed. Load it again."):
        model(X, X)


@pytest.mark.parametrize(
    "use",
    [
        lambda model: model(X, X),
        lambda model: model.state,
        lambda model: model.synchronize(),
        lambda model: model.poison(),
        lambda model: model.bind_weights({"scale": np.ones(1, np.float32)}),
        lambda model: model.weight_places(),
    ],
)
def test_a_closed_model_says_so_whatever_is_asked(
    tmp_path: Path, use: Callable[[Model], Any]
) -> None:
    with load(write_stateful(tmp_path / "demo"), FakeDevice()) as model:
        use(model)
    with pytest.raises(AotpackError, match=r"demo: the model was closed\. Load it again\.$"):
        use(model)


@pytest.mark.parametrize("close", [Model.close, lambda model: None])
def test_views_of_state_outlive_the_model(tmp_path: Path, close: Callable[[Model], None]) -> None:
    device = FakeDevice((1, 0))
    model = load(write_stateful(tmp_path / "demo"), device)
    model(X, X)
    lent = model.state["scale"]
    view = np.from_dlpack(lent)
    close(model)
    del model
    gc.collect()
    assert device.is_closed and len(device.blocks) == 1
    assert lent.numpy().tolist() == view.tolist() == [4.0]
    del lent
    assert view.sum() == 4 and len(device.blocks) == 1
    del view
    assert device.blocks == {}


def test_a_dropped_model_gives_all_memory_back(package: Path, device: FakeDevice) -> None:
    model = load(package, device)
    model(X, X)
    del model
    gc.collect()
    assert device.blocks == {} and device.is_closed
