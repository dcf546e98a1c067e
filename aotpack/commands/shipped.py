"""Imports the runtime that a wheel contains, to run the wheel with it and not with ours."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType

from aotpack.errors import AotpackError, UsageError
from aotpack.importable import importable
from aotpack.runtime.command import IMPORT as IMPORT
from aotpack.runtime.command import WEIGHTS as WEIGHTS
from aotpack.runtime.command import import_first
from aotpack.runtime.errors import ArgumentError


@contextmanager
def shipped_runtime(package: Path, imports: Sequence[str]) -> Iterator[ModuleType]:
    """``_runtime`` of an unpacked package, imported without leaving bytecode in its folder.

    First imports the modules ``imports``, also from the current folder. Maps its errors to ours.
    """
    with importable(Path.cwd()):
        import_first(imports)
    before = sys.dont_write_bytecode
    others = _take_modules(package.name)  # the model file may have the package's name
    sys.dont_write_bytecode = True
    try:
        with importable(package.parent):
            import_module(f"{package.name}._runtime.command")
            runtime = import_module(f"{package.name}._runtime")
            try:
                yield runtime
            except runtime.AotpackError as error:
                kind = UsageError if isinstance(error, ArgumentError) else AotpackError
                raise kind(str(error)) from error
    finally:
        sys.dont_write_bytecode = before
        _take_modules(package.name)
        sys.modules.update(others)


def _take_modules(name: str) -> dict[str, ModuleType]:
    """Remove a top-level module and its submodules from ``sys.modules``; returns them."""
    names = [known for known in sys.modules if known.split(".")[0] == name]
    return {known: sys.modules.pop(known) for known in names}
