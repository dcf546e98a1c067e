"""What a build is made of and how: its source and its options."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from aotpack.devices import H200, Gpu
from aotpack.emit import Inputs
from aotpack.errors import UsageError
from aotpack.ir.dtypes import DType, read_cast
from aotpack.ir.golden import SIZE
from aotpack.ir.ops.quantization import Quantization, read_quantization
from aotpack.ir.user_passes import UserPass, read_passes
from aotpack.render import FIRST_FORMS
from aotpack.runtime.interface.keywords import COUNT, PATH, SWITCH, Values
from aotpack.schedule import Partition
from aotpack.stages import Decisions
from aotpack.target import CPU, INTERPRETER, Target
from aotpack.trace import inputs_beside

FALLBACKS = ("error", "torch")
PRECISIONS = ("default", "strict")
FP32_PRECISIONS = ("ieee", "tf32")
_SWITCHES = ("strict", "deterministic", "check_indices", "repeat_layers", "graphs")
VALUES = {
    "name": Values((str,), "a name, such as bert-base"),
    "targets": Values((str, Iterable), "targets, such as ['cpu', 'sm_90']"),
    "target": Values((str,), "one target, such as 'sm_90'"),
    "out": Values(PATH, "a folder"),
    "jobs": COUNT,
    "cpu_arch": Values((str,), "a processor, such as 'x86-64-v3'"),
    "candidates": COUNT,
    "tuning": Values(PATH, "a file of aotpack tune"),
    **dict.fromkeys(_SWITCHES, SWITCH),
}
"""What ``build`` and ``compile`` check before all else; other options have more to say."""


@dataclass(frozen=True, slots=True)
class Source:
    """The input of a build: a module with example inputs, or methods; a name and a version."""

    module: Any  # an nn.Module, an ExportedProgram, or Methods by name
    args: tuple[Any, ...] = ()
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

    ``dtype`` casts weights and floating inputs first; then ``quantize`` makes codes of weights.
    ``strict`` is torch.export's strict mode.
    ``check_indices`` asserts that positions read from data are in range.
    ``deterministic`` fixes the order of float sums at some cost (``schedule``). With ``precision``
    "strict" each operator's result is rounded to its type, as in eager; by default that of a 16-bit
    operator may be kept wider inside a kernel (``docs/guide/accuracy.md``). With
    ``fp32_precision`` "tf32" GPUs round float32 factors of products. ``repeat_layers`` makes
    repeated layers calls of one body. ``passes`` change the lowered program, ``partition`` says
    which kernels share a launch. ``fallback`` "torch" leaves operators without a lowering to torch,
    "error" refuses them. ``gpu`` is the device whose thresholds schedules use (``devices.py``).
    ``decisions`` are the number of forms of a kernel in a package, and the measured best forms.
    """

    targets: tuple[Target, ...] = ()
    dtype: DType | None = None
    quantize: Quantization | None = None
    strict: bool = False
    check_indices: bool = False
    passes: tuple[UserPass, ...] = ()
    fallback: str = "error"
    golden: float = SIZE
    deterministic: bool = False
    precision: str = "default"
    fp32_precision: str = "ieee"
    repeat_layers: bool = False
    partition: Partition | None = None
    gpu: Gpu = H200
    decisions: Decisions = FIRST_FORMS
    jobs: int | None = None
    cpu_arch: str | None = None
    weights: str = "embed"
    out: Path = Path("dist")

    def __post_init__(self) -> None:
        for name, accepted in (
            ("fallback", FALLBACKS),
            ("precision", PRECISIONS),
            ("fp32_precision", FP32_PRECISIONS),
        ):
            found = getattr(self, name)
            if found not in accepted:
                raise UsageError(
                    f"{name}={found!r}; accepted are {' and '.join(map(repr, accepted))}"
                )

    @property
    def products(self) -> str:
        """The ``fp32_precision`` of the package: processors compute with all bits."""
        has_gpu = any(target != CPU for target in self.targets)
        return self.fp32_precision if has_gpu else "ieee"


def shared_options(
    dtype: Any,
    quantize: str | None,
    passes: Iterable[UserPass],
    fallback: str,
    partition: Partition | None,
    strict: bool,
    check_indices: bool,
    deterministic: bool,
    precision: str,
    fp32_precision: str,
    repeat_layers: bool,
) -> BuildOptions:
    """Read the options that ``build`` and ``compile`` share."""
    return BuildOptions(
        dtype=read_cast(dtype),
        quantize=read_quantization(quantize),
        strict=strict,
        check_indices=check_indices,
        passes=read_passes(passes),
        fallback=fallback,
        deterministic=deterministic,
        partition=partition,
        precision=precision,
        fp32_precision=fp32_precision,
        repeat_layers=repeat_layers,
    )


def given_source(
    module: Any,
    args: tuple[Any, ...] | None,
    kwargs: Mapping[str, Any] | None,
    dynamic_shapes: Any,
    name: str = "model",
    version: str = "0.1.0",
) -> Source:
    """The source of a build; refuses example inputs beside methods, and a lack of them."""
    args, kwargs = inputs_beside(module, args, kwargs, dynamic_shapes, f"packaging {name}")
    return Source(module, args, kwargs, dynamic_shapes, name, version)


def provenance_inputs(source: Source, options: BuildOptions) -> Inputs:
    """What the provenance says of the caller; places and the number of processes do not matter."""
    left_out = ("targets", "out", "jobs", "gpu")
    chosen = {one.name: getattr(options, one.name) for one in fields(options)}
    asked = {name: value for name, value in chosen.items() if name not in left_out}
    model = None if source.file is None else source.file.name
    return Inputs(model, source.sha256, {**asked, "gpu": options.gpu.name})


def chosen_target(text: str, device: int | None) -> Target:
    """The target of ``compile``; UsageError for several, or a GPU's number beside none."""
    if "," in text or text.strip().lower() == "all":
        raise UsageError(
            f"compiling a model: target={text!r} is several targets; compile takes one, that of "
            "this machine, such as 'cpu' or 'native'; aotpack.build takes several, as targets=..."
        )
    target = Target.parse(text)
    if target in (CPU, INTERPRETER) and device is not None:
        raise UsageError(
            f"compiling a model: device={device!r} is given for the target {target}, which runs on "
            "no GPU; leave device out, or give target='native' or that of a GPU, such as 'sm_90'"
        )
    return target
