"""Python's search path while code of the user or of a wheel is imported."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def importable(folder: Path) -> Iterator[None]:
    """Inside the block, modules are searched in a folder first."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
