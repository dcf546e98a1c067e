"""Package a model as one wheel that needs no compiler: for GPUs with a driver, or processors."""

import argparse
import gc
import hashlib
import json
import os
import sys
from collections.abc import Mapping
from contextlib import ExitStack, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aotpack.commands.model_options import (
    MODEL_HELP,
    add_trace_options,
    load_source,
    read_options,
)
from aotpack.commands.parser import add_verbosity
from aotpack.emit.names import Identity
from aotpack.emit.platforms import not_on, runs_on
from aotpack.emit.provenance import provenance_file
from aotpack.errors import UsageError
from aotpack.ir.golden import read_golden
from aotpack.notes import unchecked_note
from aotpack.progress import Bar, Reporter, chosen_reporter
from aotpack.runtime.command import positive
from aotpack.stages import Decisions, PerMethod, Traced
from aotpack.target import DEFAULT_TARGETS, Target, parse_targets
from aotpack.tune import read_decisions, unused

if TYPE_CHECKING:
    from aotpack.instrumentation import Instrumentation
    from aotpack.pipeline import Build, MethodsBuild, PackageBuild, Source


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``aotpack build``."""
    defaults = ",".join(map(str, DEFAULT_TARGETS))
    parser.add_argument("model", metavar="MODEL", help=MODEL_HELP)
    parser.add_argument(
        "-o", "--out", metavar="DIR", type=Path, required=True, help="the folder for the wheel"
    )
    parser.add_argument(
        "--target",
        action="append",
        metavar="LIST",
        help="sm_90, 9.0, 8.0+PTX, cpu, interpreter, native, all; commas; repeatable "
        f"(default {defaults})",
    )
    parser.add_argument("--name", help="name of the package (default: the model file's)")
    parser.add_argument("--version", help="its version (default: the model file's, or 0.1.0)")
    parser.add_argument("--jobs", type=positive, metavar="N", help="kernels compiled at once")
    parser.add_argument(
        "--cpu-arch",
        metavar="ARCH",
        help="the oldest processors the target cpu runs on (default x86-64-v3, or armv8-a)",
    )
    _add_contents(parser)
    _add_tuning(parser)
    add_trace_options(parser)
    add_verbosity(
        parser,
        quiet="print the path of the wheel and errors alone",
        verbose="a line for each GPU kernel, and the time of each stage and pass",
    )


def _add_contents(parser: argparse.ArgumentParser) -> None:
    """The options that say what the wheel holds."""
    parser.add_argument(
        "--weights",
        choices=("embed", "sidecar", "none"),
        default="embed",
        help="in the wheel, beside it, or left out (default embed)",
    )
    parser.add_argument(
        "--golden",
        type=_golden,
        metavar="full|MB|none",
        default="4",
        help="the most megabytes that the wheel keeps to test itself with (default 4)",
    )


def _golden(text: str) -> float:
    """Bytes of golden data, for argparse."""
    try:
        return read_golden(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _add_tuning(parser: argparse.ArgumentParser) -> None:
    """The options that choose forms of kernels."""
    parser.add_argument(
        "--candidates",
        type=positive,
        default=1,
        metavar="N",
        help="forms of each kernel in the wheel, for aotpack tune to time (default 1)",
    )
    parser.add_argument(
        "--tuning", metavar="FILE", type=Path, help="take the kernels that aotpack tune found best"
    )


def _check_early(options: argparse.Namespace) -> None:
    """Refuse a folder or names before the model is loaded."""
    if options.out.exists() and not options.out.is_dir():
        raise UsageError(f"-o {options.out}: it is a file; a folder, existing or new, is accepted")
    place = next(one for one in (options.out, *options.out.absolute().parents) if one.exists())
    if not (place.is_dir() and os.access(place, os.W_OK | os.X_OK)):
        raise UsageError(f"-o {options.out}: {place} is no folder that this user can write to")
    Identity.of(options.name or "model", options.version or "0.1.0")


def run(options: argparse.Namespace) -> int:
    """Build, then say what was written and where the time went."""
    gc.set_threshold(100_000, 20, 50)  # else a fourth of the time goes to searching for cycles
    targets = parse_targets(options.target) if options.target else DEFAULT_TARGETS
    _check_early(options)
    decisions = read_decisions(options.tuning, options.candidates)
    with ExitStack() as stack:
        reporter = _entered(options, stack)
        reporter.begin("load the model")
        source = load_source(options, options.name, options.version)
        from aotpack.instrumentation import Instrumentation
        from aotpack.pipeline import build_of  # imports torch

        how = read_options(
            options,
            targets=targets,
            decisions=decisions,
            jobs=options.jobs,
            cpu_arch=options.cpu_arch,
            weights=options.weights,
            golden=options.golden,
            out=options.out,
        )
        made = build_of(source, how, Instrumentation(reporter))
        _ = made.emitted
    notes = _notes(made, Path(options.model).parent)
    if options.tuning is not None:
        notes.append(_tuning_note(options.tuning, decisions, targets, made.rendered.settled))
    if options.json:
        print(json.dumps(_facts(made, notes), indent=2))
    elif options.quiet:
        print(made.emitted.wheel)
    else:
        print("\n".join([*_summary(made), *notes]))
    if options.verbose:
        print(_times(made.hook), file=sys.stderr)
    return 0


def _entered(options: argparse.Namespace, stack: ExitStack) -> Reporter:
    """The reporter; where stdout has one answer, what the model prints goes to stderr."""
    reporter = chosen_reporter(quiet=options.quiet, verbose=options.verbose)
    if isinstance(reporter, Bar):
        stack.enter_context(reporter)
    if options.json or options.quiet:
        stack.enter_context(redirect_stdout(sys.stderr))
    return reporter


def _notes(made: "Build | MethodsBuild", folder: Path) -> list[str]:
    """What may be otherwise than was meant; ``folder`` is that of the model."""
    source, name = made.source, made.identity.name
    notes = [f"note: the {one.name} that was there is replaced" for one in made.emitted.replaced]
    notes += [_name_note(source.name, name), _shadow_note(folder, name)]
    notes += [*_golden_notes(made), *source.notes, *_size_notes(source, made.traced)]
    if note := unchecked_note(made.traced, "--check-indices"):
        notes.append(f"note: {note}")
    return [note for note in notes if note]


def _size_notes(source: "Source", traced: Traced | PerMethod[Traced]) -> list[str]:
    """The declared sizes that got another name."""
    from aotpack.trace import declared_names

    module = source.module
    each = module.values() if isinstance(module, Mapping) else [source]
    declared = frozenset[str]().union(*(declared_names(one.dynamic_shapes) for one in each))
    graphs = traced.methods.values() if isinstance(traced, PerMethod) else [traced]
    names = dict.fromkeys(size.name for one in graphs for size in one.graph.signature.sizes)
    pairs = [(name.rstrip("_"), name) for name in names if name not in declared]
    return [
        f"note: the size {stem!r} is called {name!r} in the signature and in errors, for the "
        f"package has another {stem!r}"
        for stem, name in pairs
        if stem in declared
    ]


def _name_note(given: str, name: str) -> str:
    """The name that Python imports, if it is another than was given."""
    return "" if given == name else f"note: {given!r} is imported as {name}"


def _golden_notes(made: "PackageBuild") -> list[str]:
    """What golden data lack, if anything."""
    notes = {name: one.golden.note for name, one in made.rendered.entries.items()}
    return [f"golden data{name and f' of {name}'}: {note}" for name, note in notes.items() if note]


def _summary(made: "PackageBuild") -> list[str]:
    """The files, the targets, the time of each stage and the operators that torch runs."""
    emitted, seconds = made.emitted, made.hook.seconds
    lines = [f"{emitted.wheel}  {emitted.wheel.stat().st_size:,} bytes"]
    if emitted.sidecar is not None:
        lines.append(f"{emitted.sidecar}  {emitted.sidecar.stat().st_size:,} bytes, its weights")
    times = ", ".join(f"{stage} {time:.1f} s" for stage, time in seconds.items())
    lines.append(f"for {', '.join(map(str, made.options.targets))}; {times}")
    targets, host = made.precompiled.targets, made.precompiled.host
    lines += [f"runs on: {line}" for line in runs_on(targets, host)]
    lines += [f"not on: {line}" for line in not_on(targets, host)]
    lines += [f"{made.options.quantize}: {line}" for line in made.quantized]
    lines += [f"repeated layers: {line}" for line in made.repeats]
    return lines + [f"through torch: {line}" for line in made.fallbacks]


def _facts(made: "PackageBuild", notes: list[str]) -> dict[str, Any]:
    """The JSON of a build; times are in seconds, sizes in bytes."""
    emitted = made.emitted
    return {
        "name": made.identity.name,
        "version": made.identity.version,
        "wheel": _file(emitted.wheel),
        "provenance": str(provenance_file(emitted.wheel)),
        "weights": None if emitted.sidecar is None else _file(emitted.sidecar),
        "targets": [str(target) for target in made.options.targets],
        "runs_on": runs_on(made.precompiled.targets, made.precompiled.host),
        "not_on": not_on(made.precompiled.targets, made.precompiled.host),
        "kernels": len(made.rendered.kernels),
        "through_torch": list(made.fallbacks),
        "quantized": list(made.quantized),
        "repeated_layers": list(made.repeats),
        "seconds": {stage: round(time, 3) for stage, time in made.hook.seconds.items()},
        "notes": notes,
    }


def _file(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"path": str(path), "bytes": path.stat().st_size, "sha256": digest}


def _times(hook: "Instrumentation") -> str:
    """The seconds of each stage and pass, with the number of runs of a pass."""
    stages = [f"{time:8.3f} s          {stage}" for stage, time in hook.seconds.items()]
    passes = [
        f"{sum(times):8.3f} s  {len(times):3} runs  {title}"
        for title, times in sorted(hook.pass_seconds.items())
    ]
    return "\n".join(stages + passes)


def _shadow_note(folder: Path, name: str) -> str:
    """A warning if a module of the package's name shadows it in the folder."""
    if not (folder / f"{name}.py").exists():
        return ""
    return (
        f"note: in {folder.resolve()}, `import {name}` takes {name}.py instead of the package; "
        "start Python elsewhere, or build with --name"
    )


def _tuning_note(
    file: Path,
    decisions: Decisions,
    targets: tuple[Target, ...],
    settled: tuple[tuple[str, str], ...],
) -> str:
    """The number of launches that a tuning file decided, and its entries that fit none."""
    stale = unused(decisions, settled, tuple(map(str, targets)))
    note = f"{file} decided {len(settled)} choices"
    return f"{note}; {stale} of its entries fit no kernel of this build" if stale else note
