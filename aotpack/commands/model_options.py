"""The options of build, show and verify that name the model and configure tracing."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aotpack.errors import TraceError, UsageError
from aotpack.ir.dtypes import CAST_TYPES, read_cast
from aotpack.ir.ops.quantization import Quantization, read_quantization

if TYPE_CHECKING:
    from aotpack.pipeline import BuildOptions, Source

MODEL_FILES = frozenset(
    {".py", ".pt2", ".pt", ".pth", ".bin", ".ckpt", ".safetensors", ".gguf", ".onnx"}
)
"""The endings of files that hold models or weights; not all of them are accepted."""

MODEL_HELP = "model.py, model.py:attr, package.module:attr or model.pt2"


def add_trace_options(whole: argparse.ArgumentParser, title: str | None = None) -> None:
    """Options of the first stages; with a title, as a group of their own."""
    parser = whole if title is None else whole.add_argument_group(title)
    parser.add_argument(
        "--dynamic",
        action="append",
        default=[],
        metavar="ARG:AXIS=NAME[LOW:HIGH]",
        help="a dynamic dimension, such as x:0=batch[1:64]; without a range, from 1 on; repeatable",
    )
    _add_weight_types(parser)
    parser.add_argument("--strict", action="store_true", help="torch.export's strict mode")
    parser.add_argument(
        "--deterministic",
        action="store_true",
        help="equal bits in every run and batch: no atomics on floats, one tile for all sizes",
    )
    _add_precisions(parser)
    parser.add_argument(
        "--check-indices",
        action="store_true",
        help="assert in each call that positions read from tensors are in range",
    )
    parser.add_argument(
        "--repeat-layers",
        action="store_true",
        help="equal layers as calls of one body: a quicker build and a smaller wheel",
    )
    parser.add_argument(
        "--fallback",
        choices=("error", "torch"),
        default="error",
        help="what becomes of operators without a lowering: refused, or run by torch, which the "
        "wheel then requires (default error)",
    )


def trace_options_given(options: argparse.Namespace) -> list[str]:
    """The tracing options that differ from their defaults, as on the command line."""
    parser = argparse.ArgumentParser(add_help=False)
    add_trace_options(parser)
    defaults = vars(parser.parse_args([]))
    differing = [name for name, value in defaults.items() if getattr(options, name) != value]
    return [f"--{name.replace('_', '-')}" for name in differing]


def _add_weight_types(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--dtype",
        type=_cast_name,
        choices=tuple(map(str, CAST_TYPES)),
        help="cast weights and floating inputs first",
    )
    parser.add_argument(
        "--quantize",
        type=_quantization,
        metavar="int8|int4|fp8[:group=N]",
        help="weights of linear layers and embeddings as codes with scales (int4: groups of 128)",
    )


def _add_precisions(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--precision",
        choices=("default", "strict"),
        default="default",
        help="strict: each operator rounds its result to its type, as eager does",
    )
    parser.add_argument(
        "--fp32-precision",
        choices=("ieee", "tf32"),
        default="ieee",
        help="tf32: matrix units of GPUs take float32 factors of products with 10 bits of mantissa",
    )


def _cast_name(text: str) -> str:
    """The name of a type, for argparse."""
    try:
        return str(read_cast(text))
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _quantization(text: str) -> Quantization | None:
    """A way to quantise, for argparse."""
    try:
        return read_quantization(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def check_file(spec: str) -> None:
    """Refuse a file that is not there, of any kind of files with models."""
    place = Path(spec.rpartition(":")[0] if spec.rpartition(":")[0].endswith(".py") else spec)
    if place.suffix in MODEL_FILES and not place.exists():
        raise UsageError(f"loading {place}: no such file; {MODEL_HELP} is accepted")


def load_source(
    options: argparse.Namespace, name: str | None = None, version: str | None = None
) -> "Source":
    """The model that ``options.model`` names, with the command line's changes."""
    check_file(options.model)
    from aotpack.pipeline import Source  # imports torch, which takes seconds: check options first
    from aotpack.trace import load_model, merge_dynamic, parse_dynamic, replaced_sizes

    extra = parse_dynamic(options.dynamic)
    loaded = load_model(options.model)
    dynamic = loaded.dynamic_shapes
    notes: tuple[str, ...] = ()
    if isinstance(loaded.module, Mapping):
        if extra:
            raise UsageError(
                f"--dynamic {options.dynamic[0]}: {options.model} has several methods; give each "
                "its own: Method(module, inputs, dynamic_shapes=...)"
            )
    elif extra:
        model = loaded.module, loaded.args, loaded.kwargs
        notes = replaced_sizes(merge_dynamic(*model, dynamic, {}), extra)
        try:
            dynamic = merge_dynamic(*model, dynamic, extra)
        except TraceError as error:  # without these the model file's are right
            raise UsageError(f"--dynamic {' --dynamic '.join(options.dynamic)}: {error}") from error
    return Source(
        module=loaded.module,
        args=loaded.args,
        kwargs=loaded.kwargs,
        dynamic_shapes=dynamic,
        name=name or loaded.name,
        version=version or loaded.version,
        file=loaded.file,
        sha256=loaded.sha256,
        notes=notes,
    )


def read_options(options: argparse.Namespace, **others: Any) -> "BuildOptions":
    """The command line's options of the first stages, and ``others`` of later ones."""
    from aotpack.pipeline import BuildOptions

    return BuildOptions(
        dtype=read_cast(options.dtype),
        quantize=options.quantize,
        strict=options.strict,
        fallback=options.fallback,
        deterministic=options.deterministic,
        precision=options.precision,
        fp32_precision=options.fp32_precision,
        check_indices=options.check_indices,
        repeat_layers=options.repeat_layers,
        **others,
    )
