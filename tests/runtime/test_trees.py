"""Nested arguments and results."""

from pathlib import Path

import numpy as np
import pytest

from aotpack.runtime import ArgumentError, load
from aotpack.stages import Tree

from .fake_device import FakeDevice
from .packages import LEAF, write_demo

X = np.arange(6, dtype=np.float32).reshape(2, 3)


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
