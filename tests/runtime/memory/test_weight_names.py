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
        ({"frist.weight": 0}, "'frist.weight' is no weight of the model; near it: 'first.weight'"),
        (
            {"frist.weight": 0, "x": 0, "secnd.weight": 0},
            "nor are 2 more; near them: 'first.weight' to 'frist.weight', 'second.weight' to 's",
        ),
        ({"first.weight": 0, "first.wieght": 0}, "near it: 'first.weight';"),
        (
            {"model.first.weight": 0, "model.second.weight": 0},
            "nor are 1 more; in the model they have no 'model.' in front;",
        ),
        (
            {"model.first.weight": 0, "core.second.weight": 0},
            "near them: 'first.weight' to 'model.first.weight', 'second.weight' to 'core.second",
        ),
        ({"xyz": 0}, "accepted: 'first.weight', 'second.weight', 'third.weight_codes'; give the"),
    ],
)
def test_others_are_refused_in_words(given: object, words: str) -> None:
    fault = fault_of_names(given, KNOWN)
    assert fault is not None
    with pytest.raises(ValueError, match=words):
        raise ValueError(fault)


def test_names_without_what_all_have_in_front() -> None:
    known = ["body.up.weight", "body.down.weight"]
    fault = fault_of_names({"up.weight": 0, "down.weight": 0}, known)
    assert fault is not None and "in the model they have 'body.' in front" in fault
    fault = fault_of_names({"up.weight": 0, "down.weight": 0}, [*known, "head.weight"])
    assert fault is not None and "in front" not in fault


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
