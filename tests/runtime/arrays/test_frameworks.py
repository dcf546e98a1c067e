import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from aotpack.emit import write_package
from aotpack.ir.dtypes import DType
from aotpack.ir.symbolic.integers import Int
from aotpack.runtime import ArgumentError, Model, WeightError, load
from aotpack.runtime.arrays.device_array import DeviceArray
from aotpack.runtime.dtypes import DTYPES, WIDENED
from aotpack.stages import TensorSpec
from tests.runtime.fake_device import FakeDevice
from tests.runtime.packages import demo, write_demo

X = np.arange(6, dtype=np.float32).reshape(2, 3)


class Interface:
    """An array that knows ``__cuda_array_interface__`` alone."""

    def __init__(self, device: FakeDevice, **changes: Any) -> None:
        self.array = DeviceArray.from_numpy(device, X, DTYPES["float32"])
        self.changes = changes

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {**self.array.__cuda_array_interface__, **self.changes}


def test_the_cuda_array_interface(model: Model, device: FakeDevice) -> None:
    result = model(Interface(device), Interface(device, strides=(12, 4)))
    assert isinstance(result, DeviceArray)
    np.testing.assert_array_equal(result.numpy(), X * 4)


def test_work_on_the_owner_s_stream_is_waited_for(model: Model, device: FakeDevice) -> None:
    model(Interface(device, stream=1), Interface(device, stream=9))
    assert device.waits == [(7, 0)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"strides": (4, 8)}, "'y' is not contiguous"),
        ({"typestr": "<f8"}, "'y' has dtype float64"),
        ({"typestr": ">f4"}, "'y' has dtype float32 of foreign byte order"),
        ({"typestr": "<V2"}, "'y' has dtype bfloat16"),
        ({"mask": X}, "'y': it has a mask"),
        ({"data": (0, False)}, "'y': its array of shape .* has no memory"),
        ({"data": None}, "'y': its __cuda_array_interface__ cannot be understood: TypeError"),
        ({"typestr": "quark"}, "'y': its __cuda_array_interface__ cannot be understood"),
    ],
)
def test_other_memory_is_refused(
    model: Model, device: FakeDevice, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ArgumentError, match=message):
        model(Interface(device), Interface(device, **changes))


def test_another_gpu_is_refused(package: Path) -> None:
    device = FakeDevice((2, 1))
    other = DeviceArray.from_numpy(FakeDevice((2, 0)), X, DTYPES["float32"])
    with (
        load(package, device) as model,
        pytest.raises(ArgumentError, match="'x' is on cuda:0; this model runs on cuda:1"),
    ):
        model(other, other)


def test_cupy_arrays_come_back_on_cupy_s_stream(
    model: Model, device: FakeDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Nothing:
        def __init__(self, *_: object) -> None: ...
        def __enter__(self) -> None: ...
        def __exit__(self, *_: object) -> None: ...

    class ndarray(DeviceArray):  # noqa: N801
        __module__ = "cupy"

        @property
        def data(self) -> SimpleNamespace:
            return SimpleNamespace(ptr=self.address)

    cupy: Any = ModuleType("cupy")
    cupy.empty = lambda shape, dtype: ndarray(device, shape, DTYPES[dtype])
    cupy.cuda = SimpleNamespace(
        Device=Nothing, ExternalStream=Nothing, get_current_stream=lambda: SimpleNamespace(ptr=3)
    )
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    x = ndarray.from_numpy(device, X, DTYPES["float32"])
    result = model(x, x)
    assert type(result) is ndarray and device.streams == [3]
    np.testing.assert_array_equal(result.numpy(), X * 4)


def test_the_strongest_framework_of_a_call_returns(package: Path) -> None:
    with load(package, FakeDevice((1, 0))) as model:
        assert isinstance(model(X, torch.from_numpy(X)), torch.Tensor)


class Exporter:
    """An array whose DLPack methods are given."""

    def __init__(self, dlpack: Callable[[], Any], place: Callable[[], Any]) -> None:
        self._dlpack, self._place = dlpack, place

    def __dlpack__(self, **options: Any) -> Any:
        return self._dlpack()

    def __dlpack_device__(self) -> Any:
        return self._place()


@pytest.mark.parametrize(
    ("dlpack", "place", "message"),
    [
        (lambda: 1 / 0, lambda: (1, 0), "cannot be exported by DLPack: ZeroDivisionError"),
        (X.__dlpack__, lambda: None, "cannot be exported by DLPack: TypeError"),
        (X.__dlpack__, dict[int, int]().popitem, "cannot be exported by DLPack: KeyError"),
        (lambda: X, lambda: (1, 0), "its __dlpack__ gave ndarray, not a capsule"),
    ],
)
def test_exporters_that_fail_are_refused_by_name(
    package: Path, dlpack: Callable[[], Any], place: Callable[[], Any], message: str
) -> None:
    with load(package, FakeDevice((1, 0))) as model:
        for y in (Exporter(dlpack, place), X):  # alone, and beside another framework's
            with pytest.raises(ArgumentError, match=f"argument 'x': .*{message}"):
                model(Exporter(dlpack, place), y)
        good = Exporter(X.__dlpack__, lambda: (1, 0))
        np.testing.assert_array_equal(np.from_dlpack(model(good, good)), X * 4)


def test_masked_arrays_are_refused(model: Model) -> None:
    with pytest.raises(ArgumentError, match=r"argument 'y': it is a masked array.*\.filled"):
        model(X, np.ma.masked_equal(X, 3))
    with pytest.raises(WeightError, match="'scale': it is a masked array"):
        model.bind_weights({"scale": np.ma.ones(1, np.float32)})


def test_numbers_of_python_are_refused_with_those_of_numpy(
    tmp_path: Path, device: FakeDevice
) -> None:
    kinds = DType.FLOAT32, DType.BFLOAT16, DType.BOOL, DType.INT64
    inputs = tuple(TensorSpec(f"a{number}", kind, ()) for number, kind in enumerate(kinds))
    good = [np.float32(2), np.uint16(0), np.bool_(True), 2**63 - 1]
    with load(write_demo(tmp_path / "demo", inputs=inputs), device) as model:
        np.testing.assert_array_equal(model(X, X, *good), X * 4)
        for number, value, words in (
            (0, 0.5, r"it is float, not a tensor; .* dimensions. Pass numpy.float32\(0.5\)$"),
            (1, 0.5, r"Pass torch.tensor\(0.5, dtype=torch.bfloat16\)$"),
            (3, 1.5, r"it is float, not a tensor; .* no dimensions. Pass an integer$"),
            (3, 2.0, r"no dimensions. Pass 2$"),
            (3, True, r"no dimensions. Pass 1$"),
            (3, np.array([2]), r"1 dimensions, shape \[1\]; .*: pass x.reshape\(\(\)\)\.$"),
            (2, True, r"it is bool, .*. Pass numpy.bool_\(True\)$"),
            (
                3,
                2**64,
                r"it is 18446744073709551616, out of range; accepted: -2\*\*63 to 2\*\*63 - 1",
            ),
            (3, 2**63, r"it is 9223372036854775808, out of range"),
            (3, "2", "it is str, not a tensor; .* no dimensions$"),
        ):
            given = [*good[:number], value, *good[number + 1 :]]
            with pytest.raises(ArgumentError, match=f"argument 'a{number}':? .*{words}"):
                model(X, X, *given)


def test_shapes_are_guarded_before_anything_is_copied(package: Path) -> None:
    huge = np.broadcast_to(X[:1, :1], (2**40, 16))  # 64 TiB
    with load(package, FakeDevice((1, 0))) as model:
        for args in ((huge, huge), (X, huge), (torch.from_numpy(X), huge)):
            with pytest.raises(ArgumentError, match="1099511627776"):
                model(*args)
        for y in (np.broadcast_to(X[:1], (2, 3)), X[::-1], np.asfortranarray(X)):
            np.testing.assert_array_equal(model(X, y), (X + y) * 2)


def test_numpy_arrays_are_widened_where_that_is_exact(tmp_path: Path, device: FakeDevice) -> None:
    one = (Int.of(1),)
    kinds = (DType.INT64, DType.INT32, DType.INT16, DType.FLOAT64)
    inputs = tuple(TensorSpec(f"a{number}", kind, one) for number, kind in enumerate(kinds))
    with load(write_demo(tmp_path / "demo", inputs=inputs), device) as model:
        good: list[Any] = [np.ones(1, str(kind)) for kind in kinds]
        for number, kind in enumerate(kinds):
            for found in (
                "int8 uint8 int16 uint16 int32 uint32 int64 uint64 bool float16 float32 float64"
            ).split():
                given = [*good]
                given[number] = np.ones(1, found)
                if found == str(kind) or found in WIDENED[str(kind)]:
                    assert np.can_cast(found, str(kind), "safe")
                    np.testing.assert_array_equal(model(X, X, *given), X * 4)
                    continue
                with pytest.raises(ArgumentError, match=f'has dtype {found}.*astype."{kind}"'):
                    model(X, X, *given)


def test_a_changed_argument_is_not_widened(tmp_path: Path, device: FakeDevice) -> None:
    made = demo(updates=("x",))
    golden = replace(
        made.rendered.golden, updates=made.rendered.golden.inputs[:1], eager_errors=(1e-6, 1e-6)
    )
    write_package(replace(made, rendered=replace(made.rendered, golden=golden)), tmp_path / "demo")
    with load(tmp_path / "demo", device) as model:
        half = X.astype(np.float16)
        np.testing.assert_array_equal(model(X.copy(), half), X * 4)
        with pytest.raises(ArgumentError, match="'x' has dtype float16; accepted: float32. Conv"):
            model(half, X)
