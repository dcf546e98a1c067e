"""Results as named tuples, dataclasses and dicts with attributes."""

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aotpack.runtime import load
from aotpack.trees import Tree

from ..fake_device import FakeDevice
from ..packages import LEAF, write_demo

X = np.arange(6, dtype=np.float32).reshape(2, 3)
NONE = Tree("none")
FIELDS = ("logits", "loss", "states")
POINT = Tree("named", (LEAF, NONE), ("u", "v"), name="Point")
BOX = Tree("record", (LEAF,), ("y",), name="Box", fields=("y",))
OUTPUT = Tree("object", (LEAF,), ("logits",), name="MaskedOutput", fields=FIELDS)
TOP = Tree("named", (LEAF, NONE), ("values", "indices"), name="torch.return_types.topk")


@pytest.fixture
def returned(tmp_path: Path, device: FakeDevice):
    """The result of a model that returns a structure."""

    def call(result: Tree) -> Any:
        with load(write_demo(tmp_path / "demo", result=result), device) as model:
            return model(X, X)

    return call


def test_a_named_tuple_comes_back(returned) -> None:
    made = returned(POINT)
    assert isinstance(made, tuple) and made._fields == ("u", "v")
    assert made.u is made[0] and made[1] is None
    assert repr(made) == f"Point(u={made.u!r}, v=None)"
    assert type(made) is type(returned(POINT))


def test_a_result_of_torch_reads_as_torch_writes_it(returned) -> None:
    made = returned(TOP)
    values, indices = made
    assert made.values is values is made[0] and made.indices is indices is None
    assert repr(made) == f"torch.return_types.topk(\nvalues={values!r},\nindices=None)"


def test_a_dataclass_comes_back(returned) -> None:
    made = returned(Tree("record", (LEAF,), ("y",), name="Batch", fields=("x", "mask", "y")))
    assert (made.x, made.mask) == (None, None)
    np.testing.assert_array_equal(made.y, X * 4)
    assert repr(made) == f"Batch(x=None, mask=None, y={made.y!r})"
    with pytest.raises(AttributeError):
        _ = made.z


def test_a_model_output_comes_back(returned) -> None:
    made = returned(OUTPUT)
    assert isinstance(made, dict) and [*made] == [*made.keys()] == ["logits"] and len(made) == 1
    assert made.logits is made["logits"] is made[0] is made[:1][0] is made.to_tuple()[0]
    assert made.loss is None and made.get("loss") is None and {**made} == dict(made)
    assert repr(made) == f"MaskedOutput(logits={made.logits!r}, loss=None, states=None)"
    with pytest.raises(KeyError):
        made["loss"]
    with pytest.raises(IndexError):
        made[1]
    with pytest.raises(AttributeError, match="MaskedOutput has no 'logit'; did you mean 'logits'"):
        _ = made.logit


@pytest.mark.parametrize("tree", [POINT, TOP, OUTPUT, BOX])
def test_results_are_copied_and_pickled(returned, tree: Tree) -> None:
    made = returned(tree)
    for other in (copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert type(other) is type(made) and repr(other) == repr(made)


def test_results_inside_of_results(returned) -> None:
    keys = ("past", "keys")
    parts = (Tree("list", (POINT,)), NONE)
    made = returned(Tree("object", parts, keys, name="Cached", fields=(*FIELDS, *keys)))
    np.testing.assert_array_equal(made.past[0].u, X * 4)
    assert made.keys is None and made[0] is made["past"]
