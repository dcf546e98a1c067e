"""Names of a package: for pip, for Python's import, and its version."""

import keyword
import re
import sys
from dataclasses import dataclass
from typing import Self

from packaging.version import InvalidVersion, Version

from aotpack.errors import UsageError

_DISTRIBUTION = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_OTHER = re.compile(r"[^A-Za-z0-9._-]")
_TAKEN = frozenset(
    """
    accelerate aotpack cuda cupy diffusers fastapi huggingface_hub jax matplotlib numpy onnx
    onnxruntime packaging pandas peft pil pip pydantic pytest requests safetensors scipy setuptools
    sklearn tensorflow timm tokenizers torch torchao torchaudio torchvision transformers triton
    """.split()
)
"""Libraries that are used beside models."""
_REMEDY = "Give another as name=, on a command line as --name."


@dataclass(frozen=True, slots=True)
class Identity:
    """The import name of a package, and its version as in file names."""

    name: str
    version: str

    @classmethod
    def of(cls, name: str, version: str) -> Self:
        """The identity of a model with its author's name; UsageError where that is not accepted."""
        return cls(import_name(name), normal_version(version))


def import_name(name: str) -> str:
    """The identifier that imports a model called ``name``: "BERT-base" -> "bert_base"."""
    if other := _OTHER.search(name):
        raise _refused(name, f"it has the character {other[0]!a}")
    if not _DISTRIBUTION.fullmatch(name):
        raise _refused(name, "it does not begin and end with a letter or digit")
    identifier = re.sub(r"[-.]+", "_", name).lower()
    if not identifier.isidentifier() or keyword.iskeyword(identifier):
        raise _refused(name, f"{identifier!r} cannot be imported")
    if identifier in _TAKEN or identifier in sys.stdlib_module_names:
        raise UsageError(
            f"emitting a package: the name {name!r} is not accepted: {identifier!r} is the name of "
            f"another module, which could not be imported beside the package; accepted: any other, "
            f"such as {identifier}-model. {_REMEDY}"
        )
    return identifier


def normal_version(version: str) -> str:
    """The version as in file names: "1.0.0-rc1" -> "1.0.0rc1"."""
    try:
        return str(Version(version))
    except InvalidVersion:
        raise UsageError(
            f"emitting a package: the version {version!r} is not accepted; accepted: versions "
            "such as 1.2.0 or 2.0rc1 (PEP 440). Give another as version=, on a command line "
            "as --version."
        ) from None


def _refused(name: str, reason: str) -> UsageError:
    return UsageError(
        f"emitting a package: the name {name!r} is not accepted: {reason}; accepted: ASCII "
        f"letters, digits, '-', '_' and '.', beginning with a letter, such as bert-base. {_REMEDY}"
    )
