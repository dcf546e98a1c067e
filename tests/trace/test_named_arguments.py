"""Dynamic sizes of what forward takes by ``*args`` and ``**kwargs``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

import aotpack
from aotpack.cli import main
from aotpack.errors import TraceError


class Base(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 3)

    def forward(self, ids: torch.Tensor, other: torch.Tensor | None = None) -> torch.Tensor:
        y = self.linear(ids)
        return y if other is None else y + other


class Wrapper(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.base = Base()

    def forward(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        out: torch.Tensor = self.base(*args, **kwargs)
        return out


N = Dim("n", min=1, max=9)
ROWS = {0: N}
FILE = """
import torch
from torch import nn

class Wrapper(nn.Module):
    def forward(self, *args, **kwargs):
        return args[0].relu() + kwargs["other"]

model = Wrapper()
example_inputs, example_kwargs = (torch.randn(4, 6),), {"other": torch.randn(4, 1)}
"""


def inputs(rows: int, count: int, keys: str) -> tuple[tuple[torch.Tensor, ...], dict[str, Any]]:
    made = {"ids": torch.randn(rows, 6), "other": torch.randn(rows, 1)}
    args = [made.pop(key) for key in [*made][:count]]
    return tuple(args), {key: made[key] for key in keys.split()}


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    ("count", "keys", "shapes"),
    [
        (0, "ids", {"ids": ROWS}),
        (0, "other ids", {"ids": ROWS, "other": ROWS}),
        (0, "ids other", {"kwargs": {"ids": ROWS, "other": ROWS}}),
        (0, "ids", ({"ids": ROWS},)),
        (1, "", {"args_0": ROWS}),
        (1, "", {"args": (ROWS,)}),
        (1, "", ((ROWS,),)),
        (2, "", (ROWS, (N, None))),
        (1, "other", {"args_0": ROWS, "other": ROWS}),
        (1, "other", {"args": ((N, None),), "other": ROWS}),
    ],
)
def test_sizes_by_the_names_of_inputs(count: int, keys: str, shapes: Any, strict: bool) -> None:
    args, kwargs = inputs(4, count, keys)
    package = aotpack.compile(
        Wrapper(), args, kwargs, dynamic_shapes=shapes, target="interpreter", strict=strict
    )
    for rows in (1, 2, 9):
        args, kwargs = inputs(rows, count, keys)
        torch.testing.assert_close(package(*args, **kwargs), Wrapper()(*args, **kwargs))


@pytest.mark.parametrize(
    ("count", "keys", "shapes", "message"),
    [
        (0, "ids", {"idx": ROWS}, "name the argument 'idx', .*; the arguments are ids$"),
        (1, "other", {"x": ROWS}, "name the argument 'x', .*; the arguments are args_0, other$"),
        (1, "", {"args": (ROWS, ROWS)}, "for args: .* an entry for each of its 1 items, or None"),
        (0, "ids", {"kwargs": {"idx": ROWS}}, "for kwargs: .* a dict with its keys, 'ids'"),
        (1, "", (ROWS, ROWS), "a sequence of 1 entries is accepted: the arguments are args$"),
        (0, "ids", {"ids": {2: N}}, "for ids: it has no axis 2, but"),
    ],
)
def test_refuses_other_names(count: int, keys: str, shapes: Any, message: str) -> None:
    args, kwargs = inputs(4, count, keys)
    with pytest.raises(TraceError, match=message):
        aotpack.compile(Wrapper(), args, kwargs, dynamic_shapes=shapes, target="interpreter")


class Beside(nn.Module):
    def forward(self, args_0: torch.Tensor, *args: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        (one,) = kwargs.values()
        return args_0 + args[0] * 2 + one.relu()


def test_names_that_another_argument_has() -> None:
    package = aotpack.compile(
        Beside(),
        (torch.randn(4, 2), torch.randn(4, 2)),
        {"args_0_": torch.randn(4, 2)},
        dynamic_shapes={"args_0": ROWS, "args_0__": ROWS, "args_0_": ROWS},
        target="interpreter",
    )
    given = [torch.randn(7, 2) for _ in range(3)]
    found = package(*given[:2], args_0_=given[2])
    torch.testing.assert_close(found, Beside()(*given[:2], args_0_=given[2]))


def test_refuses_a_keyword_that_is_no_name() -> None:
    given = (torch.randn(4, 2), torch.randn(4, 2)), {"a-b": torch.randn(4, 2)}
    with pytest.raises(TraceError, match="beside the argument 'a-b', which is no name that"):
        aotpack.compile(Beside(), *given, dynamic_shapes={"args_0": ROWS}, target="interpreter")


def built(folder: Path, specs: Mapping[str, str]) -> int:
    (folder / "wrapped.py").write_text(FILE)
    words = [word for key, size in specs.items() for word in ("--dynamic", f"{key}={size}")]
    target = ["-o", str(folder / "out"), "--target", "cpu"]
    return main([str(folder / "wrapped.py"), *target, *words])


def test_the_command_line_names_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert built(tmp_path, {"args_0:0": "n[1:9]", "other:0": "n"}) == 0
    wheel = next((tmp_path / "out").glob("*.whl"))
    assert main(["inspect", str(wheel)]) == 0
    shown = capsys.readouterr().out
    assert "args[0]: float32[n_, 6]" in shown and "n_ in 1 to 9" in shown


def test_the_command_line_refuses_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert built(tmp_path, {"x:0": "n[1:9]"}) == 2
    assert "not called with; the arguments are args_0, other" in capsys.readouterr().err
