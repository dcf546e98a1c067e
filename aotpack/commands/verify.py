"""Check a wheel: its files, its results on golden data, and that a call compiles nothing."""

import argparse
import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from aotpack.commands.model_options import (
    add_trace_options,
    load_source,
    read_options,
    trace_options_given,
)
from aotpack.commands.shipped import IMPORT, WEIGHTS, shipped_runtime
from aotpack.commands.signatures import signed
from aotpack.commands.wheel_file import unpacked, weights_of
from aotpack.errors import UsageError, VerifyError
from aotpack.runtime.command import device_of
from aotpack.runtime.manifest import read_manifest
from aotpack.stages import PerMethod
from aotpack.target import CPU, INTERPRETER, Target


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
        type=_device,
        help='a GPU\'s number, "cpu", or "interpreter": Triton\'s, which runs what each GPU'
        " target runs, in turn (default: a GPU if there is one)",
    )
    parser.add_argument(
        "--key",
        metavar="FILE",
        type=Path,
        help="a public key: the wheel must be signed with it (aotpack sign)",
    )
    add_trace_options(parser, "with --against, as MODEL was built")


def _device(text: str) -> int | str:
    device = device_of(text)
    if isinstance(device, int) or device in ("cpu", "interpreter"):
        return device
    raise argparse.ArgumentTypeError(
        f"found {text!r}, accepted are a GPU's number, cuda:0, cpu and interpreter"
    )


def run(options: argparse.Namespace) -> int:
    """Print the checks; 1 when one of them fails. Nothing of an unsigned wheel is run."""
    given = trace_options_given(options)
    if options.model is None and given:
        raise UsageError(
            f"verifying {options.wheel}: {given[0]} says how the model of --against is traced, and "
            f"there is no --against; leave {given[0]} out, or give --against MODEL"
        )
    with (
        signed(options.wheel, options.key) as content,
        unpacked(options.wheel, content) as package,
    ):
        weights = weights_of(options.wheel, package, options.weights)
        if options.model is not None:
            record_eager(options, package)
        with shipped_runtime(package, options.imports) as runtime:
            _check_device(options, package)
            for where, port in devices(options.device, package):
                report = runtime.verify(package, port, weights=weights)
                print(f"on {where or report.device}:\n{report}")
                if not report.is_passed:
                    place = f" on {where}" if where else ""
                    raise VerifyError(
                        f"{options.wheel} failed the checks above{place}{_hint(options)}"
                    )
    return 0


def _hint(options: argparse.Namespace) -> str:
    """What else than a wrong kernel may be the cause."""
    if options.model is None and options.weights is None:
        return ""
    return (
        "; the weights must be those of the build: a model file that draws them anew in each run "
        "calls torch.manual_seed first"
    )


def _check_device(options: argparse.Namespace, package: Path) -> None:
    """Refuse the interpreter for a wheel without kernels that it could run."""
    targets = read_manifest(package).targets
    if options.device == "interpreter" and targets == (str(CPU),):
        raise UsageError(
            f"verifying {options.wheel}: --device interpreter runs kernels of GPU targets, and the "
            "wheel was built for cpu alone, whose kernels are C; give --device cpu, or build it "
            "with --target interpreter too"
        )


def devices(name: int | str | None, package: Path) -> Iterator[tuple[str, Any]]:
    """Pairs of a label and a device: a GPU's number, "cpu", None for the default, interpreters.

    The interpreter runs the plan and kernels of each GPU target, which may differ; a package built
    for the interpreter runs only that target's.
    """
    if name != "interpreter":
        yield f"GPU {name}" if isinstance(name, int) else name or "", name
        return
    from aotpack.precompile.interpreter.device import InterpreterDevice  # imports triton

    built_for = read_manifest(package).targets
    targets = [text for text in built_for if text.startswith("sm_")]
    if str(INTERPRETER) in built_for or not targets:
        yield name, InterpreterDevice(package)
        return
    for target in targets:
        yield f"{name}, as {target}", InterpreterDevice(package, Target.parse(target))


def record_eager(options: argparse.Namespace, package: Path) -> None:
    """Replace the golden data of the build by data recorded now."""
    from aotpack.commands.alike import check_alike, check_weights
    from aotpack.emit.manifest import golden_facts
    from aotpack.emit.package import golden_content, reseal
    from aotpack.pipeline import build_of  # imports torch, which takes seconds

    how = read_options(options, golden=math.inf)
    traced = build_of(load_source(options), how).traced
    found = traced.methods if isinstance(traced, PerMethod) else {"": traced}
    entries = read_manifest(package).entries
    if {*found} != {*entries}:
        raise UsageError(
            f"verifying {options.wheel}: it has {_methods(entries)}; {options.model} has "
            f"{_methods(found)}. Give the model it was built of"
        )
    doing = f"verifying {options.wheel}"
    file = package / "manifest.json"
    manifest = json.loads(file.read_bytes())
    for name, one in found.items():
        own = manifest["methods"][name] if name else manifest
        where = f"{doing}: method {name!r}" if name else doing
        check_alike(where, entries[name].signature, options.model, one)
        check_weights(where, entries[name].weights, options.model, one)
        golden_content(one.golden, entries[name].golden_file).write(package)
        own["golden"] = golden_facts(one.golden)
    file.write_text(json.dumps(manifest))
    reseal(package)
    for record in package.parent.glob("*.dist-info/RECORD"):
        record.unlink()  # of the wheel, which has been compared with it


def _methods(names: Iterable[str]) -> str:
    """The methods of a package or model, in words."""
    shown = ", ".join(names)
    return f"the methods {shown}" if shown else "one forward and no methods"
