"""The modules of a package that are its own: ``__init__.py`` and ``__main__.py``."""

from aotpack.emit.names import Identity
from aotpack.stages import Rendered
from aotpack.trees import Tree, classes_of

_INIT = '''\
"""{name} {version}, a model packaged by aotpack."""

import os
import sys

if sys.argv[:1] == ["-m"] and ("-m", "{name}") in zip(sys.orig_argv, sys.orig_argv[1:]):
    # python -m {name}: a file mmap.py in the current folder is not Python's module of that name.
    sys.path[:] = [folder for folder in sys.path if folder not in ("", os.getcwd())]

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ._runtime import (
    AotpackError,
    ArgumentError,
    AssertionFailed,
    ClosedError,
    Device,
    DeviceError,
    Model,
    PackageError,
    VerifyError,
    WeightError,
    naming_keywords,
)
from ._runtime import load as _load
{imports}
__version__ = "{version}"
__all__ = [
    "AotpackError",
    "ArgumentError",
    "AssertionFailed",
    "ClosedError",
    "DeviceError",
    "Model",
    "PackageError",
    "VerifyError",
    "WeightError",
    "__version__",
    "load",{listed}
]
{classes}

def __dir__() -> list[str]:
    return sorted(__all__)


@naming_keywords(ArgumentError)
def load(
    device: int | str | Device | None = None,
    *,
    weights: str | Path | Mapping[str, Any] | None = None,
    stream: Any = None,
    concurrency: int = 2,
    tuning: str | Path | None = None,
    graphs: bool = True,
    debug: str | None = None,
    check: bool = True,
    allow_jit: bool = False,
) -> Model:
    """The model on a device, ready to be called.

    ``device`` is a GPU's number or "cpu"; without it, the first GPU that the package has code for.
    ``weights`` is a safetensors file or a mapping that replaces the package's weights. ``stream``
    overrides the caller's current stream. ``concurrency`` bounds the calls in flight. ``tuning`` is
    a file of measured times. Repeated sizes run as CUDA graphs unless ``graphs`` is False.
    ``debug`` is "sync" or "nan": launches are watched one by one. The weights are checked against
    the hashes of the build unless ``check`` is False. ``allow_jit`` lets the driver compile PTX on
    a GPU that is newer than all code of the package.

    Errors are AotpackErrors: ArgumentError, AssertionFailed, ClosedError, DeviceError,
    PackageError, VerifyError or WeightError.
    """
    return _load(
        Path(__file__).parent,
        device,
        weights=weights,
        stream=stream,
        concurrency=concurrency,
        tuning=tuning,
        graphs=graphs,
        debug=debug,
        check=check,
        allow_jit=allow_jit,
    )
'''

_MAIN = '''\
"""python -m {name} info|verify|bench|tune"""

from ._runtime.command import main

raise SystemExit(main(__file__))
'''


def init_text(identity: Identity, rendered: Rendered) -> str:
    """The module: ``load``, the errors, the classes of arguments and results."""
    signatures = [one.signature for one in rendered.entries.values()]
    arguments = [tree for one in signatures for tree in (one.args, one.kwargs)]
    classes = classes_of(*arguments, *(one.result for one in signatures))
    made = "".join(f"{name} = {_class_text(nodes[0])}\n" for name, nodes in classes.items())
    return _INIT.format(
        name=identity.name,
        version=identity.version,
        imports="from ._runtime.structures.containers import container\n" if classes else "",
        listed="".join(f'\n    "{name}",' for name in classes),
        classes=f"\n{made}" if classes else "",
    )


def main_text(identity: Identity) -> str:
    """The module that ``python -m`` runs."""
    return _MAIN.format(name=identity.name)


def _class_text(node: Tree) -> str:
    return f"container({node.kind!r}, {node.name!r}, {node.attributes!r})"
