"""Names of given weights: which are refused, and in which words."""

import pytest
from torch import nn

from aotpack.runtime.memory.weight_names import fault_of_names, plain_names, some

KNOWN = ["first.weight", "second.weight", "third.weight_codes"]


def test_names_of_the_model_have_no_fault() -> None:
    assert fault_of_names({"second.weight": 0, "first.weight": 0}, KNOWN) is None
    assert fault_of_names({}, KNOWN) is None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([1], "they are list; accepted: a safetensors file, tensors by name"),
        (
            nn.Linear(2, 2),
            "they are Linear; .* tensors by name, which its state_dict\\(\\) returns",
        ),
        ({3: 0}, "a key is 3; accepted: names of weights as text"),
        ({"third.weight": 0}, "the layer of 'third.weight' is quantised: .* 'third.weight_codes'"),
        ({"frist.weight": 0, "x": 0}, "no weight of the model, nor are 1 more; near it: 'first.we"),
        ({"xyz": 0}, "accepted: 'first.weight', 'second.weight', 'third.weight_codes'; give the"),
    ],
)
def test_others_are_refused_in_words(given: object, words: str) -> None:
    fault = fault_of_names(given, KNOWN)
    assert fault is not None
    with pytest.raises(ValueError, match=words):
        raise ValueError(fault)


def test_many_names_are_cut() -> None:
    assert some(list("abcdef")) == "'a', 'b', 'c', 'd', 'e', ..."


def test_extra_state_of_modules_is_no_fault() -> None:
    assert (
        fault_of_names({"first.weight": 0, "first._extra_state": 1, "_extra_state": 2}, KNOWN)
        is None
    )
    assert "'my_extra_state' is no weight" in (fault_of_names({"my_extra_state": 3}, KNOWN) or "")


@pytest.mark.parametrize(
    "name",
    [
        "module.first.weight",
        "_orig_mod.first.weight",
        "module._orig_mod.first.weight",
        "first._orig_mod.weight",
    ],
)
def test_what_wrappers_put_into_names_is_left_out(name: str) -> None:
    assert plain_names({name: 1, "second.weight": 2}, KNOWN) == {
        "first.weight": 1,
        "second.weight": 2,
    }


def test_other_names_stay() -> None:
    for given in (
        {"module.fourth.weight": 1},
        {"module.first.weight": 1, "first.weight": 2},  # which is meant is not said
        {3: 0},
        [1],
    ):
        assert plain_names(given, KNOWN) is given
    own = ["module.weight", "weight"]
    assert plain_names({"module.weight": 1}, own) == {"module.weight": 1}
