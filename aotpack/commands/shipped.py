"""The code that a wheel ships: its own runtime is imported and tried, not this project's."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType


@contextmanager
def shipped_runtime(package: Path) -> Iterator[ModuleType]:
    """``_runtime`` of an unpacked package, imported without leaving bytecode in its folder."""
    before = sys.dont_write_bytecode
    others = _take_modules(package.name)  # the model file may have the package's name
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(package.parent))
    try:
        import_module(f"{package.name}._runtime.command")
        yield import_module(f"{package.name}._runtime")
    finally:
        sys.path.remove(str(package.parent))
        sys.dont_write_bytecode = before
        _take_modules(package.name)
        sys.modules.update(others)


def _take_modules(name: str) -> dict[str, ModuleType]:
    """Forget a top-level module with all that is below it; returns what was forgotten."""
    names = [known for known in sys.modules if known.split(".")[0] == name]
    return {known: sys.modules.pop(known) for known in names}
