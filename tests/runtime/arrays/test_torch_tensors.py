"""Tensors of torch as arguments and results."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from aotpack.runtime import ArgumentError, WeightError, load
from tests.runtime.fake_device import FakeDevice

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_torch_on_a_host_device(package: Path) -> None:
    with load(package, FakeDevice((1, 0))) as model:
        x = torch.from_numpy(X)
        result = model(x, x)
        assert isinstance(result, torch.Tensor)
        torch.testing.assert_close(result, x * 4)


def test_torch_layouts_without_memory_are_refused(package: Path) -> None:
    with (
        load(package, FakeDevice((1, 0))) as model,
        pytest.raises(ArgumentError, match="layout torch.sparse_coo.*accepted: dense"),
    ):
        model(torch.ones(2, 3).to_sparse(), torch.ones(2, 3))


def _fake() -> torch.Tensor:
    with FakeTensorMode():
        return torch.ones(2, 3)


def _freed(first: int = 0) -> torch.Tensor:
    """Rows of a tensor whose storage was freed, as sharding does between uses."""
    whole = torch.ones(99, 3)
    rows = whole[first : first + 2]
    whole.untyped_storage().resize_(0)
    return rows


@pytest.mark.parametrize("make", [_fake, _freed, lambda: _freed(90)])
@pytest.mark.filterwarnings("ignore:Accessing the data pointer")
def test_tensors_with_a_shape_and_no_memory_are_refused(
    package: Path, make: Callable[[], torch.Tensor]
) -> None:
    with load(package, FakeDevice((1, 0))) as model:
        good = torch.ones(2, 3)
        for args in ((good, make()), (make(), good)):
            with pytest.raises(ArgumentError, match="argument '.' has a shape but no memory"):
                model(*args)
        torch.testing.assert_close(model(good, good), good * 4)
        empty = torch.empty(2, 0)  # has none, and needs none
        assert model(empty, empty).shape == (2, 0)


def _shrunk(first: int = 0) -> torch.Tensor:
    whole = torch.ones(4, 3)
    rows = whole[first : first + 2]
    whole.untyped_storage().resize_(4 * 3 * (first + 2) - 1)
    return rows


@pytest.mark.parametrize("first", [0, 2])
def test_tensors_that_end_outside_of_their_storage_are_refused(package: Path, first: int) -> None:
    good = torch.ones(4, 3)[first : first + 2]
    for number in range(2):
        with load(package, FakeDevice((1, 0))) as model:
            args = [good, good]
            args[number] = _shrunk(first)
            with pytest.raises(ArgumentError, match=f"argument '{'xy'[number]}'.*it was resized"):
                model(*args)
            torch.testing.assert_close(model(good, good), good * 4)


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.ones(1, 3).expand(2, 3),
        lambda: torch.ones(2, 9)[:, ::3],
        lambda: torch.ones(3, 2).t(),
    ],
    ids=["expanded", "with gaps", "transposed"],
)
def test_views_inside_of_their_storage_are_told_from_resized_ones(
    package: Path, make: Callable[[], torch.Tensor]
) -> None:
    with load(package, FakeDevice((1, 0))) as model:
        view = make()
        good = view.contiguous()
        torch.testing.assert_close(model(good, good), good * 4)
        with pytest.raises(ArgumentError, match="'x' is not contiguous; .* Call .contiguous"):
            model(view, good)
        view.untyped_storage().resize_(4)
        with pytest.raises(ArgumentError, match="'x': .* a storage that has 4: it was resized"):
            model(view, good)


def test_weights_that_end_outside_of_their_storage_are_refused(package: Path) -> None:
    shrunk = torch.ones(1)
    shrunk.untyped_storage().resize_(3)
    with (
        load(package, FakeDevice((1, 0))) as model,
        pytest.raises(WeightError, match="'scale'.*it was resized"),
    ):
        model.bind_weights({"scale": shrunk})


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_nested_tensors_are_refused(package: Path, layout: torch.layout) -> None:
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=layout)
    words = "argument 'y': it is a nested tensor; accepted: dense tensors, .*to_padded_tensor"
    with load(package, FakeDevice((1, 0))) as model:
        with pytest.raises(ArgumentError, match=words) as told:
            model(torch.ones(2, 3), nested)
        assert "Internal" not in str(told.value)
        model(torch.ones(2, 3), torch.nested.to_padded_tensor(nested, 0.0).contiguous())


@pytest.mark.filterwarnings("ignore:.*quantize_per_tensor")
def test_quantized_tensors_are_refused_until_they_are_dequantized(package: Path) -> None:
    x = torch.ones(2, 3)
    codes = torch.quantize_per_tensor(x, 0.5, 0, torch.qint8)
    with load(package, FakeDevice((1, 0))) as model:
        with pytest.raises(ArgumentError, match=r"dtype qint8; .*Convert it: \.dequantize\(\)\.$"):
            model(x, codes)
        model(x, codes.dequantize())


def test_weights_without_memory_are_refused(package: Path) -> None:
    freed = torch.ones(1)
    freed.untyped_storage().resize_(0)
    with (
        load(package, FakeDevice((1, 0))) as model,
        pytest.raises(WeightError, match="'scale' has a shape but no memory"),
    ):
        model.bind_weights({"scale": freed})


def test_negated_views_are_read_with_their_sign(package: Path) -> None:
    x = torch.arange(6.0).reshape(2, 3)
    view = torch._neg_view(x)
    assert view.is_neg() and view.data_ptr() == x.data_ptr()
    with load(package, FakeDevice((1, 0))) as model:
        torch.testing.assert_close(model(view, x + 1), torch.full_like(x, 2))
        model.bind_weights({"scale": torch._neg_view(torch.ones(1))})
        torch.testing.assert_close(model(x, x), -2 * x)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_narrower_floats_are_widened_and_wider_ones_refused(
    package: Path, dtype: torch.dtype
) -> None:
    x = torch.arange(6.0).reshape(2, 3)
    with load(package, FakeDevice((1, 0))) as model:
        for args in ((x.to(dtype), x), (x, x.to(dtype)), (x.to(dtype), x.to(dtype))):
            torch.testing.assert_close(model(*args), 4 * x)
        message = r"float64; accepted: float32, or float16, bfloat16.*\.to\(torch\.float32\)"
        with pytest.raises(ArgumentError, match=message):
            model(x.double(), x)
