"""Arguments whose elements are positions are noted in a build, unless it checks them."""

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import aotpack
from aotpack.cli import main
from aotpack.lower import LOWERINGS
from aotpack.trace import trace

TABLE = torch.randn(10, 4)
IDS = torch.tensor([1, 2, 3])


class Model(nn.Module):
    def __init__(self, forward: Callable[..., Any]) -> None:
        super().__init__()
        self.table, self._call = nn.Parameter(TABLE), forward
        self.register_buffer("cache", torch.zeros(10, 4))

    def forward(self, ids: torch.Tensor, x: torch.Tensor) -> Any:
        return self._call(self, ids, x)


def written(self: Any, ids: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    self.cache.index_copy_(0, ids, x)
    return self.cache + 1


NOTED = {
    "embedding": lambda self, ids, x: nn.functional.embedding(ids, self.table) + x,
    "state": written,
    "offset": lambda self, ids, x: self.table[(ids[:, None] + torch.arange(2)).flatten()] + x[:1],
    "number": lambda self, ids, x: self.table[ids[0].item()] + x,
    "views": lambda self, ids, x: (
        self.table[ids.int().unflatten(0, (3, 1)).movedim(0, 1).narrow(1, 0, 3).ravel().long()] + x
    ),
}
NOT_NOTED = {
    "no positions": lambda self, ids, x: ids[:, None] + x,
    "in range by an operator": lambda self, ids, x: self.table[ids.clamp(0, 9)] + x,
    "computed": lambda self, ids, x: self.table[x.argmax(-1)] + ids[:, None],
    "a size": lambda self, ids, x: self.table[torch.arange(ids.shape[0])] + x,
    "a mask": lambda self, ids, x: self.table[:3].masked_fill(ids[:, None] > 1, 0.0) + x,
}


def unchecked(forward: Any, *, check_indices: bool = False) -> tuple[str, ...]:
    how: Any = {"name": "m", "version": "1", "check_indices": check_indices}
    how["whole"] = frozenset(LOWERINGS)
    return trace(Model(forward), (IDS, torch.randn(3, 4)), **how).graph.unchecked


@pytest.mark.parametrize("case", NOTED)
def test_positions_of_an_argument(case: str) -> None:
    assert unchecked(NOTED[case]) == ("ids",)
    assert unchecked(NOTED[case], check_indices=True) == ()


@pytest.mark.parametrize("case", NOT_NOTED)
def test_what_is_no_position_of_an_argument(case: str) -> None:
    assert unchecked(NOT_NOTED[case]) == ()


@pytest.mark.parametrize(
    ("dtype", "rows", "moved", "names"),
    [
        (torch.uint8, 256, 0, ()),
        (torch.bool, 2, 0, ()),
        (torch.uint8, 255, 0, ("ids",)),
        (torch.uint8, 256, 1, ("ids",)),
        (torch.int8, 256, 0, ("ids",)),
        (torch.int64, 256, 0, ("ids",)),
    ],
)
def test_positions_of_a_type_that_has_no_others(
    dtype: torch.dtype, rows: int, moved: int, names: tuple[str, ...]
) -> None:
    class Rows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rows = nn.Embedding(rows, 4)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.rows(ids.int() + moved if moved else ids.int())

    how: Any = {"name": "m", "version": "1", "whole": frozenset(LOWERINGS)}
    assert trace(Rows(), (torch.zeros(3, dtype=dtype),), **how).graph.unchecked == names


FILE = """
import torch
model = torch.nn.Embedding(10, 4)
example_inputs = (torch.tensor([1, 2, 3]),)
name = "rows"
"""
NOTE = "note: positions in input are not checked: "


@pytest.mark.parametrize(
    ("options", "is_noted"),
    [([], True), (["--json"], True), (["--check-indices"], False), (["--quiet"], False)],
)
def test_a_build_notes_them(
    options: list[str], is_noted: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rows.py").write_text(FILE)
    words = [str(tmp_path / "rows.py"), "-o", str(tmp_path / "dist"), "--target", "cpu"]
    assert main([*words, *options]) == 0
    told = capsys.readouterr().out
    notes = json.loads(told)["notes"] if options == ["--json"] else told.splitlines()
    assert sum(line.startswith(NOTE) and "--check-indices" in line for line in notes) == is_noted


@pytest.mark.parametrize("check_indices", [False, True])
def test_python_warns_of_them(check_indices: bool, tmp_path: Path) -> None:
    model, example = nn.Embedding(10, 4), (torch.tensor([1, 2, 3]),)
    how: Any = {"check_indices": check_indices}
    for make in (
        lambda: aotpack.compile(model, example, target="cpu", **how),
        lambda: aotpack.build(model, example, targets="cpu", out=tmp_path, **how),
    ):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            make()
        found = [one for one in told if "check_indices=True asserts them" in str(one.message)]
        assert len(found) == (not check_indices)
        assert all(one.filename == __file__ for one in found)
