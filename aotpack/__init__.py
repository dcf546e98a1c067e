"""aotpack: an ahead-of-time kernel packager for PyTorch models."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from aotpack.version import __version__ as __version__

if TYPE_CHECKING:
    from aotpack.errors import AotpackError
    from aotpack.pipeline import (
        Method,
        build,
        compile,
        load_checkpoint,
        register_lowering,
        with_state,
    )
    from aotpack.target import Target

__all__ = [
    "AotpackError",
    "Method",
    "Target",
    "build",
    "compile",
    "load_checkpoint",
    "register_lowering",
    "with_state",
]

_HOME = {
    "AotpackError": "aotpack.errors",
    "Method": "aotpack.pipeline",
    "Target": "aotpack.target",
    "build": "aotpack.pipeline",
    "compile": "aotpack.pipeline",
    "load_checkpoint": "aotpack.pipeline",
    "register_lowering": "aotpack.pipeline",
    "with_state": "aotpack.pipeline",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: workers and the CLI's help need no torch."""
    if name not in _HOME:
        near = import_module("aotpack.errors").did_you_mean(name, __all__)
        raise AttributeError(f"module 'aotpack' has no attribute {name!r}{near}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    """What there is, with the public names that are not imported yet."""
    return sorted({*globals(), *__all__})
