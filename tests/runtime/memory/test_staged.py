"""Weights that only the weight program reads: freed after it has run, and read again if needed."""

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aotpack.emit import write_package
from aotpack.runtime import Model, PackageError, WeightError, load
from aotpack.runtime.manifest import parse_manifest
from aotpack.runtime.safetensors import read_safetensors
from aotpack.stages import DerivedWeight, Weight
from tests.runtime.fake_device import FakeDevice
from tests.runtime.interrupting import Interrupter
from tests.runtime.packages import F32, WRAPPER, demo

X = np.ones((1, 2), np.float32)
TWO = (
    WRAPPER.replace('("total", "scale",', '("total", "sum",')
    + '''

def derive(arch: int) -> Plan:
    """A sum of two weights, and a sum of a third with itself."""
    return Plan(
        buffers=(),
        outputs=(),
        launches=(
            Launch("add", (1, 1, 1), ("a", "b", "sum", 1)),
            Launch("add", (1, 1, 1), ("c", "c", "double", 1)),
        ),
    )
'''
)
"""(x + y) * (a + b), for staged weights a, b, c."""


def write(folder: Path, weights: str = "embed") -> Path:
    made = demo(wrapper=TWO)
    staged = tuple(
        Weight(name, (name,), F32, (64,), memoryview(np.full(64, n, np.float32).tobytes()), False)
        for n, name in enumerate("abc", 1)
    )
    rendered = replace(
        made.rendered,
        weights=(*made.rendered.weights, *(replace(one, is_staged=True) for one in staged)),
        derived=(DerivedWeight("sum", F32, (64,), 256), DerivedWeight("double", F32, (64,), 256)),
    )
    write_package(replace(made, rendered=rendered), folder, weights)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "demo")


def full(**values: float) -> dict[str, np.ndarray]:
    return {name: np.full(64, value, np.float32) for name, value in values.items()}


def answer(model: Model) -> float:
    return float(model(X, X)[0, 0])


def test_they_are_freed_once_the_program_has_run(folder: Path, device: FakeDevice) -> None:
    with load(folder, device) as model:
        assert len(device.blocks) == 2  # scale, and the derived ones
        assert answer(model) == 2 * (1 + 2)
        assert model.memory == 256 + 512 + 1024  # scale, derived, intermediates
        assert {*model.weight_places()} == {"scale", "sum", "double"}


def test_on_processors_they_stay(folder: Path) -> None:
    with load(folder, FakeDevice((1, 0))) as model:
        model.bind_weights(full(a=5), strict=False)
        assert answer(model) == 2 * (5 + 2)
        assert {*model.weight_places()} == {"scale", "sum", "double", "a", "b", "c"}


def test_a_part_is_computed_again_with_what_the_file_has(folder: Path, device: FakeDevice) -> None:
    with load(folder, device) as model:
        model.bind_weights(full(a=5), strict=False)
        assert answer(model) == 2 * (5 + 2)
        model.bind_weights(full(b=7, a=6), strict=False)
        assert answer(model) == 2 * (6 + 7)


def test_what_is_in_no_file_is_asked_for(folder: Path, device: FakeDevice) -> None:
    with load(folder, device) as model:
        model.bind_weights({**full(a=5, b=7, c=1), "scale": np.ones(1, np.float32)})
        with pytest.raises(WeightError, match=r"'b' not given: .* were freed .* Give them too"):
            model.bind_weights(full(a=6), strict=False)
        assert answer(model) == 2 * (5 + 7)
        model.bind_weights(full(c=6), strict=False)  # no other is computed from it
        model.bind_weights(full(a=6, b=1), strict=False)
        assert answer(model) == 2 * (6 + 1)


def test_a_file_that_has_gone_or_is_another_is_named(folder: Path, device: FakeDevice) -> None:
    file = folder / "weights.safetensors"
    with load(folder, device) as model:
        content = file.read_bytes()
        file.unlink()
        with pytest.raises(
            WeightError, match="check the path. Or bind all weights: it has b, which"
        ):
            model.bind_weights(full(a=5), strict=False)
        with pytest.raises(WeightError, match="'a'. Call bind_weights"):
            model(X, X)
        file.write_bytes(content + b" ")
        with pytest.raises(WeightError, match="was replaced or changed its size"):
            model.bind_weights(full(a=5), strict=False)
        model.bind_weights({**full(a=5, b=7, c=1), "scale": np.ones(1, np.float32)})
        assert answer(model) == 2 * (5 + 7)


def test_a_damaged_file_is_found_when_it_is_read_again(folder: Path, device: FakeDevice) -> None:
    file = folder / "weights.safetensors"
    begin = read_safetensors(file)["b"].begin
    with load(folder, device) as model:
        with file.open("r+b") as opened:
            opened.seek(begin)
            opened.write(b"\x01")
        with pytest.raises(WeightError, match="have sha256"):
            model.bind_weights(full(a=5), strict=False)


def test_a_binding_of_a_part_may_die_at_any_line(folder: Path, device: FakeDevice) -> None:
    with load(folder, device) as model:
        for number in itertools.count(0, 23):
            interrupter = Interrupter(number)
            interrupter.run(lambda: model.bind_weights(full(a=5), strict=False))
            try:
                assert answer(model) in (2 * (1 + 2), 2 * (5 + 2))
            except WeightError as error:
                assert "have not been given" in str(error) and interrupter.has_raised
            model.bind_weights(full(a=1), strict=False)
            assert answer(model) == 2 * (1 + 2)
            if not interrupter.has_raised:
                break
        assert number > 50
    assert device.blocks == {}


def test_weights_come_one_by_one(tmp_path: Path, device: FakeDevice) -> None:
    with load(write(tmp_path / "demo", "none"), device) as model:
        for name in "abc":
            with pytest.raises(WeightError, match="have not been given"):
                model(X, X)
            model.bind_weights(full(**{name: 4}), strict=False)
        model.bind_weights({"scale": np.ones(1, np.float32)}, strict=False)
        assert answer(model) == 2 * (4 + 4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"staged": "yes"}, r"weights\[1\].staged is 'yes'; accepted: true or false"),
        ({"constant": True}, r"weights\[1\].staged is true; accepted: false for a weight that is"),
        ({"follows": True}, r"weights\[1\].staged is true; accepted: false for a weight that is"),
    ],
)
def test_a_manifest_that_says_otherwise_is_refused(
    folder: Path, changes: dict[str, Any], message: str
) -> None:
    data = json.loads((folder / "manifest.json").read_text())
    parse_manifest(data, folder)
    data["weights"][1] |= changes
    with pytest.raises(PackageError, match=message):
        parse_manifest(data, folder)


def test_a_staged_weight_without_a_weight_program_is_refused(folder: Path) -> None:
    data = json.loads((folder / "manifest.json").read_text())
    del data["derived"]
    with pytest.raises(PackageError, match=r"weights\[1\].staged is true"):
        parse_manifest(data, folder)
