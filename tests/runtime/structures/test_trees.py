"""Nested arguments and results."""

import math
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from aotpack.errors import AotpackError
from aotpack.runtime import ArgumentError, load
from aotpack.trees import Tree

from ..fake_device import FakeDevice
from ..packages import LEAF, write_demo

X = np.arange(6, dtype=np.float32).reshape(2, 3)
NONE = Tree("none")
BATCH = Tree("record", (LEAF, LEAF), ("y", "x"), name="Batch", fields=("x", "mask", "y"))


@pytest.fixture
def taking(tmp_path: Path, device: FakeDevice):
    """The result of a model that takes x and y in one argument of a structure."""

    def call(tree: Tree, value: Any) -> Any:
        folder = write_demo(tmp_path / "demo", args=Tree("tuple", (tree,)), positional=("batch",))
        with load(folder, device) as model:
            return model(value)

    return call


@pytest.mark.row("S:D1", "S:H13")
def test_dicts_and_lists(tmp_path: Path, device: FakeDevice) -> None:
    args = Tree("tuple", (Tree("dict", (LEAF, Tree("list", (LEAF,))), ("x", "rest")),))
    result = Tree("dict", (NONE, Tree("list", (Tree("tuple", (LEAF,)),))), ("z", "a"))
    folder = write_demo(tmp_path / "demo", args=args, result=result)
    with load(folder, device) as model:
        made = model({"rest": [X], "x": X})
        assert type(made) is dict and [*made] == ["z", "a"] and made["z"] is None
        assert type(made["a"]) is list and type(made["a"][0]) is tuple
        np.testing.assert_array_equal(made["a"][0][0], X * 4)
        with pytest.raises(
            ArgumentError, match=r"argument \"x\['rest'\]\" is list of 2; accepted: list of 1"
        ):
            model({"x": X, "rest": [X, X]})
        with pytest.raises(ArgumentError, match="lacks 'rest'; accepted: exactly 'x', 'rest'"):
            model({"x": X})
        with pytest.raises(ArgumentError, match="is list; accepted: dict with 'x', 'rest'"):
            model([X])


def test_an_ordered_dict_comes_back_as_one(tmp_path: Path, device: FakeDevice) -> None:
    inner = Tree("dict", (LEAF,), ("z",), name="OrderedDict")
    result = Tree("dict", (NONE, inner), ("b", "a"), name="OrderedDict")
    with load(write_demo(tmp_path / "demo", result=result), device) as model:
        made = model(X, X)
        assert type(made) is type(made["a"]) is OrderedDict and [*made] == ["b", "a"]


@dataclass
class Batch:
    x: Any
    y: Any
    mask: Any = None


@pytest.mark.parametrize(
    "value",
    [
        Batch(x=X, y=X),
        namedtuple("Other", ["x", "y"])(X, X),
        SimpleNamespace(y=X, x=X),
        {"x": X, "y": X},
        {"x": X, "y": X, "mask": None},
    ],
)
def test_whatever_has_the_fields_is_taken(taking, value: Any) -> None:
    np.testing.assert_array_equal(taking(BATCH, value), X * 4)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"x": X}, "argument 'batch' lacks 'y'; accepted: exactly 'y', 'x'"),
        (Batch(x=X, y=None), "argument 'batch.y': it is None, not a tensor; accepted: torch"),
        ({"x": X, "y": None}, "argument 'batch.y': it is None, not a tensor"),
        (None, "argument 'batch' is None; accepted: Batch with 'y', 'x'"),
        (Batch(x=X, y=X, mask=X), "argument 'batch' has 'mask' too many"),
        ({"x": X, "y": X, "z": X}, "argument 'batch' has 'z' too many"),
        ((X, X), "argument 'batch' is tuple; accepted: Batch with 'y', 'x', or a dict of these"),
        (X, "argument 'batch' is ndarray; accepted: Batch with"),
    ],
)
def test_what_lacks_a_field_is_refused(taking, value: Any, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        taking(BATCH, value)


@pytest.mark.row("S:I6", "S:E4")
def test_constants_of_the_trace_must_be_repeated(tmp_path: Path, device: FakeDevice) -> None:
    args = Tree("tuple", (LEAF, LEAF, Tree("constant", value=True)))
    with load(write_demo(tmp_path / "demo", args=args), device) as model:
        np.testing.assert_array_equal(model(X, X, True), X * 4)
        with pytest.raises(ArgumentError, match="is False; the model was traced with True"):
            model(X, X, False)


@pytest.mark.parametrize(("traced", "other"), [(math.nan, 1.0), (0.0, -0.0), (-0.0, 0.0)])
def test_numbers_of_the_trace_are_compared_as_they_are_written(
    tmp_path: Path, device: FakeDevice, traced: float, other: float
) -> None:
    args = Tree("tuple", (LEAF, LEAF, Tree("constant", value=traced)))
    with load(write_demo(tmp_path / "demo", args=args), device) as model:
        np.testing.assert_array_equal(model(X, X, float(str(traced))), X * 4)
        with pytest.raises(ArgumentError, match=f"is {other}; the model was traced with {traced}"):
            model(X, X, other)


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        (Tree("named", (LEAF,), ("x",), name="a b"), r"name is 'a b'; accepted: the name of a cl"),
        (Tree("named", (LEAF,), ("x",), name=""), "name is ''; accepted: the name of a class"),
        (Tree("named", (LEAF,), ("import",), name="A"), "fields is 'import'; accepted: the name"),
        (Tree("named", (LEAF,), ("__class__",), name="A"), "fields is '__class__'; accepted"),
        (Tree("dict", (LEAF,), ("x",), name="Counter"), "name is 'Counter'; accepted: no name of"),
        (Tree("record", (LEAF,), ("x",), name="A"), "fields is a list of 0; accepted: different"),
        (Tree("record", (LEAF,), ("x",), name="A", fields=("x", "x")), "fields is a list of 2"),
    ],
)
def test_what_is_no_class_is_not_built(tmp_path: Path, tree: Tree, words: str) -> None:
    with pytest.raises(AotpackError, match=words):
        write_demo(tmp_path / "demo", result=tree)
