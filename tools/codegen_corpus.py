"""Renders the corpus of ``tools/diff_codegen.py`` with the aotpack that Python finds first.

    PYTHONPATH=TREE python tools/codegen_corpus.py TREE OUT [PART/PARTS]

The corpus is every example of TREE and every case of ``tests/e2e/cases.py``, for GPUs, processors
and the interpreter, and the cases once more with ``--deterministic``. OUT gets a file for each,
with what ``aotpack show --stage rendered`` prints, or its complaint where there is no product. It
enters aotpack by the command line alone, so that it runs with any commit's.
"""

import contextlib
import importlib
import io
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import torch

TARGETS = "sm_80,sm_90,sm_120,cpu,interpreter"


def corpus(tree: Path) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Each model's name, its MODEL on the command line, and further options."""
    for file in sorted((tree / "examples").glob("*.py")):
        yield f"example_{file.stem}", str(file), ()
    for case in importlib.import_module("tests.e2e.cases").CASES:
        module = ModuleType(f"corpus_{case.name}")
        torch.manual_seed(0)
        module.__dict__.update(
            model=case.make(), example_inputs=case.args(), dynamic_shapes=case.dynamic
        )
        module.__file__ = None
        sys.modules[module.__name__] = module
        yield f"case_{case.name}", f"{module.__name__}:model", ()
        yield f"deterministic_{case.name}", f"{module.__name__}:model", ("--deterministic",)


def shown(model: str, options: tuple[str, ...]) -> str:
    """What ``aotpack show`` prints."""
    main = importlib.import_module("aotpack.cli").main
    out, complaint = io.StringIO(), io.StringIO()
    command = ["show", model, "--stage", "rendered", "--target", TARGETS, *options]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(complaint):
        code = main(command)
    return out.getvalue() if code == 0 else complaint.getvalue()


def main() -> None:
    """Write the files of one part of the corpus."""
    tree, out = map(Path, sys.argv[1:3])
    part, parts = map(int, (sys.argv[3:] or ["1/1"])[0].split("/"))
    out.mkdir(parents=True, exist_ok=True)
    sys.path.insert(0, str(tree))  # tests are no installed package
    for number, (name, model, options) in enumerate(corpus(tree)):
        if number % parts == part - 1:
            (out / f"{name}.txt").write_text(shown(model, options))


if __name__ == "__main__":
    main()
