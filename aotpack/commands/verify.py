"""Check a wheel: its files, its answers on golden data, and that a call compiles nothing."""

import argparse
import json
from pathlib import Path
from typing import Any

from aotpack.commands.model_options import add_trace_options, load_source
from aotpack.commands.shipped import IMPORT, WEIGHTS, shipped_runtime
from aotpack.commands.wheel_file import unpacked, weights_of
from aotpack.errors import UsageError, VerifyError
from aotpack.stages import Golden


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``aotpack verify``."""
    parser.add_argument("wheel", metavar="WHEEL", type=Path, help="a wheel that aotpack built")
    parser.add_argument("--import", **IMPORT)
    parser.add_argument("--weights", **WEIGHTS)
    parser.add_argument(
        "--against", dest="model", metavar="MODEL", help="compare with this model run eagerly"
    )
    parser.add_argument(
        "--device",
        choices=("cuda", "cpu", "interpreter"),
        help="the first GPU, the processors, or Triton's interpreter (default: what load() takes)",
    )
    add_trace_options(parser, "with --against, as MODEL was built")


def run(options: argparse.Namespace) -> int:
    """Print the checks; 1 when one of them fails."""
    with unpacked(options.wheel) as package:
        weights = weights_of(options.wheel, package, options.weights)
        if options.model is not None:
            record_eager(options, package)
        with shipped_runtime(package, options.imports) as runtime:
            port = device_port(options.device, package)
            report = runtime.verify(package, port, weights=weights)
    print(report)
    if not report.is_passed:
        where = f" on {options.device}" if options.device else ""
        raise VerifyError(f"{options.wheel} failed the checks above{where}")
    return 0


def device_port(name: str | None, package: Path) -> Any:
    """The first GPU's number, "cpu", the interpreter over the kernel texts, or None to choose."""
    if name != "interpreter":
        return 0 if name == "cuda" else name
    from aotpack.precompile.interpreter import InterpreterDevice  # imports triton

    return InterpreterDevice(package)


def record_eager(options: argparse.Namespace, package: Path) -> None:
    """Put what the model computes now in the place of the golden data recorded at the build."""
    from aotpack.emit.package import golden_content  # the next import takes torch's seconds
    from aotpack.pipeline import Between, to_traced

    golden = to_traced(load_source(options), Between()).golden
    golden_content(golden).write(package)
    file = package / "manifest.json"
    manifest = json.loads(file.read_bytes())
    _check_alike(options, golden, manifest)
    manifest["golden"]["eager_errors"] = list(golden.eager_errors)
    file.write_text(json.dumps(manifest))


def _check_alike(options: argparse.Namespace, golden: Golden, manifest: dict[str, Any]) -> None:
    """Refuse a model that takes or returns something else than the wheel."""
    theirs = {
        "inputs": [name for name, *_ in golden.inputs],
        "outputs": [name for name, *_ in golden.outputs],
        "updates": [name for name, *_ in golden.updates],
    }
    ours = {what: [tensor["name"] for tensor in manifest[what]] for what in ("inputs", "outputs")}
    ours["updates"] = manifest["updates"]
    for what, names in ours.items():
        if names != theirs[what]:
            raise UsageError(
                f"verifying {options.wheel}: its {what} are {', '.join(names) or 'none'}, those of "
                f"{options.model} are {', '.join(theirs[what]) or 'none'}; give the model it was "
                "built of"
            )
