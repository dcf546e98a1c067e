"""The command ``python -m PACKAGE info|verify|bench|tune``."""

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from .arrays.device_array import DeviceArray
from .devices.device import Device, active, is_host
from .errors import AotpackError, ArgumentError, did_you_mean, printable, printable_lines
from .golden.data import read_golden
from .loading import load
from .manifest import Manifest, read_manifest
from .model import Method
from .safetensors import Stored
from .selftest import golden_arguments, verify
from .tensors import derived_text, weights_text
from .tuning.tune import tune_into

_WARMUP, _FEWEST, _MOST, _SECONDS = 5, 5, 100, 10  # warm-up calls, timed calls, time limit


def positive(text: str) -> int:
    """A whole number from 1, for argparse."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"found {text!r}, accepted is a whole number from 1")
    return int(text)


def weights_path(text: str) -> Path:
    """A file that is there, for argparse."""
    path = Path(text)
    if path.is_dir() or not path.exists():
        found = "it is a folder" if path.is_dir() else "no such file"
        raise argparse.ArgumentTypeError(f"{text}: {found}; a safetensors file is accepted")
    return path


class Parser(argparse.ArgumentParser):
    """Tells the words that are near those it does not know."""

    def options_of(self, words: Sequence[str] | None) -> argparse.Namespace:
        """The options that words give."""
        options, rest = self.parse_known_args(words)
        if rest:
            near = did_you_mean(rest[0].partition("=")[0], options.accepted)
            self.error(f"unrecognized arguments: {' '.join(rest)}{near}")
        return options

    @property
    def long_options(self) -> set[str]:
        """The options that begin with two dashes."""
        return {name for name in self._option_string_actions if name.startswith("--")}

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Called by argparse for what has ``choices``."""
        if action.choices is None or value in action.choices:
            return
        names = [*map(str, action.choices)]
        accepted = f"choose from {', '.join(names)}{did_you_mean(str(value), names)}"
        raise argparse.ArgumentError(action, f"invalid choice: {value!r}; {accepted}")


IMPORT: Mapping[str, Any] = {
    "dest": "imports",
    "action": "append",
    "default": [],
    "metavar": "MODULE",
    "help": "import this first: it defines operators that torch runs for the package; repeatable",
}
WEIGHTS: Mapping[str, Any] = {
    "metavar": "FILE",
    "type": weights_path,
    "help": "safetensors in place of the package's own",
}
REPEAT: Mapping[str, Any] = {
    "type": positive,
    "metavar": "N",
    "help": f"calls to time (default: {_MOST}, or what {_SECONDS} s allow, at least {_FEWEST})",
}


def main(package: str, argv: Sequence[str] | None = None) -> int:
    """Run the command line; ``package`` is the path of the package's ``__main__``."""
    folder = Path(package).parent
    options = _parser(folder.name).options_of(argv)
    try:
        code = _run(folder, options)
        sys.stdout.flush()
        return code
    except AotpackError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, ArgumentError) else 1
    except BrokenPipeError:  # the reader, such as head, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def _run(folder: Path, options: argparse.Namespace) -> int:
    """Run one verb."""
    if options.command == "info":
        return info(folder, as_json=options.json)
    import_first(options.imports)
    if options.command == "verify":
        report = verify(folder, device_of(options.device), weights=options.weights)
        print(f"on {report.device}:\n{report}")
        return 0 if report.is_passed else 1
    if options.command == "tune":
        device = device_of(options.device)
        tune_into(Path(options.out), folder, device, options.weights, print)
        return 0
    return bench(folder, device_of(options.device), options.weights, options.repeat)


def info(folder: Path, *, as_json: bool) -> int:
    """Print the manifest, or a summary of it."""
    manifest = read_manifest(folder)
    if as_json:
        print(json.dumps(json.loads((folder / "manifest.json").read_bytes()), indent=2))
    else:
        print(summary(manifest))
    return 0


def summary(manifest: Manifest) -> str:
    """The package in a few lines."""
    signatures = [printable_lines(str(one.signature)) for one in manifest.entries.values()]
    return "\n".join([*signatures, *map(printable, _facts(manifest))])


def _facts(manifest: Manifest) -> Iterator[str]:
    """A line for each fact."""
    compilers = ", ".join(f"{name} {version}" for name, version in manifest.compilers.items())
    yield f"version   {manifest.signature.version}, by aotpack {manifest.aotpack}, {compilers}"
    yield f"targets   {', '.join(manifest.targets)}"
    yield f"kernels   {len(manifest.kernels)}"
    yield f"weights   {weights_text(manifest.weights)} ({manifest.weights_mode})"
    for name, one in manifest.entries.items():
        yield from _own_lines(name, one)
    yield from (f"torch     {call.operator}: {call.reason}" for call in manifest.calls.values())


def _own_lines(method: str, manifest: Manifest) -> Iterator[str]:
    """What a method has of its own."""
    head = method and f"{method}: "
    yield from (f"derived   {head}{text}" for text in derived_text(manifest.derived))
    yield f"memory    {head}{manifest.peak_bytes:,} bytes for intermediates at the largest sizes"
    yield f"golden    {head}{manifest.golden.note or 'inputs and results'}"


def device_of(text: str | None) -> int | str | None:
    """The device on the command line: a GPU's number, "cuda", "cuda:1", "cpu", or None."""
    number = "0" if text == "cuda" else (text or "").removeprefix("cuda:")
    return int(number) if number.isdecimal() else text


def import_first(modules: Sequence[str]) -> None:
    """Import the modules that define the operators torch runs for a package.

    The current folder is searched last.
    """
    if modules:
        sys.path.append(str(Path.cwd()))
    for name in modules:
        try:
            import_module(name)
        except (Exception, SystemExit) as error:  # whatever the module does
            kind = "" if isinstance(error, ImportError) else f"{type(error).__name__}: "
            raise AotpackError(
                f"--import {name!r}: {kind}{error}; the full name of an importable module is "
                "accepted"
            ) from error


def bench(folder: Path, device: int | str | None, weights: Path | None, repeat: int | None) -> int:
    """Time calls on the golden inputs in device memory; on a GPU with both executors.

    Without ``repeat``, the time limit sets the number of calls.
    """
    with load(folder, device, weights=weights) as model:
        most = f"up to {_MOST} calls in {_SECONDS} s" if repeat is None else f"{repeat} calls"
        print(f"timing {most} on {model.device.name}, after {_WARMUP} to warm up", flush=True)
        for name, method in model.methods.items():
            print(f"{_called(folder, name)}: {timed(method, repeat)}", flush=True)
        on_host = is_host(model.device)
    if not on_host:
        with load(folder, device, weights=weights, graphs=False) as model:
            for name, method in model.methods.items():
                print(f"{_called(folder, name)} without graphs: {timed(method, repeat)}")
    return 0


def _called(folder: Path, method: str) -> str:
    return f"{folder.name}.{method}" if method else folder.name


def _on_device(device: Device, stored: Stored, order: tuple[int, ...]) -> DeviceArray:
    return DeviceArray.from_numpy(device, stored.data, stored.dtype, order)


def timed(model: Method, repeat: int | None) -> str:
    """The median times as text, over ``repeat`` calls or as many as the time limit allows."""
    manifest = model.manifest
    golden = read_golden(manifest.folder / manifest.golden_file, manifest.golden.drawn)
    args, kwargs = golden_arguments(
        manifest,
        golden,
        partial(_on_device, model.device),
    )
    hosts: list[float] = []
    walls: list[float] = []
    while len(walls) < _WARMUP + (repeat or _MOST):
        start = time.perf_counter()
        result = model(*args, **kwargs)
        issued = time.perf_counter()
        with active(model.device):
            model.device.synchronize(None)
        walls.append(time.perf_counter() - start)
        hosts.append(issued - start)
        del result
        if repeat is None and len(walls) >= _WARMUP + _FEWEST and sum(walls) > _SECONDS:
            break
    host, wall = _median(hosts[_WARMUP:]), _median(walls[_WARMUP:])
    count = len(walls) - _WARMUP
    share = "" if is_host(model.device) else f", {host * 1e6:.1f} us of it on the host"
    return f"{wall * 1e3:.3f} ms per call{share} (of {count} calls)"


def _median(times: list[float]) -> float:
    return sorted(times)[len(times) // 2]


def _parser(name: str) -> Parser:
    parser = Parser(
        prog=f"python -m {name}",
        description="What the package is, is it right, how fast is it.",
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    about = commands.add_parser(
        "info", help="signature, targets, kernels, memory", allow_abbrev=False
    )
    about.add_argument("--json", action="store_true", help="print the whole manifest")
    for command, text in (
        ("verify", "run the golden data and prove that nothing is compiled"),
        ("bench", "time calls on the golden inputs"),
        ("tune", "time the candidates of every kernel that the package holds"),
    ):
        one = commands.add_parser(command, help=text, allow_abbrev=False)
        one.add_argument(
            "--device", help='a GPU\'s number or "cpu" (default: a GPU if there is one)'
        )
        one.add_argument("--import", **IMPORT)
        one.add_argument("--weights", **WEIGHTS)
        if command == "tune":
            one.add_argument(
                "-o", "--out", required=True, help="the file for the times; what it has is kept"
            )
        if command == "bench":
            one.add_argument("--repeat", **REPEAT)
        one.set_defaults(accepted=tuple(one.long_options))
    about.set_defaults(accepted=tuple(about.long_options))
    return parser
