"""The table of contents: a model becomes a wheel in six calls, with one hook between them."""

import functools
import inspect
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import torch
from torch import nn
from torch.export import ExportedProgram

from aotpack.devices import H200, Gpu
from aotpack.emit import emit, write_package
from aotpack.emit.names import import_name, normal_version
from aotpack.errors import UsageError
from aotpack.ir.dtypes import DType, read_cast
from aotpack.ir.user_passes import Pass, apply_passes, read_passes
from aotpack.ir.verify.program import verify
from aotpack.ir.verify.schedule import verify_schedule
from aotpack.knobs import read_knobs
from aotpack.lower import LOWERINGS, lower
from aotpack.precompile import check_host, precompile
from aotpack.precompile.interpreter.device import InterpreterDevice
from aotpack.precompile.user_kernels import UserKernels
from aotpack.progress import Quiet, Reporter
from aotpack.render import FIRST_FORMS, render, reserved_names
from aotpack.runtime import Model, load
from aotpack.schedule import Partition, schedule
from aotpack.stages import Decisions, Emitted, Lowered, Precompiled, Rendered, Scheduled, Traced
from aotpack.target import CPU, DEFAULT_TARGETS, INTERPRETER, Target, parse_targets
from aotpack.trace import register_lowering as register_lowering
from aotpack.trace import trace
from aotpack.tune import read_decisions

Product = TypeVar("Product", Traced, Lowered, Scheduled, Rendered, Precompiled, Emitted)
Options = ParamSpec("Options")
Made = TypeVar("Made")
FALLBACKS = ("error", "torch")
STAGES = {  # products, and the verbs that make them
    "traced": "trace",
    "lowered": "lower",
    "scheduled": "schedule",
    "rendered": "render",
    "precompiled": "precompile",
    "emitted": "emit",
}


@dataclass(slots=True)
class Instrumentation:
    """What happens to each product before the next stage gets it: verified, dumped, timed."""

    reporter: Reporter = field(default_factory=Quiet)
    look: Callable[[str, Any], None] | None = None
    dump: Path | None = field(default_factory=lambda: read_knobs().dump)
    seconds: dict[str, float] = field(default_factory=dict)
    fallbacks: tuple[str, ...] = ()  # operators that torch will run, and why
    settled: tuple[tuple[str, str], ...] = ()  # (target, key) of what a tuning file decided

    def __call__(self, stage: str, make: Callable[[], Product]) -> Product:
        """Make a product and look at it."""
        self.reporter.begin(STAGES[stage])
        start = time.perf_counter()
        product = make()
        self.seconds[stage] = time.perf_counter() - start
        if isinstance(product, Lowered):
            verify(product.program)
            self.fallbacks = product.fallbacks
        if isinstance(product, Scheduled):
            for each in product.schedules:
                verify_schedule(each)
        if isinstance(product, Rendered):
            self.settled = product.settled
        if self.look is not None:
            self.look(stage, product)
        if self.dump is not None:
            self.dump.mkdir(parents=True, exist_ok=True)
            number = list(STAGES).index(stage) + 1
            (self.dump / f"{number:02}_{stage}.txt").write_text(product.as_text())
        return product


@dataclass(frozen=True, slots=True)
class Source:
    """What is built: a module with example inputs, how it is to be traced and scheduled.

    ``dtype`` casts weights and floating inputs first, ``strict`` is torch.export's strict mode.
    ``check_indices`` asserts that positions read from data are in range.
    ``deterministic`` fixes the order of float sums at some cost (``schedule``). ``passes`` change
    the lowered program, ``partition`` says which kernels share a launch. ``fallback`` "torch"
    leaves operators without a lowering to torch, "error" refuses them. ``gpu`` is the device whose
    thresholds schedules have (``devices.py``).
    """

    module: nn.Module | ExportedProgram
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] | None = None
    dynamic_shapes: Any = None
    name: str = "model"
    version: str = "0.1.0"
    dtype: DType | None = None
    strict: bool = False
    deterministic: bool = False
    passes: tuple[Pass, ...] = ()
    partition: Partition | None = None
    fallback: str = "error"
    check_indices: bool = False
    gpu: Gpu = H200

    def __post_init__(self) -> None:
        if self.fallback not in FALLBACKS:
            raise UsageError(
                f"building {self.name}: fallback={self.fallback!r}; accepted are "
                f"{' and '.join(map(repr, FALLBACKS))}"
            )


def to_traced(source: Source, between: Instrumentation) -> Traced:
    """The first stage."""
    return between(
        "traced",
        lambda: trace(
            source.module,
            source.args,
            source.kwargs,
            dynamic_shapes=source.dynamic_shapes,
            name=source.name,
            version=source.version,
            dtype=source.dtype,
            strict=source.strict,
            check_indices=source.check_indices,
            whole=frozenset(LOWERINGS),
            triton=UserKernels(),
            reserved=reserved_names(),
        ),
    )


def to_rendered(
    source: Source,
    targets: tuple[Target, ...],
    between: Instrumentation,
    decisions: Decisions = FIRST_FORMS,
) -> Rendered:
    """The first four stages."""
    traced = to_traced(source, between)
    through_torch = source.fallback == "torch"
    lowered = between(
        "lowered",
        lambda: _changed(lower(traced, through_torch=through_torch), source.passes),
    )
    scheduled = between(
        "scheduled",
        lambda: schedule(
            lowered,
            deterministic=source.deterministic,
            partition=source.partition,
            in_parts=decisions.looks_beyond_the_first,
            targets=targets,
            gpu=source.gpu,
        ),
    )
    return between("rendered", lambda: render(scheduled, targets, decisions))


def _changed(lowered: Lowered, passes: tuple[Pass, ...]) -> Lowered:
    return replace(lowered, program=apply_passes(lowered.program, passes))


def to_precompiled(
    source: Source,
    targets: tuple[Target, ...],
    between: Instrumentation,
    jobs: int | None = None,
    cpu_arch: str | None = None,
    decisions: Decisions = FIRST_FORMS,
) -> Precompiled:
    """The first five stages."""
    rendered = to_rendered(source, targets, between, decisions)
    return between(
        "precompiled",
        lambda: precompile(
            rendered, targets, jobs=jobs, progress=between.reporter, cpu_arch=cpu_arch
        ),
    )


def to_emitted(
    source: Source,
    targets: tuple[Target, ...],
    out: Path,
    between: Instrumentation,
    weights: str = "embed",
    jobs: int | None = None,
    cpu_arch: str | None = None,
    decisions: Decisions = FIRST_FORMS,
) -> Emitted:
    """All six stages; what cannot be emitted or compiled here is refused before the first."""
    import_name(source.name)
    normal_version(source.version)
    if CPU in targets:
        check_host(cpu_arch)
    precompiled = to_precompiled(source, targets, between, jobs, cpu_arch, decisions)
    return between("emitted", lambda: emit(precompiled, out, weights=weights))


def _naming_keywords(function: Callable[Options, Made]) -> Callable[Options, Made]:
    """The function, whose TypeError for a keyword it does not take names what it takes instead."""
    accepted = list(inspect.signature(function).parameters)

    @functools.wraps(function)
    def checked(*args: Options.args, **keywords: Options.kwargs) -> Made:
        for name in keywords:
            if name not in accepted:
                near = ", ".join(get_close_matches(name, accepted, 1) or accepted)
                raise TypeError(
                    f"{function.__name__}() takes no keyword {name!r}; accepted: {near}"
                )
        return function(*args, **keywords)

    return checked


@_naming_keywords
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
    passes: Iterable[Pass] = (),
    partition: Partition | None = None,
    fallback: str = "error",
    check_indices: bool = False,
) -> Path:
    """Package a module for the targets as one wheel in the folder ``out``; returns its path.

    It holds ``candidates`` forms of each kernel; ``tuning`` is what ``aotpack tune`` measured.
    ``dtype`` (``"bfloat16"`` or ``torch.bfloat16``) casts weights and floating inputs first;
    ``strict`` is torch.export's strict mode. ``deterministic``: equal bits in every run and batch.
    ``passes``, ``partition`` and ``check_indices`` are those of ``Source``. ``fallback`` "torch"
    runs what is not lowered.
    """
    chosen = DEFAULT_TARGETS if targets is None else parse_targets(targets)
    source = Source(module, args, kwargs, dynamic_shapes, name=name, version=version)
    source = replace(source, dtype=read_cast(dtype), strict=strict, deterministic=deterministic)
    source = replace(source, passes=read_passes(passes), partition=partition)
    source = replace(source, fallback=fallback, check_indices=check_indices)
    between, decisions = Instrumentation(), read_decisions(tuning, candidates)
    emitted = to_emitted(source, chosen, Path(out), between, weights, jobs, cpu_arch, decisions)
    _warn_of(between.fallbacks)
    return emitted.wheel


@_naming_keywords
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
    passes: Iterable[Pass] = (),
    partition: Partition | None = None,
    check_indices: bool = False,
) -> Model:
    """A loaded callable made by the same stages and run by the same runtime as a wheel.

    Options are what they are for ``build``; ``graphs`` is what it is for ``load``.
    Its package is a temporary folder, which is gone on return: loading reads all of it.
    """
    chosen = Target.parse(target)
    source = Source(
        *(module, args, kwargs, dynamic_shapes),
        dtype=read_cast(dtype),
        strict=strict,
        deterministic=deterministic,
        passes=read_passes(passes),
        partition=partition,
        fallback=fallback,
        check_indices=check_indices,
    )
    between = Instrumentation()
    precompiled = to_precompiled(source, (chosen,), between, jobs)
    _warn_of(between.fallbacks)
    with tempfile.TemporaryDirectory(prefix="aotpack-") as folder:
        write_package(precompiled, Path(folder))
        return load(folder, _port(chosen, device), graphs=graphs)


def _warn_of(fallbacks: tuple[str, ...]) -> None:
    """Say which operators torch will run, where nobody prints it."""
    if fallbacks:
        lines = "\n  ".join(fallbacks)
        warnings.warn(f"the package calls torch for\n  {lines}", stacklevel=4)


def _port(target: Target, device: int | None) -> int | str | InterpreterDevice | None:
    """Where ``compile`` loads what it made for a target."""
    if target == INTERPRETER:
        return InterpreterDevice()
    return "cpu" if target == CPU else device
