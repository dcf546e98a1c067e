"""Assertions on data are words of the graph; conditions on sizes are guards and nothing else."""

import pytest
import torch
from torch.export import Dim

from aotpack.stages import Ref

X = torch.rand(4, 3)


def on_a_tensor(self, x):
    torch._assert_async((x > -1).all(), "not positive")
    return x + 1


def on_a_number(self, x):
    torch._check((x > -1).sum().item() > 2)
    return x + 1


def on_a_size(self, x):
    torch._check(x.shape[0] > 1)
    return x + 1


@pytest.mark.row("S:H26", "S:Q5")
@pytest.mark.parametrize(
    ("forward", "message", "asked"),
    [
        (on_a_tensor, "not positive", "aten.all.default"),
        (on_a_number, "Runtime assertion failed for expression u0 >= 3 on node", "operator.ge"),
    ],
)
def test_assertions_on_data_are_words(trace_function, forward, message, asked) -> None:
    traced = trace_function(forward, X)
    graph, nodes = traced.graph, {node.name: node for node in traced.graph.nodes}
    one = graph.signature.assertions[0]
    assert one.message.startswith(message)
    assert one.place.startswith("aten._assert_") and "runtime_assert" not in one.place
    (value,) = (ref for word, ref in graph.updates if word == one.word)
    word = nodes[value.name]
    assert word.op == "assertion.word" and word.args[0] == Ref(one.word)
    condition = nodes[word.args[1].name]
    assert condition.op == "operator.item" and nodes[condition.args[0].name].op == asked
    assert graph.signature.updates == () and len(graph.signature.inputs) == 1
    assert f"assertion {one.word}: {message}" in traced.as_text()


def test_a_condition_that_is_concluded_twice_is_one_word(trace_function) -> None:
    messages = [a.message for a in trace_function(on_a_number, X).graph.signature.assertions]
    assert messages and len(set(messages)) == len(messages)


@pytest.mark.row("S:H26")
def test_conditions_on_sizes_are_not(trace_function) -> None:
    spec = {"x": {0: Dim("b", min=2, max=9)}}
    graph = trace_function(on_a_size, X, dynamic_shapes=spec).graph
    assert graph.signature.assertions == () and graph.updates == ()
    assert [node.op for node in graph.nodes] == ["aten.add.Tensor"]
