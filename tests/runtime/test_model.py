import gc
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

from aotpack.ir.dtypes import DType
from aotpack.ir.symbolic.integers import Int
from aotpack.runtime import AotpackError, ArgumentError, DeviceError, Model, PackageError, load
from aotpack.runtime.arrays.device_array import DeviceArray
from aotpack.runtime.dtypes import DTYPES
from aotpack.stages import TensorSpec, Tree

from .fake_device import FakeDevice
from .packages import LEAF, WRAPPER, S, write_demo

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_numpy_in_numpy_out(model: Model, device: FakeDevice) -> None:
    result = model(X, X + 1)
    assert type(result) is np.ndarray
    np.testing.assert_array_equal(result, (2 * X + 1) * 2)
    assert device.launches == ["add", "scale"]


def test_arguments_by_name(model: Model) -> None:
    np.testing.assert_array_equal(model(y=X, x=X), X * 4)


def test_device_arrays_come_back_as_device_arrays(model: Model, device: FakeDevice) -> None:
    x = DeviceArray.from_numpy(device, X, DTYPES["float32"])
    live = len(device.blocks)
    result = model(x, x)
    assert isinstance(result, DeviceArray)
    np.testing.assert_array_equal(result.numpy(), X * 4)
    del result
    assert len(device.blocks) == live + 1  # the arena stays, the output is freed


def test_torch_on_a_host_device(package: Path) -> None:
    with load(package, FakeDevice((1, 0))) as model:
        x = torch.from_numpy(X)
        result = model(x, x)
        assert isinstance(result, torch.Tensor)
        torch.testing.assert_close(result, x * 4)


def test_numpy_is_used_in_place_on_a_host_device(package: Path) -> None:
    device = FakeDevice((1, 0))
    with load(package, device) as model:
        np.testing.assert_array_equal(model(X, X), X * 4)


@pytest.mark.row("S:A12", "C:H7", "C:inv25")
def test_unaligned_tensors_are_staged(package: Path) -> None:
    with load(package, FakeDevice((1, 0))) as model:
        base = torch.arange(13, dtype=torch.float32)
        x = base[1:7].reshape(2, 3)
        assert x.data_ptr() % 16
        torch.testing.assert_close(model(x, x), x * 4)


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


@pytest.mark.row("S:A14", "S:H3", "C:inv27")
def test_size_zero_launches_nothing(model: Model, device: FakeDevice) -> None:
    empty = np.ones((2, 0), np.float32)
    assert model(empty, empty).shape == (2, 0)
    assert device.launches == []


def test_out_of_memory_leaves_the_model_usable(package: Path) -> None:
    device = FakeDevice(capacity=2200)
    with load(package, device) as model:
        model(X, X)
        big = np.ones((8, 32), np.float32)
        with pytest.raises(DeviceError, match="no memory left"):
            model(big, big)
        np.testing.assert_array_equal(model(X, X), X * 4)


@pytest.mark.row("S:D1", "S:H13")
def test_structured_arguments_and_results(tmp_path: Path, device: FakeDevice) -> None:
    args = Tree("tuple", (Tree("dict", (LEAF, Tree("list", (LEAF,))), ("x", "rest")),))
    result = Tree("object", (LEAF, Tree("none")), ("logits", "loss"))
    folder = write_demo(tmp_path / "demo", args=args, result=result)
    with load(folder, device) as model:
        made = model({"rest": [X], "x": X})
        np.testing.assert_array_equal(made.logits, X * 4)
        assert made["loss"] is None and made[0] is made.logits
        with pytest.raises(ArgumentError, match=r"'rest'\] is list of 2; accepted: list of 1"):
            model({"x": X, "rest": [X, X]})
        with pytest.raises(ArgumentError, match="lacks 'rest'; accepted: exactly 'x', 'rest'"):
            model({"x": X})


@pytest.mark.row("S:I6", "S:E4")
def test_constants_of_the_trace_must_be_repeated(tmp_path: Path, device: FakeDevice) -> None:
    args = Tree("tuple", (LEAF, LEAF, Tree("constant", value=True)))
    with load(write_demo(tmp_path / "demo", args=args), device) as model:
        np.testing.assert_array_equal(model(X, X, True), X * 4)
        with pytest.raises(ArgumentError, match="is False; the model was traced with True"):
            model(X, X, False)


@pytest.mark.row("S:H27", "S:H26")
@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (X.astype(np.float64), X, r"demo: argument 'x' has dtype float64; accepted: float32"),
        (X[0], X, r"'x' has 1 dimensions, shape \[3\]; accepted: 2, shape \[b, s\]"),
        (np.ones((9, 3), np.float32), np.ones((9, 3), np.float32), "b 9 by its dimension 0.*1 to"),
        (np.ones((2, 33), np.float32), np.ones((2, 33), np.float32), "s 33.*s in 0 to 32"),
        (
            X,
            X[:1],
            r"'y' has size 1 in dimension 0; accepted: 2, for it is b with b = 2 \(from 'x'",
        ),
        (X, "text", "argument 'y': .* it is str, not a tensor"),
        (X, 1.5, "argument 'y': .* it is float, not a tensor; .* int for an int64 of no dim"),
        (X, 3, r"'y' has dtype int64; accepted: float32"),
        (X, torch.from_numpy(X), "'y' is on cpu; this model runs on cuda:0"),
    ],
)
def test_guards(model: Model, device: FakeDevice, x: object, y: object, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        model(x, y)
    assert device.launches == []


@pytest.mark.row("S:D2", "S:H27")
def test_noncontiguous_tensors_are_refused(package: Path) -> None:
    with load(package, FakeDevice((1, 0))) as model:
        x = torch.ones(3, 2).T
        with pytest.raises(ArgumentError, match=r"not contiguous.*Call \.contiguous\(\)"):
            model(x, x)


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((X,), {}, "argument 'y' is missing; accepted: x, y"),
        ((X, X, X), {}, "got 3 positional arguments"),
        ((X, X), {"mask": X}, "argument 'mask' is unknown"),
        ((X, X), {"y": X}, "argument 'y' is unknown or given twice"),
        ((X,), {"z": X}, "argument 'y' is missing, argument 'z' is unknown or given twice; accept"),
    ],
)
def test_wrong_argument_lists(model: Model, args: tuple, kwargs: dict, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        model(*args, **kwargs)


@pytest.mark.parametrize(
    ("args", "kwargs", "words"),
    [
        (
            (),
            ("x", "y"),
            "accepted: no positional argument; by keyword alone: x, y.",
        ),
        (("x",), ("y",), "2 positional arguments; accepted: x; by keyword alone: y."),
    ],
)
def test_keywords_of_the_example_are_keywords(
    tmp_path: Path, device: FakeDevice, args: tuple[str, ...], kwargs: tuple[str, ...], words: str
) -> None:
    trees = {
        "args": Tree("tuple", (LEAF,) * len(args)),
        "kwargs": Tree("dict", (LEAF,) * len(kwargs), kwargs),
    }
    with load(write_demo(tmp_path / "demo", **trees), device) as model:
        np.testing.assert_array_equal(model(*[X] * len(args), **dict.fromkeys(kwargs, X)), X * 4)
        with pytest.raises(ArgumentError, match=words):
            model(X, X)


def test_formulas_are_solved_and_checked(tmp_path: Path, device: FakeDevice) -> None:
    mask = TensorSpec("mask", DType.BOOL, (2 * Int.of(S) + 1,))
    with load(write_demo(tmp_path / "demo", inputs=(mask,)), device) as model:
        model(X, X, np.ones(7, bool))
        with pytest.raises(ArgumentError, match=r"size 6 in dimension 0; accepted: 7.*2\*s \+ 1"):
            model(X, X, np.ones(6, bool))


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
    with pytest.raises(ArgumentError, match="stream= is str; accepted"):
        load(package, device, stream="fast")


@pytest.mark.row("S:inv39")
def test_close_gives_all_memory_back(package: Path, device: FakeDevice) -> None:
    model = load(package, device)
    model(X, X)
    assert model.memory == 256 + 1024
    model.close()
    model.close()
    assert device.blocks == {} and device.is_closed
    with pytest.raises(AotpackError, match="calling demo: the model was closed"):
        model(X, X)


def test_a_dropped_model_gives_all_memory_back(package: Path, device: FakeDevice) -> None:
    model = load(package, device)
    model(X, X)
    del model
    gc.collect()
    assert device.blocks == {} and device.is_closed


@pytest.mark.row("C:inv26")
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('Launch("add"', 'Launch("lost"', "kernel lost has no binary"),
        ('"total", b*s)),\n', '"total")),\n', "add takes 4 arguments, wrapper.py passes 3"),
        ('"scale", "output0"', '"lost", "output0"', "scale uses unknown 'lost'"),
        ('("x", "y", "total", b*s)', '("x", "y", "total", 2**31)', "takes int32.*2147483648"),
        ('Buffer("total"', 'Buffer("x"', "two tensors are called 'x'"),
    ],
)
def test_wrong_plans(tmp_path: Path, old: str, new: str, message: str) -> None:
    folder = write_demo(tmp_path / "demo", wrapper=WRAPPER.replace(old, new))
    with load(folder, FakeDevice()) as model, pytest.raises(PackageError, match=message):
        model(X, X)
