"""``load``: a package's folder becomes a Model on a device."""

import itertools
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias, TypeVar
from warnings import warn

from .arrays.frameworks import stream_handle
from .checks.debugging import debug_mode
from .derive import WeightProgram
from .devices.cpu import CPU_TARGET, CpuDevice
from .devices.cuda import CudaDevice
from .devices.device import Device, active, is_host
from .devices.timing import hardware
from .errors import AotpackError, ArgumentError, DeviceError, PackageError, did_you_mean
from .files.checked import read_checked
from .graph.derivations import Derivations, joined
from .interface.keywords import COUNT, PATH, SWITCH, Values, naming_keywords
from .interface.package import LoadedMemory, Options, Package, Parts
from .manifest import Manifest, read_manifest
from .memory.adapters import factors_of
from .memory.layout import Loaded
from .memory.weight_files import sidecar_name_of, weights_file
from .model import Methods, Model, Program
from .plan import Form, Plan, flat
from .safetensors import parse_safetensors
from .torch_calls import TorchCalls
from .tuning_file import Tuning, best_form, form_name, read_tuning, why_unused

CONSTANTS = "constants.safetensors"
NO_PLAN = Plan((), (), ())
PlanFunctions: TypeAlias = tuple[Callable[..., Plan], Callable[[int], Plan] | None]
LoadedT = TypeVar("LoadedT", bound=Package)
_TEXT = "ptx_"  # begins the targets that the driver compiles
_numbers = itertools.count()
_VALUES = {
    "package": Values((*PATH, ModuleType), "the package's module, or its folder"),
    "weights": Values((*PATH, Mapping), "a safetensors file, or tensors by name"),
    "concurrency": COUNT,
    "tuning": Values(PATH, "a file of measured times"),
    **dict.fromkeys(("graphs", "check", "allow_jit"), SWITCH),
}


@naming_keywords(ArgumentError, "loading a model", _VALUES)
def load(
    package: str | Path | ModuleType,
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
) -> Any:
    """The packaged model, ready to be called; a package of several methods has them as attributes.

    ``device`` is a GPU's number, "cuda" (the first), "cpu", or an object with the methods of
    ``device.Device``. The default is the first GPU, or the CPU if the package has no code for a GPU
    of this machine. ``weights`` is a safetensors file or a mapping that replaces the package's
    weights. ``stream`` overrides the caller's current stream. ``concurrency`` bounds the calls in
    flight, each with a separate arena. ``tuning`` is a file of measured times, which select the
    quickest form of each launch on this device.

    On a GPU, repeated sizes run as CUDA graphs unless ``graphs`` is False. ``debug`` watches each
    launch: "sync" names the one that fails, "nan" the first that writes a NaN; the default is
    AOTPACK_DEBUG of the environment. With ``debug``, a call raises its own failed assertions.

    The file of the weights is read and checked against the hashes of the build unless ``check`` is
    False. A file that you name is checked if it has the name of the wheel's sidecar.
    A GPU that is newer than all code of the package runs its PTX, if it has any and ``allow_jit``
    is True: then the driver compiles every kernel, and may keep them in a cache on disk.
    """
    manifest = read_manifest(folder_of(package))
    options = Options(_handle(stream), concurrency, graphs, debug_mode(debug))
    times = _times(tuning)
    port = choose_device(manifest, device, allow_jit=allow_jit)
    _check_stream(manifest, stream, port)
    chosen = select(port, manifest.targets, allow_jit)
    _warn_of_unused(manifest, tuning, times, port, chosen[0])
    return _bound(_loaded(manifest, port, options, times, chosen), weights, check=check)


def choose_device(
    manifest: Manifest, device: int | str | Device | None, *, allow_jit: bool = False
) -> Device:
    """The port to the named device; by default to a GPU if possible."""
    if device is None:
        return _best_device(manifest, allow_jit=allow_jit)
    if hasattr(device, "type") and hasattr(device, "index"):
        device = str(device)  # a torch.device
    if isinstance(device, bool) or not isinstance(device, (int, str)):
        if isinstance(device, bool) or not hasattr(device, "select"):
            raise ArgumentError(
                f"loading a model: device is of type {type(device).__name__}; accepted: a GPU's "
                'number, "cuda:0", "cpu"'
            )
        return device
    if device == "cpu":
        return CpuDevice(manifest)
    device = "cuda:0" if device == "cuda" else device
    kind, _, number = str(device).rpartition(":")
    if kind not in ("", "cuda") or not number.isdecimal():
        raise ArgumentError(
            f'loading a model: device={device!r}; accepted: a GPU\'s number, "cuda:0", "cpu"'
            f"{_near_device(str(device))}"
        )
    if manifest.targets == (CPU_TARGET,):
        raise DeviceError(
            f"loading {manifest.signature.name} on cuda:{number}: the package was built for cpu "
            "alone. Build it with --target for your GPU too, or run it on processors: "
            'load(device="cpu"), on a command line --device cpu.'
        )
    try:
        return CudaDevice(int(number))
    except DeviceError as error:
        if CPU_TARGET not in manifest.targets:
            raise
        has = "The package has code for processors too"
        raise DeviceError(f'{error} {has}: load("cpu"), on a command line --device cpu.') from None


def _near_device(given: str) -> str:
    """What may be meant by a device that there is not."""
    if given.lower().startswith("gpu"):
        return '; did you mean "cuda:0"?'
    if given == "interpreter":
        return "; Triton's interpreter is a device of aotpack verify, which takes the wheel"
    return did_you_mean(given, ("cuda:0", "cpu"))


def _best_device(manifest: Manifest, *, allow_jit: bool) -> Device:
    if CPU_TARGET not in manifest.targets:
        try:
            return CudaDevice(0)
        except DeviceError as error:
            raise DeviceError(f"{error} For processors, build with --target cpu too.") from None
    if manifest.targets == (CPU_TARGET,):
        return CpuDevice(manifest)
    try:
        device = CudaDevice(0)
        select(device, manifest.targets, allow_jit)
    except DeviceError:
        return CpuDevice(manifest)
    return device


def select(device: Device, targets: Sequence[str], allow_jit: bool) -> tuple[str, int]:
    """The target that the device takes; PTX only where ``allow_jit`` says so."""
    if allow_jit:
        return device.select(targets)
    try:
        return device.select([target for target in targets if not target.startswith(_TEXT)])
    except DeviceError as error:
        try:
            text, _ = device.select([target for target in targets if target.startswith(_TEXT)])
        except DeviceError:
            raise error from None
        raise DeviceError(
            f"{error} Or load(allow_jit=True): then the driver compiles the package's "
            f"{text} text, which takes time at the first load."
        ) from None


def _handle(stream: Any) -> int | None:
    return None if stream is None else stream_handle(stream)


def _check_stream(manifest: Manifest, stream: Any, device: Device) -> None:
    """Refuse a stream beside a device that has none."""
    if stream is not None and is_host(device):
        raise ArgumentError(
            f"loading {manifest.signature.name}: a stream is given, and the model runs on "
            f"{device.name}, which has none. Leave stream out, or load on a GPU, such as device=0."
        )


def _times(tuning: str | Path | None) -> Tuning:
    """The measured times, if a file of them is given."""
    try:
        return {} if tuning is None else read_tuning(Path(tuning))
    except AotpackError as error:
        raise ArgumentError(f"loading a model: {error}") from None


def _warn_of_unused(
    manifest: Manifest, file: str | Path | None, times: Tuning, device: Device, target: str
) -> None:
    """Say of a file that it chooses nothing: the model is right, and as quick as without."""
    if file is None:
        return
    known = {key for one in manifest.entries.values() for key in one.choices}
    if reason := why_unused(times, (hardware(device), target), known):
        name = manifest.signature.name
        warn(
            f"loading {name}: the tuning file {file} chooses nothing: {reason}",
            RuntimeWarning,
            stacklevel=4,
        )


def folder_of(package: str | Path | ModuleType) -> Path:
    """The folder of a package that is given as a path or as an imported module."""
    if isinstance(package, ModuleType):
        if package.__file__ is None:
            raise PackageError(f"loading {package.__name__}: the module has no folder")
        return Path(package.__file__).parent
    return Path(package)


def _loaded(
    manifest: Manifest, device: Device, options: Options, times: Tuning, chosen: tuple[str, int]
) -> Model | Methods:
    """The package on the device, with the quickest forms by ``times``; ``chosen`` is the target."""
    target, arch = chosen
    entries = manifest.entries
    functions = {name: _plan_functions(one) for name, one in entries.items()}
    try:
        with active(device):
            kernels = _load_kernels(manifest, device, target)
            calls = TorchCalls(manifest, device) if manifest.calls else None
            derivations = _derivations(manifest, functions, arch)
            manifest = replace(manifest, derived=derivations.derived)
            program = (
                WeightProgram(manifest, derivations.plan, kernels, device, options.debug)
                if derivations.derived
                else None
            )
    except BaseException:
        device.close()
        raise
    parts = Parts(manifest, device, target, arch, kernels, program, options, calls)
    programs = {}
    for name, own in entries.items():
        plan, _ = functions[name]
        plan = _tuned(parts, plan, times) if own.choices and times else plan
        names = {weight.name: weight.name for weight in own.weights} | {**derivations.names[name]}
        programs[name] = Program(own, plan, names if name else None)
    held = LoadedMemory(parts)
    return Methods(held, programs) if manifest.methods else Model(held, programs[""])


def _derivations(
    manifest: Manifest, functions: Mapping[str, PlanFunctions], arch: int
) -> Derivations:
    """The weight programs of all methods; that of an only one as it is."""
    plans = {name: derive(arch) for name, (_, derive) in functions.items() if derive}
    if not manifest.methods:
        return Derivations(plans.get("", NO_PLAN), manifest.derived, {"": {}})
    found = joined(
        {name: (plan, manifest.methods[name].derived) for name, plan in plans.items()},
        manifest.kernels,
    )
    return replace(found, names={name: found.names.get(name, {}) for name in functions})


def _tuned(parts: Parts, plan: Callable[..., Plan], tuning: Tuning) -> Callable[..., Plan]:
    """The plan function with the quickest forms on this device."""
    choices = tuning.get((hardware(parts.device), parts.target), {})

    def pick(key: str, *forms: Form) -> Form:
        loaded = [all(launch.kernel in parts.kernels for launch in flat(form)) for form in forms]
        usable = [form for form, has in zip(forms, loaded, strict=True) if has]
        return usable[best_form(choices.get(key, ()), list(map(form_name, usable))) or 0]

    return partial(plan, pick=pick)


def _load_kernels(manifest: Manifest, device: Device, target: str) -> dict[str, Loaded]:
    kernels = {
        name: kernel for name, kernel in manifest.kernels.items() if target in kernel.binaries
    }
    digests = {b.file: b.sha256 for b in (k.binaries[target] for k in kernels.values())}
    codes = {file: read_checked(manifest.folder, file, sha) for file, sha in digests.items()}
    return {
        name: Loaded(kernel, binary, device.load(kernel, binary, codes[binary.file]))
        for name, kernel in kernels.items()
        for binary in (kernel.binaries[target],)
    }


def _bound(
    model: LoadedT, weights: str | Path | Mapping[str, Any] | None, *, check: bool
) -> LoadedT:
    """The model with constants and weights; closed if they cannot be bound."""
    try:
        _bind_constants(model)
        _bind_weights(model, weights, check=check)
    except BaseException:
        model.close()
        raise
    return model


def _bind_weights(
    model: Package, weights: str | Path | Mapping[str, Any] | None, *, check: bool
) -> None:
    if isinstance(weights, Mapping):
        model.bind_weights(weights)
        return
    manifest = model.manifest
    path = weights_file(manifest, None if weights is None else Path(weights))
    if path is not None:
        is_own = weights is None or path.name == sidecar_name_of(manifest)
        digests = manifest.weights_chunks if check and is_own else ()
        model._bind(path, strict=True, digests=digests, is_own=is_own)


def _bind_constants(model: Package) -> None:
    """Bind the constants, which no checkpoint has, from the package."""
    manifest = model.manifest
    content = read_checked(manifest.folder, CONSTANTS, manifest.constants_sha256)
    if any(weight.constant for weight in manifest.weights):
        tensors = parse_safetensors(content, manifest.folder / CONSTANTS)
        model._bind(tensors, strict=False, is_own=True)
        model._weights.keep_factors(factors_of(tensors, manifest.weights))


def _plan_functions(
    manifest: Manifest,
) -> PlanFunctions:
    """``plan`` and ``derive`` of a method's wrapper, with this runtime as its ``._runtime``.

    The checked bytes are compiled: bytecode that lies beside the file is never run.
    """
    file = manifest.wrapper_file
    content = read_checked(manifest.folder, file, manifest.wrapper_sha256 or "")
    name = f"_aotpack_package_{next(_numbers)}"
    wanted = "plan() and derive()" if manifest.derived else "plan()"
    package, wrapper = ModuleType(name), ModuleType(f"{name}.wrapper")
    package.__path__ = []
    wrapper.__file__, wrapper.__package__ = str(manifest.folder / file), name
    sys.modules[name] = package
    sys.modules[f"{name}._runtime"] = sys.modules[__package__]
    try:
        exec(compile(content, wrapper.__file__, "exec", dont_inherit=True), vars(wrapper))
        derive = wrapper.derive if manifest.derived else None
        plan: Callable[..., Plan] = wrapper.plan
    except (AttributeError, ImportError, SyntaxError, ValueError) as error:
        raise PackageError(
            f"loading the package in {manifest.folder}: {file} does not define {wanted} for "
            f"this runtime ({error}). Reinstall the package: its files are of different builds."
        ) from None
    finally:
        del sys.modules[name], sys.modules[f"{name}._runtime"]
    return plan, derive
