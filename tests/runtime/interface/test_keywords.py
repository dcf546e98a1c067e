"""Arguments that ``load`` and the builds do not take."""

import inspect
from pathlib import Path

import pytest
import torch

import aotpack
from aotpack.errors import UsageError
from aotpack.runtime import ArgumentError, load

from ..fake_device import FakeDevice

X = torch.ones(2, 3)


def test_a_right_call_passes_and_keeps_its_signature(package: Path, device: FakeDevice) -> None:
    with load(package, device, concurrency=3, graphs=False) as model:
        assert model.target == "fake"
    assert "concurrency" in inspect.signature(load).parameters


@pytest.mark.parametrize(
    ("args", "keywords", "words"),
    [
        (
            (),
            {"conncurrency": 3},
            r"load\(\) takes no keyword 'conncurrency'; did you mean 'concurrency'",
        ),
        (
            (),
            {"threads": 4},
            r"takes no keyword 'threads'; the variable AOTPACK_THREADS of the environment sets",
        ),
        (
            (),
            {"zzz": 3},
            r"takes no keyword 'zzz'; accepted: package, device, weights, stream, conc",
        ),
        (
            (1, 2),
            {},
            r"load\(\) cannot be called so: too many positional arguments; accepted: pack",
        ),
        ((), {"package": "x"}, "cannot be called so: multiple values for argument 'package'"),
    ],
)
def test_a_wrong_call_of_load(package: Path, args: tuple, keywords: dict, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        load(package, *args, **keywords)


def test_a_wrong_call_of_build() -> None:
    with pytest.raises(
        UsageError, match="missing a required argument: 'args'; accepted: a module and its exam"
    ):
        aotpack.build(torch.nn.ReLU())  # type: ignore[call-arg]


def test_options_of_the_right_types_pass(tmp_path: Path) -> None:
    given = {"jobs": 1, "candidates": 2, "strict": False, "repeat_layers": True, "tuning": None}
    given |= {"targets": ("cpu",), "name": "small-model", "cpu_arch": None}
    wheel = aotpack.build(torch.nn.ReLU(), (X,), {}, out=str(tmp_path), **given)
    assert wheel.name.startswith("small_model-")


_OF_BOTH = [
    ({"jobs": "two"}, "jobs is of type str; accepted: a number, 1 or more"),
    ({"jobs": 1.5}, "jobs is of type float; accepted: a number, 1 or more"),
    ({"jobs": True}, "jobs is of type bool; accepted: a number"),
    ({"jobs": 0}, "jobs=0; accepted: 1 or more"),
    ({"jobs": -1}, "jobs=-1; accepted: 1 or more"),
    ({"strict": "yes"}, "strict is of type str; accepted: True or False"),
    ({"deterministic": "no"}, "deterministic is of type str; accepted: True or False"),
    ({"repeat_layers": None}, "repeat_layers is of type NoneType; accepted: True or False"),
    ({"check_indices": 1}, "check_indices is of type int; accepted: True or False"),
]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        *_OF_BOTH,
        ({"name": 3}, "name is of type int; accepted: a name, such as bert-base"),
        ({"out": 3}, "out is of type int; accepted: a folder"),
        ({"tuning": 3}, "tuning is of type int; accepted: a file of aotpack tune"),
        ({"candidates": "2"}, "candidates is of type str; accepted: a number, 1 or more"),
        ({"candidates": 0}, "candidates=0; accepted: 1 or more"),
        ({"targets": 3}, "targets is of type int; accepted: targets, such as"),
        ({"cpu_arch": 3}, "cpu_arch is of type int; accepted: a processor, such as"),
    ],
)
def test_options_of_other_types_are_refused_by_build(options: dict, words: str) -> None:
    with pytest.raises(UsageError, match=f"^packaging a model: {words}"):
        aotpack.build(torch.nn.ReLU(), (X,), **options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        *_OF_BOTH,
        ({"graphs": "no"}, "graphs is of type str; accepted: True or False"),
        ({"target": ["cpu"]}, "target is of type list; accepted: one target, such as 'sm_90'"),
    ],
)
def test_options_of_other_types_are_refused_by_compile(options: dict, words: str) -> None:
    with pytest.raises(UsageError, match=f"^compiling a model: {words}"):
        aotpack.compile(torch.nn.ReLU(), (X,), **options)
