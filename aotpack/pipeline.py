"""The table of contents: six calls turn a model into a wheel, each inside one hook."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram

from aotpack.emit import check_folder, emit, write_package
from aotpack.emit.names import Identity
from aotpack.errors import UsageError
from aotpack.instrumentation import Instrumentation
from aotpack.ir.golden import SIZE, read_golden
from aotpack.ir.packs import Packs, largest, packs_of
from aotpack.ir.user_passes import UserPass, apply_passes
from aotpack.lazy import lazy
from aotpack.lower import LOWERINGS, lower, refusal_of
from aotpack.notes import warned
from aotpack.options import VALUES, chosen_target, given_source, provenance_inputs, shared_options
from aotpack.options import BuildOptions as BuildOptions
from aotpack.options import Source as Source
from aotpack.precompile import check_build, precompile
from aotpack.precompile.interpreter.device import InterpreterDevice
from aotpack.precompile.user_kernels import UserKernels
from aotpack.render import join, render, reserved_names
from aotpack.runtime import Model, load
from aotpack.runtime.interface.keywords import naming_keywords
from aotpack.schedule import Partition, schedule
from aotpack.stages import (
    Emitted,
    Lowered,
    PerMethod,
    Precompiled,
    Rendered,
    Scheduled,
    Traced,
)
from aotpack.target import CPU, DEFAULT_TARGETS, INTERPRETER, Target, parse_targets
from aotpack.temporary import temporary_folder
from aotpack.trace import Method as Method
from aotpack.trace import TraceOptions, check_methods, trace_methods
from aotpack.trace import load_checkpoint as load_checkpoint
from aotpack.trace import register_lowering as register_lowering
from aotpack.trace import with_state as with_state
from aotpack.tune import read_decisions


@dataclass(frozen=True)
class PackageBuild(ABC):
    """The last stages, which all methods of a package go through together; each is lazy."""

    source: Source
    options: BuildOptions = field(default_factory=BuildOptions)
    hook: Instrumentation = field(default_factory=Instrumentation)

    @lazy
    def identity(self) -> Identity:
        """What its package is installed by; UsageError for a name or version that is refused."""
        return Identity.of(self.source.name, self.source.version)

    @property
    @abstractmethod
    def rendered(self) -> Rendered:
        """The text of each kernel, and of the wrappers that launch them."""

    @property
    @abstractmethod
    def fallbacks(self) -> tuple[str, ...]:
        """The operators that torch will run, with reasons."""

    @property
    @abstractmethod
    def quantized(self) -> tuple[str, ...]:
        """The layers that ``quantize`` changed, with their errors."""

    @property
    @abstractmethod
    def repeats(self) -> tuple[str, ...]:
        """The layers that are calls of one body, or why there are none, if that was asked."""

    @lazy
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

    @lazy
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
            inputs=provenance_inputs(self.source, self.options),
        )


@dataclass(frozen=True)
class Build(PackageBuild):
    """Six stages of a module, each of which takes the product of the one before."""

    @lazy
    def traced(self) -> Traced:
        """The model as a graph of torch's operators."""
        return self.hook("traced", _trace, self.source, self.options)

    @lazy
    def lowered(self) -> Lowered:
        """The program of loop operations, after the user's passes."""
        return self.hook("lowered", _lower, self.traced, self.options, self.hook)

    @lazy
    def scheduled(self) -> Scheduled:
        """The kernels in launch order, with their tiles and memory."""
        return self.hook("scheduled", _schedule, self.lowered, self.options, self.hook)

    @lazy
    def rendered(self) -> Rendered:
        """The text of each kernel, and of the wrapper that launches them."""
        return self.hook(
            "rendered", render, self.scheduled, self.options.targets, self.options.decisions
        )

    @property
    def fallbacks(self) -> tuple[str, ...]:
        """The operators that torch will run, with reasons."""
        return self.lowered.fallbacks

    @property
    def quantized(self) -> tuple[str, ...]:
        """The layers that ``quantize`` changed, with their errors."""
        return self.traced.quantized

    @property
    def repeats(self) -> tuple[str, ...]:
        """The layers that are calls of one body, or why there are none, if that was asked."""
        return self.lowered.repeats


@dataclass(frozen=True)
class MethodsBuild(PackageBuild):
    """The stages of a package with several methods: the first four for each of them."""

    @lazy
    def traced(self) -> PerMethod[Traced]:
        """Each method as a graph; tensors that they share have one name."""
        check_methods(self.source.name, self.source.module)
        return self.hook("traced", _trace_each, self.source, self.options)

    @lazy
    def lowered(self) -> PerMethod[Lowered]:
        """The program of each method."""
        return self.hook("lowered", _lower_each, self.traced, self.options, self.hook)

    @lazy
    def scheduled(self) -> PerMethod[Scheduled]:
        """The kernels of each method."""
        return self.hook("scheduled", _schedule_each, self.lowered, self.options, self.hook)

    @lazy
    def rendered(self) -> Rendered:
        """The text of all kernels, and of a wrapper for each method."""
        return self.hook("rendered", _render_each, self.scheduled, self.source, self.options)

    @property
    def fallbacks(self) -> tuple[str, ...]:
        """The operators that torch will run, with reasons."""
        each = (line for one in self.lowered.methods.values() for line in one.fallbacks)
        return tuple(dict.fromkeys(each))

    @property
    def quantized(self) -> tuple[str, ...]:
        """The layers that ``quantize`` changed, with their errors."""
        return next(iter(self.traced.methods.values())).quantized

    @property
    def repeats(self) -> tuple[str, ...]:
        """The layers of each method that are calls of one body, or why there are none."""
        each = self.lowered.methods.items()
        return tuple(f"{name}: {line}" for name, one in each for line in one.repeats)


def build_of(
    source: Source, options: BuildOptions, hook: Instrumentation | None = None
) -> Build | MethodsBuild:
    """The stages of a package, with one method or several."""
    kind = MethodsBuild if isinstance(source.module, Mapping) else Build
    return kind(source, options, hook or Instrumentation())


def _trace(source: Source, options: BuildOptions) -> Traced:
    whole = Method(source.module, source.args, source.kwargs, source.dynamic_shapes)
    return trace_methods({"": whole}, _trace_options(source, options))[""]


def _trace_each(source: Source, options: BuildOptions) -> PerMethod[Traced]:
    return PerMethod(trace_methods(source.module, _trace_options(source, options)))


def _trace_options(source: Source, options: BuildOptions) -> TraceOptions:
    return TraceOptions(
        name=source.name,
        version=source.version,
        dtype=options.dtype,
        quantize=options.quantize,
        strict=options.strict,
        check_indices=options.check_indices,
        whole=frozenset(LOWERINGS),
        refusal=refusal_of if options.fallback == "error" else None,
        triton=UserKernels(),
        reserved=reserved_names(),
        golden=options.golden,
        fp32_precision=options.products,
        needs_weights=options.weights != "none",
    )


def _lower(traced: Traced, options: BuildOptions, hook: Instrumentation) -> Lowered:
    after = hook.after_passes_of("lowered")
    through, is_strict = options.fallback == "torch", options.precision == "strict"
    lowered = lower(
        traced, through_torch=through, is_strict=is_strict, repeat_layers=options.repeat_layers
    )
    return replace(lowered, program=apply_passes(lowered.program, options.passes, after))


def _lower_each(
    traced: PerMethod[Traced], options: BuildOptions, hook: Instrumentation
) -> PerMethod[Lowered]:
    return PerMethod({n: _lower(one, options, hook) for n, one in traced.methods.items()})


def _schedule(
    lowered: Lowered,
    options: BuildOptions,
    hook: Instrumentation,
    state: frozenset[str] = frozenset(),
    packed: Packs = (),
) -> Scheduled:
    return schedule(
        lowered,
        deterministic=options.deterministic,
        partition=options.partition,
        offers_unfused=options.decisions.looks_beyond_the_first,
        targets=options.targets,
        gpu=options.gpu,
        fp32_precision=options.products,
        state=state,
        packed=packed,
        after=hook.after_passes_of("scheduled"),
    )


def _schedule_each(
    lowered: PerMethod[Lowered], options: BuildOptions, hook: Instrumentation
) -> PerMethod[Scheduled]:
    """Each method, beside what others change, and what those before it have packed."""
    signatures = [one.signature for one in lowered.methods.values()]
    state = frozenset(name for signature in signatures for name in signature.updates)
    packed: Packs = ()
    found: dict[str, Scheduled] = {}
    for name, one in lowered.methods.items():
        made = found[name] = _schedule(one, options, hook, state, packed)
        own = packs_of((weight.name, weight.follows) for weight in made.weights)
        packed = largest((*packed, *own))
    return PerMethod(found)


def _render_each(
    scheduled: PerMethod[Scheduled], source: Source, options: BuildOptions
) -> Rendered:
    each = scheduled.methods.items()
    made = {name: render(one, options.targets, options.decisions) for name, one in each}
    return join(source.name, source.version, made)


@naming_keywords(UsageError, "packaging a model", VALUES)
def build(
    module: nn.Module | ExportedProgram | Mapping[str, Method],
    args: tuple[Any, ...] | None = None,
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
    quantize: str | None = None,
    strict: bool = False,
    deterministic: bool = False,
    passes: Iterable[UserPass] = (),
    partition: Partition | None = None,
    fallback: str = "error",
    check_indices: bool = False,
    precision: str = "default",
    fp32_precision: str = "ieee",
    repeat_layers: bool = False,
    golden: str | float = SIZE / 1e6,
) -> Path:
    """Package a module, or methods by name, as one wheel in the folder ``out``; returns its path.

    ``tuning`` is a file of ``aotpack tune``, ``golden`` in MB; others are as in ``BuildOptions``.
    """
    chosen = DEFAULT_TARGETS if targets is None else parse_targets(targets)
    exact = strict, check_indices, deterministic, precision, fp32_precision, repeat_layers
    how = shared_options(dtype, quantize, passes, fallback, partition, *exact)
    how = replace(how, targets=chosen, jobs=jobs, cpu_arch=cpu_arch, weights=weights, out=Path(out))
    how = replace(how, decisions=read_decisions(tuning, candidates), golden=read_golden(golden))
    made = build_of(given_source(module, args, kwargs, dynamic_shapes, name, version), how)
    return warned(made.emitted.wheel, made.fallbacks, made.traced)


@naming_keywords(UsageError, "compiling a model", VALUES)
def compile(
    module: nn.Module | ExportedProgram | Mapping[str, Method],
    args: tuple[Any, ...] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    target: str = "native",
    device: int | None = None,
    jobs: int | None = None,
    dtype: str | torch.dtype | None = None,
    quantize: str | None = None,
    strict: bool = False,
    deterministic: bool = False,
    fallback: str = "error",
    graphs: bool = True,
    passes: Iterable[UserPass] = (),
    partition: Partition | None = None,
    check_indices: bool = False,
    precision: str = "default",
    fp32_precision: str = "ieee",
    repeat_layers: bool = False,
) -> Model:
    """A loaded callable made by the same stages and run by the same runtime as a wheel; of methods
    given by name, an object that has them as attributes.

    Options have their meaning in ``build``, ``graphs`` that in ``load``. The package is a temporary
    folder, which is removed on return: loading reads all of it. Nobody else can write there, so its
    weights are not checked.
    """
    chosen = chosen_target(target, device)
    exact = strict, check_indices, deterministic, precision, fp32_precision, repeat_layers
    how = shared_options(dtype, quantize, passes, fallback, partition, *exact)
    options = replace(how, targets=(chosen,), jobs=jobs, golden=0)
    made = build_of(given_source(module, args, kwargs, dynamic_shapes), options)
    resident = _with_resident_weights(made.precompiled)
    precompiled = warned(resident, made.fallbacks, made.traced)
    with temporary_folder("compiling the model") as folder:
        write_package(precompiled, folder, runtime=False)
        loaded: Model = load(folder, _port(chosen, device), graphs=graphs, check=False)
        return loaded


def _with_resident_weights(product: Precompiled) -> Precompiled:
    """The product with all weights kept on the device: no file is left to read them again from."""
    weights = tuple(replace(weight, is_staged=False) for weight in product.rendered.weights)
    return replace(product, rendered=replace(product.rendered, weights=weights))


def _port(target: Target, device: int | None) -> int | str | InterpreterDevice | None:
    """The device on which ``compile`` loads a package for a target."""
    if target == INTERPRETER:
        return InterpreterDevice()
    return "cpu" if target == CPU else device
