"""The weight program runs when weights are bound; whatever is raised, the model stays right."""

import itertools
import json
import threading
import zipfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aotpack.commands.report import summary_rows
from aotpack.runtime import AotpackError, Model, PackageError, WeightError, load, verify
from aotpack.runtime.command import summary
from aotpack.runtime.manifest import read_manifest

from .fake_device import FakeDevice
from .fake_library import FakeGpu
from .interrupting import Interrupter
from .packages import DERIVED, WRAPPER, rewrite, write_demo, write_derived

X = np.ones((1, 2), np.float32)
DEVICES: dict[str, Callable[[], Any]] = {
    "host": lambda: FakeDevice((1, 0)),
    "far": FakeDevice,
    "gpu": FakeGpu,
}


@pytest.fixture(params=[*DEVICES])
def device(request: pytest.FixtureRequest) -> Any:
    return DEVICES[request.param]()


def scale(value: float) -> dict[str, np.ndarray[Any, Any]]:
    return {"scale": np.full(1, value, np.float32)}


def check(model: Model, value: float) -> None:
    np.testing.assert_array_equal(model(X, X), 4 * value * value * X)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    return write_derived(tmp_path / "demo")


def test_it_runs_at_load_and_at_each_binding(package: Path, device: Any) -> None:
    with load(package, device) as model:
        check(model, 2)
        for value in (3, 5):
            model.bind_weights(scale(value), strict=value == 3)
            check(model, value)
    assert device.blocks == {}


def test_the_model_lists_their_memory_and_places(package: Path, device: Any) -> None:
    plain = write_demo(package.parent / "plain" / "demo")
    with load(plain, DEVICES["far"]()) as other, load(package, device) as model:
        assert model.memory == other.memory + 256
        assert model.weight_places()["square"][1] == 4


@pytest.mark.parametrize("mode", ["sidecar", "none"])
def test_weights_that_come_later(tmp_path: Path, device: Any, mode: str) -> None:
    folder = write_derived(tmp_path / "demo", mode)
    if mode == "none":
        with load(folder, device) as model:
            with pytest.raises(WeightError, match="1 of 1 weights have not been given"):
                model(X, X)
            with pytest.raises(WeightError, match="'scale'"):
                model.bind_weights({"scale": np.ones(2, np.float32)})
            with pytest.raises(WeightError, match="have not been given"):
                model(X, X)
            model.bind_weights(scale(3))
            check(model, 3)
    else:
        embedded = write_derived(tmp_path / "whole" / "demo") / "weights.safetensors"
        (tmp_path / "demo-0.1.0.weights.safetensors").write_bytes(embedded.read_bytes())
        with load(folder, device) as model:
            check(model, 2)


def test_constants_alone_are_derived_from(tmp_path: Path, device: Any) -> None:
    folder = write_derived(tmp_path / "demo", "none", is_constant=True)
    with load(folder, device) as model:
        check(model, 2)


def test_the_self_test_covers_it(package: Path, device: Any) -> None:
    assert verify(package, device).is_passed
    (package / "wrapper.py").write_text(DERIVED.replace('("total", "scale"', '("scale", "scale"'))
    data = json.loads((package / "manifest.json").read_text())
    data["wrapper_sha256"] = sha256((package / "wrapper.py").read_bytes()).hexdigest()
    rewrite(package, data)
    assert not verify(package, device).is_passed


def test_a_wrapper_without_a_weight_program_is_refused(tmp_path: Path, device: Any) -> None:
    folder = write_derived(tmp_path / "demo", wrapper=WRAPPER)
    with pytest.raises(PackageError, match=r"wrapper.py does not define plan\(\) and derive\(\)"):
        load(folder, device)


def test_a_kernel_that_takes_another_type_is_refused(package: Path, device: Any) -> None:
    data = json.loads((package / "manifest.json").read_text())
    data["derived"][0]["dtype"] = "int32"
    rewrite(package, data)
    with pytest.raises(PackageError, match="takes float32, and 'square' is int32"):
        load(package, device)


def test_a_failed_launch_is_named(package: Path, device: Any) -> None:
    nan = {"scale": np.full(1, np.nan, np.float32)}
    with load(package, device, debug="nan") as model:
        with pytest.raises(AotpackError, match="kernel add .* wrote NaN into 'total'"):
            model.bind_weights(nan)
        with pytest.raises(WeightError, match="'scale'. Call bind_weights"):
            model(X, X)  # the earlier ones are overwritten
        model.bind_weights(scale(3))
        check(model, 3)


def test_a_binding_may_die_at_any_line(package: Path, device: Any) -> None:
    """The model then has the weights of one binding, or asks for them; the next one is whole."""
    with load(package, device) as model:
        for number in itertools.count(0, 11):
            interrupter = Interrupter(number)
            interrupter.run(lambda: model.bind_weights(scale(3)))
            try:
                assert model(X, X).tolist() in ([[16, 16]], [[36, 36]])
            except WeightError as error:
                assert "have not been given" in str(error) and interrupter.has_raised
            model.bind_weights(scale(2))
            check(model, 2)
            if not interrupter.has_raised:
                break
        assert number > 50
    assert device.blocks == {}


def test_loads_and_bindings_in_threads(package: Path, device: Any) -> None:
    answers: list[Any] = []

    def work() -> None:
        with load(package, type(device)()) as model:
            for value in (2, 3, 5):
                model.bind_weights(scale(value))
                answers.append(model(X, X).tolist() == [[4 * value * value] * 2])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert answers == [True] * 12


def test_calls_see_the_weights_of_one_binding(package: Path, device: Any) -> None:
    with load(package, device) as model:
        ended, wrong = threading.Event(), list[Any]()

        def call() -> None:
            while not ended.is_set():
                answer = model(X, X).tolist()
                if answer not in ([[16, 16]], [[36, 36]]):
                    wrong.append(answer)

        thread = threading.Thread(target=call)
        thread.start()
        for value in (3, 2) * 20:
            model.bind_weights(scale(value))
        ended.set()
        thread.join(20)
        assert not wrong and not thread.is_alive()


def test_reports_name_them(package: Path, tmp_path: Path) -> None:
    told = "1 tensor of 4 bytes, computed from weights when they are bound"
    assert f"\nderived   {told}\n" in summary(read_manifest(package))
    with zipfile.ZipFile(tmp_path / "empty.zip", "w") as archive:
        assert ("derived", told) in summary_rows(read_manifest(package), archive, {"": {}})
        plain = read_manifest(write_demo(tmp_path / "plain" / "demo"))
        assert "derived" not in summary(plain)
        assert "derived" not in dict(summary_rows(plain, archive, {"": {}}))


def test_a_closed_model_binds_nothing(package: Path, device: Any) -> None:
    model = load(package, device)
    model.close()
    with pytest.raises(AotpackError, match="the model was closed"):
        model.bind_weights(scale(3))
    assert device.blocks == {} and read_manifest(package).derived
