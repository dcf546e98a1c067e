"""The table of contents: six calls turn a model into a wheel, each inside one hook."""

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram

from aotpack.devices import H200, Gpu
from aotpack.emit import Inputs, check_folder, emit, write_package
from aotpack.emit.names import Identity
from aotpack.errors import UsageError
from aotpack.instrumentation import Instrumentation
from aotpack.ir.dtypes import DType, read_cast
from aotpack.ir.golden import SIZE, read_golden
from aotpack.ir.passes import AfterPass
from aotpack.ir.user_passes import UserPass, apply_passes, read_passes
from aotpack.lower import LOWERINGS, lower
from aotpack.precompile import check_build, precompile
from aotpack.precompile.interpreter.device import InterpreterDevice
from aotpack.precompile.user_kernels import UserKernels
from aotpack.render import FIRST_FORMS, render, reserved_names
from aotpack.runtime import Model, load
from aotpack.runtime.interface.keywords import naming_keywords
from aotpack.schedule import Partition, schedule
from aotpack.stages import Decisions, Emitted, Lowered, Precompiled, Rendered, Scheduled, Traced
from aotpack.target import CPU, DEFAULT_TARGETS, INTERPRETER, Target, parse_targets
from aotpack.temporary import temporary_folder
from aotpack.trace import register_lowering as register_lowering
from aotpack.trace import trace
from aotpack.tune import read_decisions

FALLBACKS = ("error", "torch")
PRECISIONS = ("default", "strict")


@dataclass(frozen=True, slots=True)
class Source:
    """The input of a build: a module, example inputs, and the package's name and version."""

    module: nn.Module | ExportedProgram
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] | None = None
    dynamic_shapes: Any = None
    name: str = "model"
    version: str = "0.1.0"
    file: Path | None = None  # what defines the model, for the provenance
    sha256: str | None = None  # of the file, as it was before it was read
    notes: tuple[str, ...] = ()  # what the command line says otherwise than the file


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """The options of a build, from the command line or Python.

    ``dtype`` casts weights and floating inputs first, ``strict`` is torch.export's strict mode.
    ``check_indices`` asserts that positions read from data are in range.
    ``deterministic`` fixes the order of float sums at some cost (``schedule``). With ``precision``
    "strict" each operator's result is rounded to its type, as in eager; by default that of a 16-bit
    operator may be kept wider inside a kernel (``docs/guide/accuracy.md``). ``passes`` change
    the lowered program, ``partition`` says which kernels share a launch. ``fallback`` "torch"
    leaves operators without a lowering to torch, "error" refuses them. ``gpu`` is the device whose
    thresholds schedules use (``devices.py``). ``decisions`` are the number of forms of a kernel in
    a package, and the measured best forms.
    """

    targets: tuple[Target, ...] = ()
    dtype: DType | None = None
    strict: bool = False
    check_indices: bool = False
    passes: tuple[UserPass, ...] = ()
    fallback: str = "error"
    golden: float = SIZE
    deterministic: bool = False
    precision: str = "default"
    partition: Partition | None = None
    gpu: Gpu = H200
    decisions: Decisions = FIRST_FORMS
    jobs: int | None = None
    cpu_arch: str | None = None
    weights: str = "embed"
    out: Path = Path("dist")

    def __post_init__(self) -> None:
        for name, accepted in (("fallback", FALLBACKS), ("precision", PRECISIONS)):
            found = getattr(self, name)
            if found not in accepted:
                raise UsageError(
                    f"{name}={found!r}; accepted are {' and '.join(map(repr, accepted))}"
                )


@dataclass(frozen=True)
class Build:
    """Six lazy stages, each of which takes the product of the one before."""

    source: Source
    options: BuildOptions = BuildOptions()
    hook: Instrumentation = field(default_factory=Instrumentation)

    @cached_property
    def identity(self) -> Identity:
        """What its package is installed by; UsageError for a name or version that is refused."""
        return Identity.of(self.source.name, self.source.version)

    @cached_property
    def traced(self) -> Traced:
        """The model as a graph of torch's operators."""
        return self.hook(
            "traced",
            trace,
            self.source.module,
            self.source.args,
            self.source.kwargs,
            dynamic_shapes=self.source.dynamic_shapes,
            name=self.source.name,
            version=self.source.version,
            dtype=self.options.dtype,
            strict=self.options.strict,
            check_indices=self.options.check_indices,
            whole=frozenset(LOWERINGS),
            triton=UserKernels(),
            reserved=reserved_names(),
            golden=self.options.golden,
            needs_weights=self.options.weights != "none",
        )

    @cached_property
    def lowered(self) -> Lowered:
        """The program of loop operations, after the user's passes."""
        return self.hook(
            "lowered",
            _lower,
            self.traced,
            self.options,
            self.hook.after_passes_of("lowered"),
        )

    @cached_property
    def scheduled(self) -> Scheduled:
        """The kernels in launch order, with their tiles and memory."""
        return self.hook(
            "scheduled",
            schedule,
            self.lowered,
            deterministic=self.options.deterministic,
            partition=self.options.partition,
            offers_unfused=self.options.decisions.looks_beyond_the_first,
            targets=self.options.targets,
            gpu=self.options.gpu,
            after=self.hook.after_passes_of("scheduled"),
        )

    @cached_property
    def rendered(self) -> Rendered:
        """The text of each kernel, and of the wrapper that launches them."""
        return self.hook(
            "rendered", render, self.scheduled, self.options.targets, self.options.decisions
        )

    @cached_property
    def precompiled(self) -> Precompiled:
        """The binaries for each target."""
        return self.hook(
            "precompiled",
            precompile,
            self.rendered,
            self.options.targets,
            jobs=self.options.jobs,
            progress=self.hook.reporter,
            cpu_arch=self.options.cpu_arch,
            fuses_products=self.options.precision != "strict",
        )

    @cached_property
    def emitted(self) -> Emitted:
        """The wheel; refuses outputs or targets that are impossible here before the first stage."""
        identity = self.identity
        check_build(self.options.targets, self.options.cpu_arch)
        check_folder(self.options.out, identity.name)
        return self.hook(
            "emitted",
            emit,
            self.precompiled,
            identity,
            self.options.out,
            weights=self.options.weights,
            inputs=_inputs(self.source, self.options),
        )


def _inputs(source: Source, options: BuildOptions) -> Inputs:
    """What the provenance says of the caller; places and the number of processes do not matter."""
    left_out = ("targets", "out", "jobs", "gpu")
    chosen = {one.name: getattr(options, one.name) for one in fields(options)}
    asked = {name: value for name, value in chosen.items() if name not in left_out}
    model = None if source.file is None else source.file.name
    return Inputs(model, source.sha256, {**asked, "gpu": options.gpu.name})


def _lower(traced: Traced, options: BuildOptions, after: AfterPass) -> Lowered:
    through_torch, is_strict = options.fallback == "torch", options.precision == "strict"
    lowered = lower(traced, through_torch=through_torch, is_strict=is_strict)
    return replace(lowered, program=apply_passes(lowered.program, options.passes, after))


@naming_keywords(UsageError)
def build(
    module: nn.Module | ExportedProgram,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    name: str = "model",
    version: str = "0.1.0",
    targets: str | Iterable[str] | None = None,
    out: str | Path = "dist",
    weights: str = "embed",
    jobs: int | None = None,
    cpu_arch: str | None = None,
    candidates: int = 1,
    tuning: str | Path | None = None,
    dtype: str | torch.dtype | None = None,
    strict: bool = False,
    deterministic: bool = False,
    passes: Iterable[UserPass] = (),
    partition: Partition | None = None,
    fallback: str = "error",
    check_indices: bool = False,
    precision: str = "default",
    golden: str | float = SIZE / 1e6,
) -> Path:
    """Package a module for the targets as one wheel in the folder ``out``; returns its path.

    It has ``candidates`` forms of each kernel; ``tuning`` is a file of ``aotpack tune``. ``dtype``
    is "bfloat16" or ``torch.bfloat16``. Others are those of ``BuildOptions``, ``golden`` in MB.
    """
    chosen = DEFAULT_TARGETS if targets is None else parse_targets(targets)
    how = _shared(
        dtype, strict, check_indices, passes, fallback, deterministic, partition, precision
    )
    how = replace(how, targets=chosen, jobs=jobs, cpu_arch=cpu_arch, weights=weights, out=Path(out))
    how = replace(how, decisions=read_decisions(tuning, candidates), golden=read_golden(golden))
    made = Build(Source(module, args, kwargs, dynamic_shapes, name, version), how)
    _ = made.emitted
    _warn_of(made.lowered.fallbacks)
    return made.emitted.wheel


@naming_keywords(UsageError)
def compile(
    module: nn.Module | ExportedProgram,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    target: str = "native",
    device: int | None = None,
    jobs: int | None = None,
    dtype: str | torch.dtype | None = None,
    strict: bool = False,
    deterministic: bool = False,
    fallback: str = "error",
    graphs: bool = True,
    passes: Iterable[UserPass] = (),
    partition: Partition | None = None,
    check_indices: bool = False,
    precision: str = "default",
) -> Model:
    """A loaded callable made by the same stages and run by the same runtime as a wheel.

    Options have their meaning in ``build``, ``graphs`` that in ``load``. The package is a temporary
    folder, which is removed on return: loading reads all of it. Nobody else can write there, so its
    weights are not checked.
    """
    chosen = Target.parse(target)
    how = _shared(
        dtype, strict, check_indices, passes, fallback, deterministic, partition, precision
    )
    options = replace(how, targets=(chosen,), jobs=jobs, golden=0)
    made = Build(Source(module, args, kwargs, dynamic_shapes), options)
    precompiled = _with_resident_weights(made.precompiled)
    _warn_of(made.lowered.fallbacks)
    with temporary_folder("compiling the model") as folder:
        write_package(precompiled, folder)
        return load(folder, _port(chosen, device), graphs=graphs, check=False)


def _with_resident_weights(product: Precompiled) -> Precompiled:
    """The product with all weights kept on the device: no file is left to read them again from."""
    weights = tuple(replace(weight, is_staged=False) for weight in product.rendered.weights)
    return replace(product, rendered=replace(product.rendered, weights=weights))


def _shared(
    dtype: str | torch.dtype | None,
    strict: bool,
    check_indices: bool,
    passes: Iterable[UserPass],
    fallback: str,
    deterministic: bool,
    partition: Partition | None,
    precision: str,
) -> BuildOptions:
    """Read the options that ``build`` and ``compile`` share."""
    return BuildOptions(
        dtype=read_cast(dtype),
        strict=strict,
        check_indices=check_indices,
        passes=read_passes(passes),
        fallback=fallback,
        deterministic=deterministic,
        partition=partition,
        precision=precision,
    )


def _warn_of(fallbacks: tuple[str, ...]) -> None:
    """Warn of the operators that torch will run."""
    if fallbacks:
        lines = "\n  ".join(fallbacks)
        warnings.warn(f"the package calls torch for\n  {lines}", stacklevel=4)


def _port(target: Target, device: int | None) -> int | str | InterpreterDevice | None:
    """The device on which ``compile`` loads a package for a target."""
    if target == INTERPRETER:
        return InterpreterDevice()
    return "cpu" if target == CPU else device
