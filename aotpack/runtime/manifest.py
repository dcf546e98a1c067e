"""manifest.json as typed values: signature, weights, kernels and their binaries.

The dataclasses are the schema: ``files.schema`` reads the file by their annotations. To add a key,
add a field here and write it in ``aotpack.emit.manifest``.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from .errors import PackageError
from .files.checked import check_sum, read_bounded
from .files.kinds import (
    Argument,
    Count,
    Error,
    File,
    Identifier,
    Name,
    Operator,
    Sha256,
    Small,
    Type,
)
from .files.schema import INLINE, PLACE, Mismatch, OneOf, read_record, shown
from .files.strict_json import parse_json
from .files.sums import SUMS, read_sums
from .golden.drawn import Drawn
from .golden.samples import Sampled
from .sizes import Size
from .structures.text import labels, parameters_text, paths, structure_text
from .structures.trees import Tree
from .tensors import CountedSize, DerivedWeight, Formula, SizeCondition, SizeRange, Tensor, Weight

SCHEMA = 2
_MANIFEST_BYTES = 1 << 28


@dataclass(frozen=True, slots=True)
class Assertion:
    """A condition on data that calls check. ``word`` names its flag, ``place`` the source line."""

    word: Name
    message: str
    place: str


@dataclass(frozen=True, slots=True)
class Signature:
    """The inputs, results and in-place changes of the model."""

    name: Identifier
    version: Name
    sizes: tuple[SizeRange, ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    args: Tree
    kwargs: Tree
    result: Tree
    positional: tuple[Name, ...]  # parameters that have a place: those of args, then keys of kwargs
    updates: tuple[Name, ...]  # inputs and weights that a call changes in place
    assertions: tuple[Assertion, ...]
    counted: tuple[CountedSize, ...] = ()  # sizes that a call reads from its data
    conditions: tuple[SizeCondition, ...] = ()

    def __post_init__(self) -> None:
        for key, found, tensors in (
            ("args", self.args.leaves + self.kwargs.leaves, self.inputs),
            ("result", self.result.leaves, self.outputs),
        ):
            if found != len(tensors):
                raise Mismatch(f"a structure of {found} tensors", f"{len(tensors)}").within(key)
        for number, tensor in enumerate(self.outputs):
            if tensor.name.rstrip("_") != f"output{number}":
                accepted = f"output{number}, with underscores behind"
                mismatch = Mismatch(shown(tensor.name), accepted)
                raise mismatch.within("name").within(number).within("outputs")
        for key, tree, kind in (("args", self.args, "tuple"), ("kwargs", self.kwargs, "dict")):
            if tree.kind != kind:
                raise Mismatch(f"a {tree.kind}", f"a {kind}").within("kind").within(key)
        count, keys = len(self.args.children), {*self.kwargs.keys}
        own, shared = {*self.positional[:count]}, {*self.positional[count:]}
        places = len(own | shared) == len(self.positional) >= count
        if not places or own & keys or shared - keys:
            accepted = f"{count} names that are no keys of kwargs, then such keys"
            raise Mismatch(shown([*self.positional]), accepted).within("positional")

    @property
    def paths(self) -> tuple[str, ...]:
        """Where each input stands in a call, such as ``values[0]``."""
        count = len(self.args.children)
        names = (*self.positional[:count], *self.kwargs.keys)
        pairs = zip((*self.args.children, *self.kwargs.children), names, strict=True)
        return tuple(path for tree, name in pairs for path in paths(tree, name))

    def path_of(self, tensor: Tensor) -> str:
        """The path of an input."""
        return self.paths[self.inputs.index(tensor)]

    @property
    def labels(self) -> tuple[str, ...]:
        """What each output is called, such as ``logits`` or ``output0``."""
        return tuple(labels(self.result))

    def __str__(self) -> str:
        inputs, outputs = (map(Tensor.type_text, side) for side in (self.inputs, self.outputs))
        takes = parameters_text(self.args, self.kwargs, self.positional, inputs)
        gives = structure_text(self.result, outputs)
        where = "".join(f"\n  {size}" for size in (*self.sizes, *self.counted))
        changes = f"\n  changes {', '.join(self.updates)}" if self.updates else ""
        return f"{self.name}({takes}) -> {gives}{where}{changes}"


@dataclass(frozen=True, slots=True)
class KernelArg:
    """A parameter of a kernel: a pointer to ``dtype``, or an integer of ``dtype``."""

    dtype: Type
    pointer: bool
    written: bool  # the kernel may store there


@dataclass(frozen=True, slots=True)
class Binary:
    """A kernel compiled for one target, and its launch configuration."""

    file: File
    sha256: Sha256
    bytes: Count
    symbol: Identifier
    num_warps: Small
    num_ctas: Small
    shared: Count
    global_scratch: Count
    global_scratch_align: Small
    registers: Count
    spills: Count
    starts_early: bool  # programmatic dependent launch


@dataclass(frozen=True, slots=True)
class GivenUp:
    """A number of warps that the build gave up, for it spilled."""

    num_warps: Small
    spills: Count


@dataclass(frozen=True, slots=True)
class Kernel:
    name: Annotated[str, PLACE]
    args: tuple[KernelArg, ...]
    source: File
    moved: Formula  # bytes that a launch moves, in the model's sizes
    flops: Formula  # of its products
    binaries: Mapping[Identifier, Binary]
    refused: Mapping[Identifier, tuple[GivenUp, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for target, binary in self.binaries.items():
            if binary.symbol != self.name:
                mismatch = Mismatch(shown(binary.symbol), f"{self.name}, the kernel's name")
                raise mismatch.within("symbol").within(target).within("binaries")


@dataclass(frozen=True, slots=True)
class TorchCall:
    """An operator that torch runs; it writes the last ``results`` of the passed values.

    In ``args`` and ``kwargs``, as read from JSON, {"passed": n} stands for passed value n,
    {"dtype": name} for a type, {"float": text} for a number that JSON lacks.
    """

    operator: Operator
    args: tuple[Argument, ...]
    kwargs: Mapping[Identifier, Argument]
    dtypes: tuple[Type | None, ...]  # of the passed values; None for an integer
    results: Count
    reason: str  # why it has no kernel

    def __post_init__(self) -> None:
        passed = len(self.dtypes)
        if self.results > passed:
            raise Mismatch(str(self.results), f"at most {passed}, the values passed").within(
                "results"
            )
        for key, argument in (("args", [*self.args]), ("kwargs", [*self.kwargs.values()])):
            if max(_numbers_of(argument), default=-1) >= passed:
                raise Mismatch("a number of a passed value", f"below {passed}").within(key)


@dataclass(frozen=True, slots=True)
class Host:
    """The requirements of CPU code."""

    machine: Name
    arch: Name


@dataclass(frozen=True, slots=True)
class Golden:
    """The facts about the golden data that their file does not have."""

    eager_errors: tuple[Error, ...]
    drawn: Mapping[Name, Drawn] = field(default_factory=dict)  # inputs
    sampled: Mapping[Name, Sampled] = field(default_factory=dict)  # outputs/NAME, updates/NAME
    note: str = ""  # what was left out and why

    @property
    def has_results(self) -> bool:
        """False if there is nothing to compare results with."""
        return bool(self.eager_errors)


@dataclass(frozen=True, slots=True)
class Manifest:
    folder: Annotated[Path, PLACE]
    schema: Annotated[int, OneOf((SCHEMA,))]
    aotpack: Name
    compilers: Mapping[Name, Name]
    targets: tuple[Identifier, ...]
    signature: Annotated[Signature, INLINE]
    weights: tuple[Weight, ...]
    unused: frozenset[Name]  # state_dict names of tensors that the package does not use
    weights_mode: Annotated[str, OneOf(("embed", "sidecar", "none"))]
    weights_sha256: Sha256 | None
    weights_chunks: tuple[Sha256, ...]  # of each ``files.chunks.CHUNK`` bytes of the weights' file
    constants_sha256: Sha256
    peak_bytes: Count
    wrapper_sha256: Sha256
    kernels: Mapping[Identifier, Kernel]
    golden: Golden
    host: Host | None
    choices: tuple[str, ...]  # keys of the launches that have several forms
    calls: Mapping[Name, TorchCall]
    derived: tuple[DerivedWeight, ...] = ()  # what the weight program computes


def read_manifest(folder: Path) -> Manifest:
    """The manifest of the package in ``folder``."""
    doing, file = f"loading the package in {folder}: manifest.json", folder / "manifest.json"
    content = read_bounded(file, _MANIFEST_BYTES, f"loading a package: {file}")
    try:
        data = parse_json(content)
    except ValueError as error:
        raise PackageError(
            f"{doing} is not JSON ({error}). The package is damaged: reinstall it."
        ) from None
    found = data.get("schema") if isinstance(data, dict) else None
    if type(found) is int and found != SCHEMA:
        raise PackageError(
            f"{doing} has schema {found!r}; this runtime "
            f"reads schema {SCHEMA}. Reinstall the package: its files are of different builds."
        )
    check_sum(folder, file.name, content, read_sums(folder).get(file.name, ""), SUMS)
    return parse_manifest(data, folder)


def parse_manifest(data: Any, folder: Path) -> Manifest:
    """The manifest of the JSON value ``data``; PackageError where it breaks the schema."""
    try:
        manifest: Manifest = read_record(Manifest, data, folder)
        _check(manifest)
    except Mismatch as error:
        raise PackageError(
            f"loading the package in {folder}: manifest.json: {error}. The package is damaged: "
            "reinstall it."
        ) from None
    return manifest


def called(manifest: Manifest) -> tuple[str, ...]:
    """The operators that torch runs, each once."""
    return tuple(dict.fromkeys(call.operator for call in manifest.calls.values()))


def _check(manifest: Manifest) -> None:
    """What holds between the records."""
    signature = manifest.signature
    names = [tensor.name for tensor in (*signature.inputs, *signature.outputs)]
    weights = [weight.name for weight in manifest.weights]
    derived = [weight.name for weight in manifest.derived]
    words = [assertion.word for assertion in signature.assertions]
    _check_once("the tensors", [*names, *weights, *derived, *words])
    _check_once(
        "sizes",
        [*(size.name for size in signature.sizes), *(size.name for size in signature.counted)],
    )
    _check_once("targets", manifest.targets)
    _check_sizes(manifest)
    changeable = {*names[: len(signature.inputs)], *weights}
    for number, name in enumerate(signature.updates):
        if name not in changeable:
            accepted = "an input or a weight"
            raise Mismatch(shown(name), accepted).within(number).within("updates")
    _check_staged(manifest)
    results = len(signature.outputs) + len(signature.updates)
    is_left_out = bool(manifest.golden.note) and not manifest.golden.has_results
    if len(manifest.golden.eager_errors) != results and not is_left_out:
        found = f"a list of {len(manifest.golden.eager_errors)}"
        raise Mismatch(found, f"{results} numbers").within("eager_errors").within("golden")


def _check_staged(manifest: Manifest) -> None:
    """What nothing but the weight program reads is neither state, nor constant, nor packed."""
    behind = [*manifest.weights[1:], None]
    for number, (weight, after) in enumerate(zip(manifest.weights, behind, strict=False)):
        is_packed = weight.follows or (after is not None and after.follows)
        is_kept = is_packed or weight.constant or weight.name in manifest.signature.updates
        if weight.staged and (is_kept or not manifest.derived):
            accepted = "false for a weight that is needed later"
            raise Mismatch("true", accepted).within("staged").within(number).within("weights")


def _check_sizes(manifest: Manifest) -> None:
    """Every size expression is in the sizes of the model."""
    signature, kernels = manifest.signature, manifest.kernels.values()
    given = {size.name for size in signature.sizes}
    known = given | {size.name for size in signature.counted}
    for tensor in signature.inputs:
        _check_known(given, tensor.shape, f"the shape of {tensor.name}")
    for tensor in signature.outputs:
        _check_known(known, tensor.shape, f"the shape of {tensor.name}")
    _check_known(known, [one.holds for one in signature.conditions], "a condition")
    for kernel in kernels:
        _check_known(known, (kernel.moved, kernel.flops), f"the work of {kernel.name}")


def _check_known(known: set[str], sizes: Iterable[Size], what: str) -> None:
    for size in sizes:
        if unknown := {*size.names} - known:
            raise Mismatch(f"{size}, with {min(unknown)}", f"the sizes {sorted(known)}").within(
                what
            )


def _check_once(what: str, names: Iterable[str]) -> None:
    name, count = max(Counter(names).items(), key=lambda item: item[1], default=("", 0))
    if count > 1:
        raise Mismatch(f"{shown(name)} {count} times", "different names").within(what)


def _numbers_of(argument: Any) -> list[int]:
    """The passed values that an argument takes."""
    if isinstance(argument, list):
        return [number for part in argument for number in _numbers_of(part)]
    return [argument["passed"]] if isinstance(argument, dict) and "passed" in argument else []
