"""Structures of arguments and results."""

from collections import OrderedDict, namedtuple
from dataclasses import dataclass

import pytest
import torch
from transformers.modeling_outputs import BaseModelOutput

from aotpack.errors import TraceError
from aotpack.trees import Tree

X = torch.randn(2, 4)
LEAF, NONE = Tree("leaf"), Tree("none")
FIELDS = ("last_hidden_state", "hidden_states", "attentions")
Point = namedtuple("Point", ["u", "v"])


@dataclass
class Record:
    value: torch.Tensor
    extra: torch.Tensor | None = None


torch.export.register_dataclass(Record, serialized_type_name="test_tree.Record")


def named(name: str, *keys: str) -> Tree:
    return Tree("named", (LEAF,) * len(keys), keys, name=name)


@pytest.mark.row("S:D1", "S:H13")
@pytest.mark.parametrize(
    ("forward", "tree"),
    [
        (lambda self, x: x + 1, LEAF),
        (
            lambda self, x: [x + 1, (x, None)],
            Tree("list", (LEAF, Tree("tuple", (LEAF, NONE)))),
        ),
        (
            lambda self, x: {"a": x + 1, "n": 3},
            Tree("dict", (LEAF, Tree("constant", value=3)), ("a", "n")),
        ),
        (lambda self, x: OrderedDict(b=x + 1), Tree("dict", (LEAF,), ("b",), name="OrderedDict")),
        (lambda self, x: torch.max(x, 0), named("torch.return_types.max", "values", "indices")),
        (lambda self, x: x.topk(2), named("torch.return_types.topk", "values", "indices")),
        (lambda self, x: torch.svd(x), named("torch.return_types.svd", "U", "S", "V")),
        (lambda self, x: Point(x + 1, x), named("Point", "u", "v")),
        (
            lambda self, x: Record(x + 1),
            Tree("record", (LEAF,), ("value",), name="Record", fields=("value", "extra")),
        ),
        (
            lambda self, x: BaseModelOutput(last_hidden_state=x + 1),
            Tree("object", (LEAF,), FIELDS[:1], name="BaseModelOutput", fields=FIELDS),
        ),
    ],
)
def test_result(trace_function, forward, tree):
    assert trace_function(forward, X).graph.signature.result == tree


def test_arguments(trace_function):
    signature = trace_function(
        lambda self, xs, n, *, flag, y: xs[0] * n + y["a"] if flag else y["a"],
        [X, X],
        2,
        kwargs={"y": {"a": X}, "flag": True},
    ).graph.signature
    assert signature.args == Tree("tuple", (Tree("list", (LEAF, LEAF)), Tree("constant", value=2)))
    kwargs = dict(zip(signature.kwargs.keys, signature.kwargs.children, strict=True))
    assert kwargs == {
        "y": Tree("dict", (LEAF,), ("a",)),
        "flag": Tree("constant", value=True),
    }
    assert [spec.name for spec in signature.inputs] == ["xs_0", "xs_1", "y_a"]


@pytest.mark.row("S:I6")
@pytest.mark.parametrize(
    ("forward", "message"),
    [
        (
            lambda self, x: {1: x + 1},
            r"the result contains a dict with the key 1 \(int\): call it '1'; tuples",
        ),
        (
            lambda self, x: {"a": {("b", 2): x + 1}},
            r"a dict with the key \('b', 2\) \(tuple\)",
        ),
        (
            lambda self, x: (x + 1, torch.float32),
            "torch.dtype'> in output, which is not a known",
        ),
    ],
)
def test_refuses(trace_function, forward, message):
    with pytest.raises(TraceError, match=message):
        trace_function(forward, X)
