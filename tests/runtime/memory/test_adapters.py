"""Names of PEFT's files for the weights of a model, and the factors that stand beside a file."""

import re

import numpy as np
import pytest

from aotpack.runtime.errors import WeightError
from aotpack.runtime.memory.adapters import AdapterNames

WEIGHTS = [
    "base_model.model.q.base_layer.weight",
    "base_model.model.q.lora_A.french.weight",
    "base_model.model.q.lora_B.french.weight",
    "base_model.model.q.lora_A.german.weight",
    "base_model.model.q.scaling.french",
    "base_model.model.q.lora_magnitude_vector.french.weight",
    "base_model.model.e.lora_embedding_A.french",
    "base_model.model.head.modules_to_save.french.weight",
]
FILE = {
    "base_model.model.q.lora_A.weight": "base_model.model.q.lora_A.french.weight",
    "base_model.model.q.lora_B.weight": "base_model.model.q.lora_B.french.weight",
    "base_model.model.q.lora_magnitude_vector": WEIGHTS[5],
    "base_model.model.e.lora_embedding_A": "base_model.model.e.lora_embedding_A.french",
    "base_model.model.head.weight": "base_model.model.head.modules_to_save.french.weight",
}


@pytest.mark.parametrize("vector", ["lora_magnitude_vector", "lora_magnitude_vector.weight"])
@pytest.mark.parametrize("front", ["", "decoder."])
def test_each_name_of_a_file_is_that_of_a_weight(front, vector):
    """With another name in front of the model's, and in both spellings of a vector."""
    weights = [f"{front}{name.removeprefix('base_model.model.')}" for name in WEIGHTS]
    given = {name.replace("lora_magnitude_vector", vector): name for name in FILE}
    found = AdapterNames(weights if front else WEIGHTS, (), "french").renamed(given, strict=True)
    assert found == {
        f"{front}{own.removeprefix('base_model.model.')}" if front else own: name
        for name, own in FILE.items()
    }


def test_what_the_package_does_not_use_is_left_out():
    names = AdapterNames(WEIGHTS, ["base_model.model.unused.lora_A.french.weight"], "french")
    given = {**dict.fromkeys(FILE, 1), "base_model.model.unused.lora_A.weight": 2}
    assert 2 not in names.renamed(given, strict=True).values()


@pytest.mark.parametrize(
    ("given", "strict", "message"),
    [
        (["base_model.model.k.lora_A.weight"], True, "'base_model.model.k.lora_A.weight' is no we"),
        ([*FILE][:-1], True, "'base_model.model.head.modules_to_save.french.weight' is not given"),
        (["base_model.model.q.base_layer.bias"], False, "such as 'e.lora_embedding_A'"),
    ],
)
def test_strange_and_missing_names_are_refused(given, strict, message):
    names = AdapterNames(WEIGHTS, (), "french")
    with pytest.raises(WeightError, match=message):
        names.renamed(dict.fromkeys(given, np.zeros(1)), strict=strict)
    some = names.renamed(dict.fromkeys([*FILE][:1], 1), strict=False)
    assert some == {WEIGHTS[1]: 1}


@pytest.mark.parametrize("strict", [True, False])
def test_two_spellings_of_a_weight_are_refused(strict):
    names = AdapterNames(WEIGHTS, (), "french")
    first, given = next(iter(FILE)), dict.fromkeys([*FILE, WEIGHTS[1]], 1)
    message = f"'{first}' and '{WEIGHTS[1]}' are both the weight '{WEIGHTS[1]}'; give one"
    with pytest.raises(WeightError, match=re.escape(message)):
        names.renamed(given, strict=strict)
    del given[first]
    assert names.renamed(given, strict=strict).keys() == {*FILE.values()}
