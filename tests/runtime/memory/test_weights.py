from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from aotpack.runtime import PackageError, WeightError, load
from aotpack.runtime.safetensors import read_safetensors
from tests.runtime.fake_device import FakeDevice
from tests.runtime.packages import write_demo

X = np.ones((1, 2), np.float32)
FIVE = np.array([5], np.float32)


def test_embedded_weights(package: Path, device: FakeDevice) -> None:
    with load(package, device) as model:
        assert model(X, X).tolist() == [[4, 4]]


@pytest.mark.parametrize("given", [{"scale": FIVE}, {"alias": torch.from_numpy(FIVE)}])
def test_binding_replaces_weights(package: Path, device: FakeDevice, given: dict) -> None:
    with load(package, device) as model:
        model.bind_weights(given)
        assert model(X, X).tolist() == [[10, 10]]


SIX = np.array([6], np.float32)


@pytest.mark.parametrize("name", ["alias", "scale"])
@pytest.mark.parametrize("as_torch", [False, True])
def test_names_of_one_weight_take_equal_values(
    tmp_path: Path, package: Path, device: FakeDevice, *, name: str, as_torch: bool
) -> None:
    other = "alias" if name == "scale" else "scale"
    given = {name: FIVE, other: FIVE.copy()}
    if as_torch:
        given = {key: torch.from_numpy(value) for key, value in given.items()}
    file = tmp_path / "both.safetensors"
    save_file({name: FIVE, other: FIVE.copy()}, file)
    with load(package, device) as model:
        model.bind_weights(given)
        assert model(X, X).tolist() == [[10, 10]]
        model.bind_weights({name: FIVE - 1})
        model.bind_weights(file)
        assert model(X, X).tolist() == [[10, 10]]


@pytest.mark.parametrize("other", [SIX, torch.tensor([6.0]), np.array([np.nan], np.float32)])
def test_names_of_one_weight_refuse_values_that_differ(
    package: Path, device: FakeDevice, other: object
) -> None:
    told = "'scale' and 'alias' are one tensor in this model and were given as two that differ"
    with load(package, device) as model:
        with pytest.raises(WeightError, match=told):
            model.bind_weights({"scale": FIVE, "alias": other})
        assert model(X, X).tolist() == [[4, 4]]


def test_no_weights_in_the_package(tmp_path: Path, device: FakeDevice) -> None:
    folder = write_demo(tmp_path / "demo", weights="none")
    with load(folder, device) as model:
        with pytest.raises(WeightError, match="1 of 1 weights have not .*'scale'.*--weights FILE"):
            model(X, X)
        model.bind_weights({"scale": FIVE})
        assert model(X, X).tolist() == [[10, 10]]
    with load(folder, device, weights={"scale": FIVE}) as model:
        assert model(X, X).tolist() == [[10, 10]]


@pytest.mark.parametrize("mode", ["embed", "sidecar", "none"])
def test_constants_travel_in_every_package(tmp_path: Path, device: FakeDevice, mode: str) -> None:
    folder = write_demo(tmp_path / "demo", weights=mode, is_constant=True)
    with load(folder, device, weights={}) as model:
        assert model(X, X).tolist() == [[4, 4]]


@pytest.mark.parametrize("place", [(2, 0), (1, 0)])
def test_a_strict_binding_puts_factors_back(tmp_path: Path, place: tuple[int, int]) -> None:
    """Of tensors and of a file, which a GPU streams."""
    folder = write_demo(tmp_path / "demo", is_constant=True)
    constants = read_safetensors(folder / "constants.safetensors")
    file = tmp_path / "file.safetensors"
    file.write_bytes((2).to_bytes(8, "little") + b"{}")
    with load(folder, FakeDevice(place)) as model:
        model._weights.keep_factors(constants)
        for given, strict, wanted in (({}, True, 4), (file, True, 4), (file, False, 10)):
            model.bind_weights({"scale": np.full(1, 5, np.float32)}, strict=False)
            assert model(X, X).tolist() == [[10, 10]]
            model.bind_weights(given, strict=strict)
            assert model(X, X).tolist() == [[wanted, wanted]]


def test_damaged_constants_are_refused(tmp_path: Path, device: FakeDevice) -> None:
    folder = write_demo(tmp_path / "demo", weights="none", is_constant=True)
    file = folder / "constants.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"\x01")
    with pytest.raises(PackageError, match="constants.safetensors is damaged"):
        load(folder, device)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, r"'scale' not given .*; give them too, or bind_weights\(weights, strict=False\)"),
        ({"b": FIVE}, "'b' is no weight of the model; accepted: 'scale', 'alias'; give the"),
        ({2: FIVE}, "a key is 2; accepted: names of weights as text"),
        ({"scale": FIVE, "b": FIVE, "c": FIVE}, "'b' is no weight of the model, nor are 1 more"),
        ({"scale": FIVE[:0]}, r"is float32\[0\]; accepted: float32\[1\]. .* need another build"),
        ({"scale": FIVE.astype(np.float64)}, r"float64\[1\]; .*. Convert it: .astype\(.float32"),
        ({"scale": FIVE * 1j}, r"'scale' is complex\d+\[1\]; .* give the real ones, \.real, or"),
        ({"scale": FIVE, "alias": FIVE + 1}, "'scale' and 'alias' are one tensor"),
    ],
)
def test_wrong_weights_change_nothing(
    package: Path, device: FakeDevice, given: dict, message: str
) -> None:
    with load(package, device) as model:
        with pytest.raises(WeightError, match=f"binding weights to demo: .*{message}"):
            model.bind_weights(given)
        assert model(X, X).tolist() == [[4, 4]]


LAYOUTS = {
    "torch.sparse_coo": torch.Tensor.to_sparse,
    "torch._mkldnn": torch.Tensor.to_mkldnn,
    "nested": lambda x: torch.nested.nested_tensor([x], layout=torch.jagged),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_tensor_that_is_not_dense_is_refused(
    package: Path, device: FakeDevice, layout: str
) -> None:
    with load(package, device) as model:
        other = LAYOUTS[layout](torch.tensor(FIVE))
        words = f"binding weights to demo: 'scale' is a tensor of layout {layout}; give a dense one"
        with pytest.raises(WeightError, match=words):
            model.bind_weights({"scale": other})
        assert model(X, X).tolist() == [[4, 4]]
        model.bind_weights({"scale": other.to_dense() if layout != "nested" else other[0]})


def test_a_state_dict_fits_with_what_the_package_has_no_use_for(
    tmp_path: Path, device: FakeDevice
) -> None:
    folder = write_demo(tmp_path / "demo", unused=("steps",))
    with load(folder, device) as model:
        model.bind_weights({"scale": FIVE, "steps": X})
        assert model(X, X).tolist() == [[10, 10]]


def test_not_strict_keeps_what_is_not_given(package: Path, device: FakeDevice) -> None:
    with load(package, device) as model:
        model.bind_weights({}, strict=False)
        assert model(X, X).tolist() == [[4, 4]]


@pytest.mark.parametrize(("count", "end"), [(3, "'2'"), (4, "'2', ...")])
def test_a_refusal_lists_five_names(
    tmp_path: Path, device: FakeDevice, count: int, end: str
) -> None:
    unused = tuple(map(str, range(count)))
    folder = write_demo(tmp_path / "demo", unused=unused)
    with load(folder, device) as model, pytest.raises(WeightError) as caught:
        model.bind_weights({"nope": FIVE})
    assert f"accepted: 'scale', 'alias', '0', '1', {end}; give the model's" in str(caught.value)


@pytest.mark.parametrize("is_strict", [True, False])
def test_misspelt_names_are_refused(package: Path, device: FakeDevice, is_strict: bool) -> None:
    with load(package, device) as model:
        with pytest.raises(WeightError, match="'scales' is no weight.*near it: 'scale'"):
            model.bind_weights({"scale": FIVE, "scales": FIVE}, strict=is_strict)
        assert model(X, X).tolist() == [[4, 4]]


@pytest.mark.parametrize("size", [0, 4, 20, -1])
def test_truncated_weights(package: Path, device: FakeDevice, size: int) -> None:
    file = package / "weights.safetensors"
    file.write_bytes(file.read_bytes()[:size])
    with pytest.raises(WeightError, match=r"weights.safetensors: the file is truncated or damaged"):
        load(package, device)
    assert device.blocks == {}


@pytest.mark.parametrize("changed", ["stays", "replaced", "shorter", "longer"])
def test_a_file_that_changes_after_its_header_was_read(
    package: Path, device: FakeDevice, changed: str
) -> None:
    file, other = package / "weights.safetensors", package / "other"
    content = file.read_bytes()
    with load(package, device) as model:
        given = read_safetensors(file)
        if changed == "replaced":
            other.write_bytes(content)
            other.replace(file)
        else:
            with file.open("r+b") as opened:
                change = {"stays": 0, "shorter": -1, "longer": 1}[changed]
                opened.truncate(len(content) + change)
        if changed == "stays":
            model.bind_weights(given)
            assert model(X, X).tolist() == [[4, 4]]
        else:
            with pytest.raises(WeightError, match="was replaced or changed its size after"):
                model.bind_weights(given)


def test_a_wrong_path(package: Path, device: FakeDevice) -> None:
    with pytest.raises(WeightError, match="No such file"):
        load(package, device, weights=package / "lost.safetensors")
