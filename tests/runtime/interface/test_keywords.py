"""Arguments that ``load`` and the builds do not take."""

import inspect
from pathlib import Path

import pytest
import torch

import aotpack
from aotpack.errors import UsageError
from aotpack.runtime import ArgumentError, load

from ..fake_device import FakeDevice


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
