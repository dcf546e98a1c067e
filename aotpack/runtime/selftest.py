"""The package's self-test: golden data, the accuracy law, the proof that nothing is compiled.

The accuracy law: the error of an output against the float64 reference is at most 1.5 times eager's
error plus one unit of the output type at the reference's scale. Integers and bools must be equal;
where eager's differ by rounding, 1.5 times as many elements plus one may differ.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from .checks.audit import watch
from .devices.device import Device, is_host
from .dtypes import Array, DType, present, widen
from .errors import VerifyError
from .files.inventory import differences
from .loading import folder_of, load
from .manifest import Manifest, Signature, called, read_manifest
from .memory.weights import sidecar_name_of, weights_file
from .model import Model
from .safetensors import Stored, read_safetensors
from .structures.trees import flatten, unflatten

_CHUNK = 1 << 24
_NAMED = 5  # files that an error names
_CALLS = 3  # launches twice, then a graph


@dataclass(frozen=True, slots=True)
class Check:
    """The error of one output, and that of eager at the build, against the reference.

    Errors are the largest differences; for integers and bools, the number of differing elements.
    """

    name: str
    error: float
    eager: float
    bound: float
    counts: bool = False

    @property
    def is_passed(self) -> bool:
        return self.error <= self.bound

    def __str__(self) -> str:
        verdict = "ok" if self.is_passed else "WRONG"
        if self.counts:
            return (
                f"{self.name}: {self.error:.0f} elements differ, of eager's {self.eager:.0f}, "
                f"allowed {self.bound:.0f}: {verdict}"
            )
        return (
            f"{self.name}: largest error {self.error:.3g}, eager's {self.eager:.3g}, "
            f"allowed {self.bound:.3g}: {verdict}"
        )


@dataclass(frozen=True, slots=True)
class Report:
    """The result of ``verify``; ``actions`` are programs started, files written, sockets used.

    A package that calls torch does not fail on actions: they may be torch's.
    """

    checks: tuple[Check, ...]
    actions: tuple[str, ...]
    calls: tuple[str, ...] = ()  # operators that torch runs

    @property
    def is_passed(self) -> bool:
        kept = not self.actions or bool(self.calls)
        return kept and all(check.is_passed for check in self.checks)

    def __str__(self) -> str:
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
        checks = check_golden(model)
    check_weights(model.manifest, None if weights is None else Path(weights))
    return Report(checks, tuple(actions), called(model.manifest))


def check_golden(model: Model) -> tuple[Check, ...]:
    """Check outputs and in-place changes on the golden inputs against the reference.

    On a GPU the worst of several calls counts; the last runs as a graph. Memory is poisoned between
    calls, so that none can reuse the values of another.
    """
    golden = read_safetensors(model.manifest.folder / "golden.safetensors")
    state = {name: array.stored() for name, array in model.state.items()}
    runs = []
    for _ in range(1 if is_host(model.device) else _CALLS):
        for name, array in model.state.items():
            array.fill(state[name])
        model.poison()
        runs.append(_golden_run(model, golden))
    return tuple(max(checks, key=_severity) for checks in zip(*runs, strict=True))


def _severity(check: Check) -> tuple[bool, float]:
    return not check.is_passed, check.error


def _golden_run(model: Model, golden: Mapping[str, Stored]) -> list[Check]:
    """The checks of one call."""
    signature = model.signature
    given = {spec.name: np.array(golden[f"inputs/{spec.name}"].data) for spec in signature.inputs}
    args, kwargs = _arranged(signature, list(given.values()))
    results: list[Any] = []
    flatten(signature.result, model(*args, **kwargs), "the result", results)
    dtypes = {t.name: t.dtype for t in signature.inputs}
    dtypes |= {weight.name: weight.dtype for weight in model.manifest.weights}
    state = model.state
    found = [
        (f"outputs/{spec.name}", result, spec.dtype)
        for spec, result in zip(signature.outputs, results, strict=True)
    ]
    for name in signature.updates:
        left = present(given[name], dtypes[name]) if name in given else state[name].numpy()
        found.append((f"updates/{name}", left, dtypes[name]))
    errors = model.manifest.golden.eager_errors
    return [
        compare(key.partition("/")[2], array, golden[key].data, dtype, eager_error)
        for (key, array, dtype), eager_error in zip(found, errors, strict=True)
    ]


def golden_arguments(
    manifest: Manifest,
    golden: Mapping[str, Stored],
    convert: Callable[[Stored], Any] | None = None,
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The recorded arguments as the model takes them; ``convert`` makes each of a Stored."""
    stored = [golden[f"inputs/{spec.name}"] for spec in manifest.signature.inputs]
    leaves = [convert(one) if convert else one.data for one in stored]
    return _arranged(manifest.signature, leaves)


def _arranged(
    signature: Signature, leaves: Sequence[Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Leaves in the order of the inputs as args and kwargs."""
    count = signature.args.leaves
    args = unflatten(signature.args, leaves[:count])
    kwargs = unflatten(signature.kwargs, leaves[count:])
    return tuple(args), dict(kwargs)


def compare(name: str, found: Array, reference: Array, dtype: DType, eager_error: float) -> Check:
    """The accuracy law for one output."""
    if found.shape != reference.shape:
        return Check(
            f"{name} of shape {found.shape} for {reference.shape}", np.inf, eager_error, 0.0
        )
    if dtype.eps == 0:
        differ = float(np.count_nonzero(found != reference))
        bound = 1.5 * eager_error + 1 if eager_error else 0.0
        return Check(name, differ, eager_error, bound // 1, counts=True)
    wide, wanted = _wide(found, dtype), _wide(reference, dtype)
    finite = np.isfinite(wanted)
    if not np.array_equal(wide[~finite], wanted[~finite], equal_nan=True):
        return Check(f"{name} (infinities and NaNs)", np.inf, eager_error, 0.0)
    error = np.abs(wide[finite] - wanted[finite]).max(initial=0.0)
    scale = np.abs(wanted[finite]).max(initial=0.0)
    bound = 1.5 * eager_error + dtype.eps * float(scale)
    return Check(name, float(error) if np.isfinite(error) else np.inf, eager_error, bound)


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
    """Check that the file of the weights has the bytes of the build."""
    path = weights_file(manifest, given)
    if path is None or manifest.weights_sha256 is None:
        return
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    if digest.hexdigest() != manifest.weights_sha256:
        raise VerifyError(
            f"verifying {manifest.signature.name}: {path} has sha256 {digest.hexdigest()[:16]}..., "
            f"the build recorded {manifest.weights_sha256[:16]}... The file is damaged or of "
            "another model; copy it again."
        )


def _wide(array: Array, dtype: DType) -> Array:
    is_bits = array.dtype.name == dtype.storage
    return (widen(array, dtype) if is_bits else array).astype(np.float64)
