"""Renders the corpus of ``tools/diff_codegen.py`` with the aotpack that Python finds first.

    PYTHONPATH=TREE python tools/codegen_corpus.py TREE OUT [PART/PARTS]

The corpus is every example of TREE, every case of ``tests/e2e/cases.py``, once more with
``--deterministic``, and the long rows and scatters below, for GPUs, processors and the interpreter.
OUT gets a file for each: NAME.txt with the output of ``aotpack show --stage rendered``, or
NAME.refused with its error where there is no product. It uses only the command line of aotpack, so
that it runs with any commit's.
"""

import contextlib
import importlib
import io
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn
from torch.export import Dim

TARGETS = "sm_80,sm_90,sm_120,cpu,interpreter"
BF16, F32, F64, I32 = torch.bfloat16, torch.float32, torch.float64, torch.int32
ROWS = {0: Dim("rows", min=1, max=8192)}
SCATTERED = ((64, 100), (64, 40), (64, 40))


class Function(nn.Module):
    """A function as a model."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *tensors: torch.Tensor) -> Any:
        return self.function(*tensors)


def normed(x: torch.Tensor, *affine: torch.Tensor) -> Any:
    return nn.functional.layer_norm(x, (x.shape[1],), *affine)


def residual(x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor) -> Any:
    total = x + y
    return nn.functional.rms_norm(total, (x.shape[1],), weight, 1e-6), total


def shares(x: torch.Tensor) -> Any:
    return x.softmax(1)


def marked(x: torch.Tensor) -> Any:
    first = torch.arange(x.shape[1]) == x.argmax(1, keepdim=True)
    small = (x * x).sum(1, keepdim=True) + (x - x.amin(1, keepdim=True)).prod(1, keepdim=True)
    return first, x / small, x.isnan().any(1, keepdim=True) | (x > 0)


def spread(x: torch.Tensor) -> Any:
    return torch.var_mean(x, 1), x.argmin(1)


def scattered(kind: str) -> Callable[..., Any]:
    def function(x: torch.Tensor, n: torch.Tensor, y: torch.Tensor) -> Any:
        return x.scatter_reduce(1, n.long().abs() % x.shape[1], y, kind)

    return function


LONG: dict[str, tuple[Callable[..., Any], torch.dtype, tuple[tuple[int, ...], ...]]] = {
    "softmax_registers": (shares, BF16, ((64, 32_000),)),
    "softmax_float": (shares, F32, ((64, 65_600),)),
    "softmax_few": (shares, BF16, ((2, 131_072),)),
    "softmax_rows": (shares, BF16, ((0, 131_072),)),
    "norm": (normed, BF16, ((0, 24_640), (24_640,), (24_640,))),
    "norm_float": (normed, F32, ((32, 50_000),)),
    "norm_registers": (normed, BF16, ((256, 32_768),)),
    "norm_rows": (normed, BF16, ((0, 65_536), (65_536,), (65_536,))),
    "residual": (residual, F32, ((0, 65_536), (0, 65_536), (65_536,))),
    "marked": (marked, F32, ((5, 65_600),)),
    "marked_rows": (marked, F32, ((0, 50_021),)),
    "spread": (spread, F32, ((0, 50_021),)),
    "integers": (lambda x: x - x.amax(1, keepdim=True), I32, ((0, 131_072),)),
    "logsumexp": (lambda x: x.logsumexp(1), BF16, ((0, 131_072),)),
    "sums": (lambda x: (x * 2).cumsum(1) + x, F32, ((16, 65_536),)),
    "extremes": (lambda x: x.cummax(1), F32, ((2, 100_000),)),
    "scans": (lambda x: (x.cumsum(1), (-x).cummin(1)), BF16, ((2, 100_000),)),
    "scans_rows": (lambda x: x.logcumsumexp(1), F32, ((0, 100_000),)),
    "total": (lambda x: (x.exp().sum(), x.var(0)), F32, ((4096, 513),)),
    **{
        f"scatter_{kind}_{str(dtype)[6:]}": (scattered(kind), dtype, SCATTERED)
        for kind in ("sum", "amax", "prod")
        for dtype in (F32, F64, I32)
    },
}
"""A function, its elements' type, and the shapes of its tensors: 0 for any number of rows."""


def corpus(tree: Path) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Each model's name, its MODEL on the command line, and further options."""
    for file in sorted((tree / "examples").glob("*.py")):
        yield f"example_{file.stem}", str(file), ()
    for case in importlib.import_module("tests.e2e.cases").CASES:
        torch.manual_seed(0)
        model = importable(case.name, case.make(), case.args(), case.dynamic)
        yield f"case_{case.name}", model, ()
        yield f"deterministic_{case.name}", model, ("--deterministic",)
    for name, (function, dtype, shapes) in LONG.items():
        args = tuple(torch.zeros(shape[0] or 3, *shape[1:], dtype=dtype) for shape in shapes)
        dynamic = tuple(None if shape[0] else ROWS for shape in shapes)
        model = importable(f"long_{name}", Function(function), args, (dynamic,))
        yield f"long_{name}", model, ()


def importable(name: str, model: nn.Module, args: tuple[Any, ...], dynamic: Any) -> str:
    """The name of a model in a module, as the command line takes it."""
    module = ModuleType(f"corpus_{name}")
    module.__dict__.update(model=model, example_inputs=args, dynamic_shapes=dynamic)
    module.__file__ = None
    sys.modules[module.__name__] = module
    return f"{module.__name__}:model"


def write_shown(out: Path, name: str, model: str, options: tuple[str, ...] = ()) -> None:
    """Write the output of ``aotpack show``, or its error."""
    main = importlib.import_module("aotpack.cli").main
    printed, complaint = io.StringIO(), io.StringIO()
    command = ["show", model, "--stage", "rendered", "--target", TARGETS, *options]
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(complaint):
        code = main(command)
    if code == 0:
        (out / f"{name}.txt").write_text(printed.getvalue())
    else:
        (out / f"{name}.refused").write_text(complaint.getvalue())


def main() -> None:
    """Write the files of one part of the corpus."""
    tree, out = map(Path, sys.argv[1:3])
    part, parts = map(int, (sys.argv[3:] or ["1/1"])[0].split("/"))
    out.mkdir(parents=True, exist_ok=True)
    sys.path.insert(0, str(tree))  # tests are not installed
    for number, (name, model, options) in enumerate(corpus(tree)):
        if number % parts == part - 1:
            write_shown(out, name, model, options)


if __name__ == "__main__":
    main()
