"""manifest.json as typed values: signature, weights, kernels and their binaries."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .dtypes import DTYPES, DType
from .errors import PackageError
from .sizes import Size
from .trees import Tree, read_tree

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class SizeRange:
    """A size of the model: ``low <= name <= high``, a multiple of ``multiple``."""

    name: str
    low: int
    high: int
    multiple: int

    def __str__(self) -> str:
        step = f", a multiple of {self.multiple}" if self.multiple > 1 else ""
        return f"{self.name} in {self.low} to {self.high}{step}"


@dataclass(frozen=True, slots=True)
class Tensor:
    """A named tensor of the signature."""

    name: str
    dtype: DType
    shape: tuple[Size, ...]

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class Assertion:
    """A condition on data that calls check. ``word`` names its flag, ``place`` the source line."""

    word: str
    message: str
    place: str


@dataclass(frozen=True, slots=True)
class Signature:
    """The inputs, results and in-place changes of the model."""

    name: str
    version: str
    sizes: tuple[SizeRange, ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    args: Tree
    kwargs: Tree
    result: Tree
    updates: tuple[str, ...]  # inputs and weights that a call changes in place
    assertions: tuple[Assertion, ...]

    def __str__(self) -> str:
        takes, gives = ", ".join(map(str, self.inputs)), ", ".join(map(str, self.outputs))
        where = "".join(f"\n  {size}" for size in self.sizes)
        changes = f"\n  changes {', '.join(self.updates)}" if self.updates else ""
        return f"{self.name}({takes}) -> {gives}{where}{changes}"


@dataclass(frozen=True, slots=True)
class Weight:
    """A weight and all its names; a constant always comes with the package.

    A weight that ``follows`` is contiguous with the weight before it.
    """

    name: str
    names: tuple[str, ...]
    dtype: DType
    shape: tuple[int, ...]
    constant: bool
    follows: bool


@dataclass(frozen=True, slots=True)
class KernelArg:
    """A parameter of a kernel: a pointer to ``dtype``, or an integer of ``dtype``."""

    dtype: DType
    pointer: bool
    written: bool  # the kernel may store there


@dataclass(frozen=True, slots=True)
class Binary:
    """A kernel compiled for one target, and its launch configuration."""

    file: str
    sha256: str
    bytes: int
    symbol: str
    num_warps: int
    num_ctas: int
    shared: int
    global_scratch: int
    global_scratch_align: int
    registers: int
    spills: int
    starts_early: bool  # programmatic dependent launch


@dataclass(frozen=True, slots=True)
class Kernel:
    name: str
    args: tuple[KernelArg, ...]
    source: str
    moved: Size  # bytes that a launch moves, in the model's sizes
    flops: Size  # of its products
    binaries: Mapping[str, Binary]


@dataclass(frozen=True, slots=True)
class TorchCall:
    """An operator that torch runs; it writes the last ``results`` of the passed values.

    In ``args`` and ``kwargs``, as read from JSON, {"passed": n} stands for passed value n,
    {"dtype": name} for a type, {"float": text} for a number that JSON lacks.
    """

    operator: str
    args: list[Any]
    kwargs: dict[str, Any]
    dtypes: tuple[DType | None, ...]  # of the passed values; None for an integer
    results: int
    reason: str  # why it has no kernel


@dataclass(frozen=True, slots=True)
class Host:
    """The requirements of CPU code."""

    machine: str
    arch: str


@dataclass(frozen=True, slots=True)
class Manifest:
    folder: Path
    aotpack: str
    compilers: Mapping[str, str]
    targets: tuple[str, ...]
    signature: Signature
    weights: tuple[Weight, ...]
    unused: frozenset[str]  # state_dict names of tensors that the package does not use
    weights_mode: str
    weights_sha256: str | None
    constants_sha256: str
    peak_bytes: int
    wrapper_sha256: str
    kernels: Mapping[str, Kernel]
    eager_errors: tuple[float, ...]
    host: Host | None
    choices: tuple[str, ...]  # keys of the launches that have several forms
    calls: Mapping[str, TorchCall]


def read_manifest(folder: Path) -> Manifest:
    """The manifest of the package in ``folder``."""
    data = _load(folder)
    found = data.get("schema")
    if found != SCHEMA:
        raise PackageError(
            f"loading the package in {folder}: manifest.json has schema {found!r}; this runtime "
            f"reads schema {SCHEMA}. Reinstall the package: its files are of different builds."
        )
    try:
        return _manifest(folder, data)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise PackageError(
            f"loading the package in {folder}: manifest.json lacks or misstates "
            f"{error}. The package is damaged: reinstall it."
        ) from None


def called(manifest: Manifest) -> tuple[str, ...]:
    """The operators that torch runs, each once."""
    return tuple(dict.fromkeys(call.operator for call in manifest.calls.values()))


def read_checked(folder: Path, file: str, sha256: str) -> bytes:
    """The bytes of a file of the package, checked against the manifest."""
    try:
        content = (folder / file).read_bytes()
    except OSError as error:
        raise PackageError(
            f"loading the package in {folder}: {file} cannot be read ({error.strerror}). "
            "Reinstall the package."
        ) from None
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise PackageError(
            f"loading the package in {folder}: {file} is damaged: its sha256 is {found[:16]}..., "
            f"the manifest says {sha256[:16]}... Nothing of it was used. Reinstall the package."
        )
    return content


def _load(folder: Path) -> dict[str, Any]:
    try:
        data = json.loads((folder / "manifest.json").read_bytes())
    except OSError as error:
        raise PackageError(
            f"loading a package: {folder / 'manifest.json'} cannot be read ({error.strerror}); "
            "accepted: the folder of a package that aotpack emitted"
        ) from None
    except ValueError as error:
        raise PackageError(
            f"loading the package in {folder}: manifest.json is not JSON ({error}). The package "
            "is damaged: reinstall it."
        ) from None
    if not isinstance(data, dict):
        raise PackageError(f"loading the package in {folder}: manifest.json is not an object")
    return data


def _manifest(folder: Path, data: Mapping[str, Any]) -> Manifest:
    signature = Signature(
        data["name"],
        data["version"],
        tuple(_size(size) for size in data["sizes"]),
        tuple(_tensor(tensor) for tensor in data["inputs"]),
        tuple(_tensor(tensor) for tensor in data["outputs"]),
        read_tree(data["args"]),
        read_tree(data["kwargs"]),
        read_tree(data["result"]),
        tuple(data["updates"]),
        tuple(Assertion(**one) for one in data["assertions"]),
    )
    return Manifest(
        folder,
        data["aotpack"],
        dict(data["compilers"]),
        tuple(data["targets"]),
        signature,
        tuple(_weight(weight) for weight in data["weights"]),
        frozenset(data["unused"]),
        data["weights_mode"],
        data["weights_sha256"],
        data["constants_sha256"],
        data["peak_bytes"],
        data["wrapper_sha256"],
        {name: _kernel(name, kernel) for name, kernel in data["kernels"].items()},
        tuple(data["golden"]["eager_errors"]),
        Host(**data["host"]) if data.get("host") else None,
        tuple(data["choices"]),
        {name: _call(call) for name, call in data["calls"].items()},
    )


def _call(data: Mapping[str, Any]) -> TorchCall:
    dtypes = tuple(None if name is None else DTYPES[name] for name in data["dtypes"])
    fixed = list(data["args"]), dict(data["kwargs"])
    return TorchCall(data["operator"], *fixed, dtypes, data["results"], data["reason"])


def _size(data: Mapping[str, Any]) -> SizeRange:
    return SizeRange(data["name"], data["low"], data["high"], data["multiple"])


def _tensor(data: Mapping[str, Any]) -> Tensor:
    return Tensor(data["name"], DTYPES[data["dtype"]], tuple(map(Size, data["shape"])))


def _weight(data: Mapping[str, Any]) -> Weight:
    shape = tuple(map(int, data["shape"]))
    dtype = DTYPES[data["dtype"]]
    marks = data["constant"], data["follows"]
    return Weight(data["name"], tuple(data["names"]), dtype, shape, *marks)


def _kernel(name: str, data: Mapping[str, Any]) -> Kernel:
    args = tuple(
        KernelArg(DTYPES[arg["dtype"]], arg["pointer"], arg["written"]) for arg in data["args"]
    )
    binaries = {target: Binary(**binary) for target, binary in data["binaries"].items()}
    return Kernel(name, args, data["source"], Size(data["moved"]), Size(data["flops"]), binaries)
