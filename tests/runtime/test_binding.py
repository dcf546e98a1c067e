"""Calls by position and by name, and argument lists that do not fit."""

from pathlib import Path

import numpy as np
import pytest

from aotpack.ir.dtypes import DType
from aotpack.runtime import ArgumentError, Model, load
from aotpack.stages import TensorSpec
from aotpack.trees import Tree

from .fake_device import FakeDevice
from .packages import LEAF, write_demo

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_arguments_by_name(model: Model) -> None:
    np.testing.assert_array_equal(model(y=X, x=X), X * 4)


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((X,), {}, "argument 'y' is missing; accepted: x, y"),
        ((X, X, X), {}, "got 3 positional arguments"),
        ((), {}, "arguments 'x', 'y' are missing; accepted: x, y"),
        (
            (X, X),
            {"mask": X},
            r"argument 'mask' is no input of the package \(what the example left out",
        ),
        ((X, X), {"y": X}, "argument 'y' is given twice, by position and by name; accepted: x, y"),
        (
            (X, X),
            {"Y": X},
            r"'Y' is no input of the package \(did you mean 'y'\?\); accepted: x, y",
        ),
    ],
)
def test_wrong_argument_lists(model: Model, args: tuple, kwargs: dict, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        model(*args, **kwargs)


@pytest.mark.parametrize(
    ("args", "kwargs", "words"),
    [
        ((), ("x", "y"), "missing; accepted: no positional argument; by keyword alone: x, y."),
        (("x",), ("y",), "2 positional arguments for 1, .*; accepted: x; by keyword alone: y."),
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


@pytest.mark.parametrize(("kind", "is_told"), [(DType.INT64, True), (DType.FLOAT32, False)])
def test_a_seed_is_told_what_it_is(
    tmp_path: Path, device: FakeDevice, kind: DType, is_told: bool
) -> None:
    trees = {"args": Tree("tuple", (LEAF,) * 2), "kwargs": Tree("dict", (LEAF,), ("seed",))}
    inputs = (TensorSpec("seed", kind, ()),)
    folder = write_demo(tmp_path / "demo", inputs=inputs, positional=("x", "y"), **trees)
    with load(folder, device) as model:
        np.testing.assert_array_equal(model(X, X, seed=np.ones((), kind.value)), X * 4)
        words = r"'seed' is missing( \(a whole number, .*: model\(x, y, seed=0\); .*\))?; accepted"
        with pytest.raises(ArgumentError, match=words) as told:
            model(X, X)
        assert ("seed=0" in str(told.value)) is is_told


def test_a_constant_that_is_left_out_is_told(tmp_path: Path, device: FakeDevice) -> None:
    children = (Tree("constant", value=4), Tree("none"), LEAF)
    trees = {
        "args": Tree("tuple", (LEAF,)),
        "kwargs": Tree("dict", children, ("k", "mask", "y")),
    }
    folder = write_demo(tmp_path / "demo", **trees, positional=("x", "y", "k", "mask"))
    with load(folder, device) as model:
        np.testing.assert_array_equal(model(X, X, k=4, mask=None), X * 4)
        words = r"'y', 'k', 'mask' are missing \(pass k=4, mask=None, as the example did\)"
        with pytest.raises(ArgumentError, match=words):
            model(X)
        with pytest.raises(ArgumentError, match="'k' is 5; the model was traced with 4"):
            model(X, X, k=5, mask=None)


def test_keywords_that_have_a_place(tmp_path: Path, device: FakeDevice) -> None:
    trees = {"args": Tree("tuple"), "kwargs": Tree("dict", (LEAF, LEAF), ("y", "x"))}
    folder = write_demo(tmp_path / "demo", **trees, positional=("x", "y"))
    with load(folder, device) as model:
        for answer in (model(X, X), model(X, y=X), model(x=X, y=X)):
            np.testing.assert_array_equal(answer, X * 4)
        with pytest.raises(ArgumentError, match="argument 'y' is missing; accepted: x, y"):
            model(X)


LEFT_OUT = (("y", None), ("rate", float("nan")), ("flag", True), ("mode", "mean"))


def test_what_the_example_left_out_takes_its_default(tmp_path: Path, device: FakeDevice) -> None:
    trees = {"args": Tree("tuple", (LEAF,)), "kwargs": Tree("dict", (LEAF,), ("z",))}
    places = ("x", "y", "z", "rate")
    folder = write_demo(tmp_path / "demo", **trees, positional=places, defaults=LEFT_OUT)
    with load(folder, device) as model:
        nan = float("nan")
        for args, kwargs in (
            ((X,), {"z": X}),
            ((X, None, X), {}),
            ((X, None, X, nan), {"mode": "mean"}),
            ((X,), {"y": None, "z": X, "flag": True}),
            ((), {"flag": True, "rate": nan, "z": X, "x": X, "y": None}),
        ):
            np.testing.assert_array_equal(model(*args, **kwargs), X * 4)
        for args, kwargs, words in (
            (
                (X, X, X),
                {},
                "argument 'y' is ndarray; the example left it out, so its default None",
            ),
            ((X, None, X), {"flag": 1}, r"argument 'flag' is 1 \(int\); the example left it out"),
            ((X, None, X, 0.5), {}, "argument 'rate' is 0.5; .* default nan became part"),
            (
                (X, None),
                {"flag": True},
                "argument 'z' is missing; accepted: x, y=None, z; with its default",
            ),
            ((X, None, X), {"y": None}, "argument 'y' is given twice"),
            (
                (X, None, X, nan, True),
                {},
                "got 5 positional arguments for 4; .*: x, y=None, z; .*: rate=nan, flag",
            ),
            ((X, None, X), {"falg": True}, r"\(did you mean 'flag'\?\)"),
        ):
            with pytest.raises(ArgumentError, match=words):
                model(*args, **kwargs)


def test_an_argument_stands_in_its_place(tmp_path: Path, device: FakeDevice) -> None:
    names = {"kwargs": Tree("dict", (LEAF, LEAF), ("y", "x")), "args": Tree("tuple")}
    folder = write_demo(tmp_path / "demo", **names, positional=("x", "y"))
    with load(folder, device) as model, pytest.raises(ArgumentError, match="'y' .*dtype int64"):
        model(X, X.astype(np.int64))
