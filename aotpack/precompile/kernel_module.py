"""A kernel's text as a module, with its source in ``linecache`` for Triton's ``inspect``."""

import linecache
from types import ModuleType


def load_module(name: str, text: str) -> ModuleType:
    """Execute a text as a module; no file is written."""
    place = f"<aotpack kernel {name}>"
    linecache.cache[place] = (len(text), None, text.splitlines(keepends=True), place)
    module = ModuleType(f"aotpack_kernel_{name}")
    exec(compile(text, place, "exec"), vars(module))
    return module
