"""manifest.json as typed values: signature, weights, kernels and their binaries.

The dataclasses are the schema: ``files.schema`` reads the file by their annotations. To add a key,
add a field here and write it in ``aotpack.emit.manifest``.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from .errors import PackageError
from .files.checked import check_sum, read_bounded
from .files.kinds import Constant, Count, Error, Identifier, Name, Sha256
from .files.schema import INLINE, PLACE, Mismatch, OneOf, read_record, shown
from .files.strict_json import parse_json
from .files.sums import SUMS, read_sums
from .golden.drawn import Drawn
from .golden.samples import Sampled
from .sizes import Size
from .structures.text import labels, parameters_text, paths, structure_text
from .structures.trees import Tree
from .tensors import Binary as Binary
from .tensors import (
    CountedSize,
    DerivedWeight,
    Formula,
    Host,
    SizeCondition,
    SizeRange,
    Tensor,
    Weight,
)
from .tensors import Kernel as Kernel
from .tensors import KernelArg as KernelArg
from .tensors import TorchCall as TorchCall

SCHEMA = 2
_MANIFEST_BYTES = 1 << 28


@dataclass(frozen=True, slots=True)
class Assertion:
    """A condition on data that calls check. ``word`` names its flag, ``place`` the source line."""

    word: Name
    message: str
    place: str


@dataclass(frozen=True, slots=True, repr=False)
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
    positional: tuple[Name, ...]  # parameters that have a place: those of args, then other names
    updates: tuple[Name, ...]  # inputs and weights that a call changes in place
    assertions: tuple[Assertion, ...]
    counted: tuple[CountedSize, ...] = ()  # sizes that a call reads from its data
    conditions: tuple[SizeCondition, ...] = ()
    defaults: Mapping[Name, Constant] = field(default_factory=dict)  # what the example left out

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
        self._check_names()

    def _check_names(self) -> None:
        count, keys, left = len(self.args.children), {*self.kwargs.keys}, {*self.defaults}
        own, shared = {*self.positional[:count]}, {*self.positional[count:]}
        places = len(own | shared) == len(self.positional) >= count
        if not places or own & keys or shared - keys - left:
            accepted = f"{count} names that are no keys of kwargs, then such keys or defaults"
            raise Mismatch(shown([*self.positional]), accepted).within("positional")
        if given := left & (own | keys):
            raise (
                Mismatch("there", "names that args and kwargs lack")
                .within(min(given))
                .within("defaults")
            )

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
        takes = parameters_text(self.args, self.kwargs, self.positional, self.defaults, inputs)
        gives = structure_text(self.result, outputs)
        where = "".join(f"\n  {size}" for size in (*self.sizes, *self.counted))
        changes = f"\n  changes {', '.join(self.updates)}" if self.updates else ""
        return f"{self.name}({takes}) -> {gives}{where}{changes}"

    __repr__ = __str__  # the signatures of several methods are printed as a dict


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
class Method:
    """A method of a package with several: all that is its own. Its signature has its name."""

    name: Annotated[str, PLACE]
    signature: Annotated[Signature, INLINE]
    uses: tuple[Name, ...]  # names of weights
    peak_bytes: Count
    wrapper_sha256: Sha256
    golden: Golden
    choices: tuple[str, ...]
    derived: tuple[DerivedWeight, ...] = ()
    moved: Mapping[Identifier, Formula] = field(default_factory=dict)  # by target

    def __post_init__(self) -> None:
        if self.signature.name != self.name:
            raise Mismatch(shown(self.signature.name), self.name).within("name")


@dataclass(frozen=True, slots=True)
class Manifest:
    """A package, or one of its ``methods``.

    With several methods the signature of the package has a name and a version alone, and
    ``wrapper_sha256`` is null. The manifest of one of them (``of``) has its name as ``method``.
    """

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
    wrapper_sha256: Sha256 | None
    kernels: Mapping[Identifier, Kernel]
    golden: Golden
    host: Host | None
    choices: tuple[str, ...]  # keys of the launches that have several forms
    calls: Mapping[Name, TorchCall]
    derived: tuple[DerivedWeight, ...] = ()  # what the weight program computes
    moved: Mapping[Identifier, Formula] = field(default_factory=dict)  # bytes of a call, by target
    methods: Mapping[Identifier, Method] = field(default_factory=dict)
    method: Annotated[str, OneOf(("",))] = ""

    @property
    def entries(self) -> "Mapping[str, Manifest]":
        """The manifest of each method by its name; that of an only one is ""."""
        return {name: self.of(name) for name in self.methods} or {"": self}

    def of(self, method: str) -> "Manifest":
        """The manifest of a method, as it would be in a package of its own."""
        own = self.methods[method]
        uses = frozenset(own.uses)
        name = f"{self.signature.name}.{method}"
        return replace(
            self,
            signature=replace(own.signature, name=name),
            weights=tuple(weight for weight in self.weights if weight.name in uses),
            peak_bytes=own.peak_bytes,
            wrapper_sha256=own.wrapper_sha256,
            golden=own.golden,
            choices=own.choices,
            derived=own.derived,
            moved=own.moved,
            methods={},
            method=method,
        )

    @property
    def changed(self) -> frozenset[str]:
        """The inputs and weights that a call of any method changes."""
        signatures = (self.signature, *(one.signature for one in self.methods.values()))
        return frozenset(name for one in signatures for name in one.updates)

    @property
    def wrapper_file(self) -> str:
        """The module with the plan."""
        return f"wrapper_{self.method}.py" if self.method else "wrapper.py"

    @property
    def golden_file(self) -> str:
        """The file of golden data."""
        return f"golden_{self.method}.safetensors" if self.method else "golden.safetensors"


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
    _check_once("targets", manifest.targets)
    _check_staged(manifest)
    _check_works(manifest)
    for name, own in manifest.methods.items():
        unknown = {*own.uses} - {weight.name for weight in manifest.weights}
        if unknown:
            mismatch = Mismatch(shown(min(unknown)), "names of weights").within("uses")
            raise mismatch.within(name).within("methods")
        try:
            _check_method(manifest.of(name))
        except Mismatch as mismatch:
            raise mismatch.within(name).within("methods") from None
    _check_method(manifest)


def _check_method(manifest: Manifest) -> None:
    """What holds between the records of one method, or of a package."""
    signature = manifest.signature
    names = [tensor.name for tensor in (*signature.inputs, *signature.outputs)]
    weights = [weight.name for weight in manifest.weights]
    derived = [weight.name for weight in manifest.derived]
    words = [assertion.word for assertion in signature.assertions]
    _check_once("the tensors", [*names, *weights, *derived, *words])
    given = {size.name for size in signature.sizes}
    counted = [size.name for size in signature.counted]
    _check_once("sizes", [*(size.name for size in signature.sizes), *counted])
    for tensor in signature.inputs:
        _check_known(given, tensor.shape, f"the shape of {tensor.name}")
    known = given.union(counted)
    for tensor in signature.outputs:
        _check_known(known, tensor.shape, f"the shape of {tensor.name}")
    _check_known(known, [one.holds for one in signature.conditions], "a condition")
    _check_known(known, manifest.moved.values(), "the bytes of a call")
    changeable = {*names[: len(signature.inputs)], *weights}
    for number, name in enumerate(signature.updates):
        if name not in changeable:
            accepted = "an input or a weight"
            raise Mismatch(shown(name), accepted).within(number).within("updates")
    is_package = manifest.wrapper_sha256 is None
    if is_package != bool(manifest.methods):
        raise Mismatch(shown(manifest.wrapper_sha256), "null beside methods alone").within(
            "wrapper_sha256"
        )
    results = len(signature.outputs) + len(signature.updates)
    is_left_out = bool(manifest.golden.note) and not manifest.golden.has_results
    if len(manifest.golden.eager_errors) != results and not is_left_out:
        found = f"a list of {len(manifest.golden.eager_errors)}"
        raise Mismatch(found, f"{results} numbers").within("eager_errors").within("golden")


def _check_staged(manifest: Manifest) -> None:
    """What nothing but the weight program reads is neither state, nor constant, nor packed."""
    behind = [*manifest.weights[1:], None]
    changed = manifest.changed
    has_program = bool(manifest.derived) or any(one.derived for one in manifest.methods.values())
    for number, (weight, after) in enumerate(zip(manifest.weights, behind, strict=False)):
        is_packed = weight.follows or (after is not None and after.follows)
        is_kept = is_packed or weight.constant or weight.name in changed
        if weight.staged and (is_kept or not has_program):
            accepted = "false for a weight that is needed later"
            raise Mismatch("true", accepted).within("staged").within(number).within("weights")


def _check_works(manifest: Manifest) -> None:
    """The work of kernels is in the sizes of the methods."""
    known = set[str]()
    for one in manifest.entries.values():
        known |= {size.name for size in one.signature.sizes}
        known |= {size.name for size in one.signature.counted}
    for kernel in manifest.kernels.values():
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
