"""The package's self-test: golden data by the accuracy law, the proof that nothing is compiled."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from .arrays.complex_views import complex_or_same, pairs_or_same
from .arrays.device_array import DeviceArray
from .arrays.orders import laid_out
from .checks.audit import watch
from .devices.device import Device, is_host
from .dtypes import Array, present
from .errors import VerifyError, printable, printable_lines
from .files.checked import identity_of, open_at_once, sha256_of
from .files.inventory import differences
from .golden.data import read_golden
from .golden.law import Check, compare, limits_of
from .interface.package import Package
from .loading import folder_of, load
from .manifest import Manifest, Signature, called, read_manifest
from .memory.weight_files import sidecar_name_of, weights_file
from .model import Method
from .safetensors import Stored, unreadable
from .structures.trees import flatten, unflatten
from .tensors import Tensor

_NAMED = 5  # files that an error names
_CALLS = 3  # launches twice, then a graph


@dataclass(frozen=True, slots=True)
class Report:
    """The result of ``verify``; ``actions`` are programs started, files written, sockets used.

    A package that calls torch does not fail on actions: they may be torch's.
    """

    checks: tuple[Check, ...]
    actions: tuple[str, ...]
    calls: tuple[str, ...] = ()  # operators that torch runs
    left_out: str = ""  # why there is nothing to compare with
    device: str = ""  # the name of what it ran on

    @property
    def is_passed(self) -> bool:
        kept = not self.actions or bool(self.calls)
        return kept and not self.left_out and all(check.is_passed for check in self.checks)

    def __str__(self) -> str:
        return printable_lines(self._told())

    def _told(self) -> str:
        if self.left_out:
            told = "\n".join([*map(str, self.checks), f"no golden data: {self.left_out}"])
            return (
                f"{told}\nNothing was compared{' there' if self.checks else ''}. Compare with the "
                f"model: aotpack verify WHEEL --against MODEL\nload: {self._promise()}"
            )
        return "\n".join([*map(str, self.checks), f"load and call: {self._promise()}"])

    def _promise(self) -> str:
        if not self.actions:
            kept = "no program started, no file written, no socket used: ok"
            return "; ".join([kept, *self._through_torch()])
        if not self.calls:
            return f"{', '.join(self.actions)}: WRONG"
        did = f"it did what packages do not, which counts for nothing: {', '.join(self.actions)}"
        return "; ".join([*self._through_torch(), did])

    def _through_torch(self) -> list[str]:
        return [f"torch runs {', '.join(self.calls)}"] if self.calls else []


def verify(
    package: str | Path | ModuleType,
    device: int | str | Device | None = None,
    *,
    weights: str | Path | None = None,
) -> Report:
    """Compare the files with those of the build, load the package and run its golden data.

    Forbidden actions are watched for.
    """
    check_files(folder_of(package))
    with watch() as actions, load(package, device, weights=weights) as model:
        checks: list[Check] = []
        notes: list[str] = []
        state = {name: array.stored() for name, array in model.state.items()}
        for name, method in model.methods.items():
            for changed, array in model.state.items():
                array.fill(state[changed])
            facts = method.manifest.golden
            if facts.has_results or not facts.note:
                checks += check_golden(model, method)
            else:
                notes.append(f"{name and f'{name}: '}{printable(facts.note)}")
        ran_on = model.device.name
    check_weights(model.manifest, None if weights is None else Path(weights))
    calls = called(model.manifest)
    return Report(tuple(checks), tuple(actions), calls, "; ".join(notes), ran_on)


def check_golden(model: Package, method: Method) -> tuple[Check, ...]:
    """Check outputs and in-place changes on the golden inputs against the reference.

    On a GPU the worst of several calls counts; the last runs as a graph. Memory is poisoned between
    calls, so that none can reuse the values of another.
    """
    manifest = method.manifest
    golden = read_golden(manifest.folder / manifest.golden_file, manifest.golden.drawn)
    state = {name: array.stored() for name, array in model.state.items()}
    runs = []
    for _ in range(1 if is_host(model.device) else _CALLS):
        for name, array in model.state.items():
            array.fill(state[name])
        model.poison()
        runs.append(_golden_run(model, method, golden))
    return tuple(max(checks, key=_severity) for checks in zip(*runs, strict=True))


def _severity(check: Check) -> tuple[bool, float, int]:
    return not check.is_passed, check.error, check.differing


def _golden_run(model: Package, method: Method, golden: Mapping[str, Stored]) -> list[Check]:
    """The checks of one call."""
    signature, manifest = method.signature, method.manifest
    given = {spec.name: _given(golden[f"inputs/{spec.name}"], spec) for spec in signature.inputs}
    pairs = zip(given.values(), signature.inputs, strict=True)
    args, kwargs = _arranged(signature, [complex_or_same(one, spec) for one, spec in pairs])
    results: list[Any] = []
    flatten(signature.result, method(*args, **kwargs), "the result", results)
    dtypes = {t.name: t.dtype for t in signature.inputs}
    dtypes |= {weight.name: weight.dtype for weight in manifest.weights}
    state = model.state
    found = [
        (label, f"outputs/{spec.name}", pairs_or_same(_on_host(result), spec), spec.dtype)
        for label, spec, result in zip(signature.labels, signature.outputs, results, strict=True)
    ]
    for name in signature.updates:
        is_input = name in given
        left = present(given[name], dtypes[name]) if is_input else state[name].numpy()
        label = f"{'input' if is_input else 'state'} {name}"
        found.append((label, f"updates/{name}", left, dtypes[name]))
    facts = manifest.golden
    head = f"{manifest.method}: " if manifest.method else ""
    return [
        compare(
            head + label,
            array,
            golden[key].data,
            dtype,
            eager_error,
            limits_of(golden, facts.sampled, key),
        )
        for (label, key, array, dtype), eager_error in zip(found, facts.eager_errors, strict=True)
    ]


def _given(one: Stored, spec: Tensor) -> Array:
    """A golden input in memory of its own, as the model reads it."""
    made: Array = laid_out(one.data, one.data.dtype, spec.order)
    return made


def _on_host(result: Any) -> Array:
    """A result as numpy; a model without inputs has no framework to answer in."""
    array: Array = result.numpy() if isinstance(result, DeviceArray) else result
    return array


def golden_arguments(
    manifest: Manifest,
    golden: Mapping[str, Stored],
    convert: Callable[[Stored, tuple[int, ...]], Any] | None = None,
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The recorded arguments as the model takes them.

    ``convert`` makes each of a Stored and its memory order.
    """
    inputs = manifest.signature.inputs
    pairs = [(golden[f"inputs/{spec.name}"], spec.order) for spec in inputs]
    leaves = [convert(one, order) if convert else one.data for one, order in pairs]
    both = zip(leaves, inputs, strict=True)
    return _arranged(manifest.signature, [complex_or_same(one, spec) for one, spec in both])


def _arranged(
    signature: Signature, leaves: Sequence[Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Leaves in the order of the inputs as args and kwargs."""
    count = signature.args.leaves
    args = unflatten(signature.args, leaves[:count])
    kwargs = unflatten(signature.kwargs, leaves[count:])
    return tuple(args), dict(kwargs)


def check_files(folder: Path) -> None:
    """Check that the folder has the files of the build, the runtime's own among them."""
    manifest = read_manifest(folder)
    signature, sidecar = manifest.signature, sidecar_name_of(manifest)
    wrong = differences(folder, f"{signature.name}-{signature.version}", frozenset({sidecar}))
    if wrong:
        more = f" ({len(wrong)} in all)" if len(wrong) > _NAMED else ""
        raise VerifyError(
            f"verifying {signature.name}: its files are not those of the build: "
            f"{', '.join(wrong[:_NAMED])}{more}. Reinstall the package."
        )


def check_weights(manifest: Manifest, given: Path | None) -> None:
    """Check that a file of weights has the bytes of the build; loading has checked its own."""
    path = weights_file(manifest, given)
    if given is None or path is None or manifest.weights_sha256 is None:
        return
    try:
        with open(path, "rb", opener=open_at_once) as file:
            identity_of(file, path)
            digest = sha256_of(file)
    except OSError as error:
        raise unreadable(path, error) from None
    if digest != manifest.weights_sha256:
        raise VerifyError(
            f"verifying {manifest.signature.name}: {path} is another file than that of the build: "
            f"it has sha256 {digest[:16]}..., recorded is {manifest.weights_sha256[:16]}... Other "
            "weights, or the same in another file, are verified in a package that was built with "
            "them; if it is to be that file, its copy is damaged: copy it again."
        )
