"""The inputs and outputs of a model, one by one."""

from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import pytest

from aotpack.emit import write_package
from aotpack.runtime import Model, load
from aotpack.trees import Tree

from ..fake_device import FakeDevice
from ..packages import LEAF, demo, write_demo


def test_inputs(model: Model) -> None:
    x, y = model.inputs
    assert (x.name, x.path, x.dtype, x.shape) == ("x", "x", "float32", ("b", "s"))
    assert [(size.name, size.low, size.high) for size in x.sizes] == [("b", 1, 8), ("s", 0, 32)]
    assert (x.device, x.alignment, x.is_changed) == ("fake:0", 16, False)
    assert repr(y) == "<y: float32[b, s] on fake:0, b in 1 to 8, s in 0 to 32>"
    with pytest.raises(FrozenInstanceError):
        x.name = "z"  # type: ignore[misc]


def test_outputs_and_changes(tmp_path: Path, device: FakeDevice) -> None:
    changes = {
        "args": Tree("tuple", (Tree("list", (LEAF, LEAF)),)),
        "result": Tree("tuple", (Tree("dict", (LEAF,), ("sum",)),)),
    }
    with load(write_demo(tmp_path / "demo", **changes), device) as model:
        assert [one.path for one in model.inputs] == ["x[0]", "x[1]"]
        (total,) = model.outputs
    assert (total.name, total.path, total.is_changed) == ("output0['sum']", "[0]['sum']", False)


def test_a_changed_input_says_so(tmp_path: Path, device: FakeDevice) -> None:
    made = demo(updates=("y",))
    golden = made.rendered.golden
    left = ("y", *golden.inputs[1][1:])
    golden = replace(golden, updates=(left,), eager_errors=(1e-6, 1e-6))
    write_package(replace(made, rendered=replace(made.rendered, golden=golden)), tmp_path)
    with load(tmp_path, device) as model:
        assert [one.is_changed for one in model.inputs] == [False, True]
        assert repr(model.inputs[1]).endswith("s in 0 to 32, changed by the call>")
