"""Paths, element types and fixed arguments as they stand in manifest.json."""

from typing import Any

import pytest

from aotpack.runtime.files.kinds import read_argument, read_dtype, read_path
from aotpack.runtime.files.schema import Mismatch


@pytest.mark.parametrize("path", ["wrapper.py", "kernels/sm_90/a.cubin", "a..b/c.", "ä/b c"])
def test_paths_inside(path: str) -> None:
    assert read_path(path) == path


@pytest.mark.parametrize(
    "path",
    [
        *("/etc/passwd", "../x", "a/../../x", "a//b", "", ".", "a/.", "a\\b", "C:x", "a\0b", "x\n"),
        *("a/" * 600 + "b", "\ud800", 5, None),
    ],
)
def test_paths_that_lead_elsewhere_are_refused(path: Any) -> None:
    with pytest.raises(Mismatch, match="accepted: a path in the package"):
        read_path(path)


def test_types_by_name() -> None:
    assert read_dtype("bfloat16").itemsize == 2
    for name in ("int4", 5, None, ["int8"]):
        with pytest.raises(Mismatch, match="accepted: bool, uint8"):
            read_dtype(name)


def test_fixed_arguments() -> None:
    argument = [1, "a", None, {"passed": 2}, [{"dtype": "int8"}, {"float": "inf"}]]
    assert read_argument(argument) == argument


@pytest.mark.parametrize(
    "argument",
    [
        *({}, {"passed": -1}, {"passed": True}, {"dtype": "load"}, {"float": "1"}, {"float": []}),
        *({"passed": 0, "dtype": "int8"}, [[{"eval": "x"}]], "\ud800"),
    ],
)
def test_other_arguments_are_refused(argument: Any) -> None:
    with pytest.raises(Mismatch):
        read_argument(argument)
