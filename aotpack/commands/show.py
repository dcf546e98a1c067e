"""Print the stage products of a model, or the output of a pass, as text; writes nothing."""

import argparse
from collections.abc import Mapping
from typing import Any

from aotpack.commands.model_options import (
    MODEL_HELP,
    add_trace_options,
    check_file,
    load_source,
    read_options,
)
from aotpack.errors import UsageError, did_you_mean
from aotpack.ir.passes import PassRun
from aotpack.target import DEFAULT_TARGETS, parse_targets

SHOWN = ("traced", "lowered", "scheduled", "rendered")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``aotpack show``."""
    parser.add_argument("model", metavar="MODEL", help=MODEL_HELP)
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--stage", choices=SHOWN, help="only this one (default: all)")
    shown.add_argument("--after", metavar="PASS", help="only the schedule after this pass of it")
    parser.add_argument(
        "--why",
        action="store_true",
        help="say why operations did not share a kernel; without --stage nothing else",
    )
    parser.add_argument("--method", metavar="NAME", help="only this one (default: all)")
    parser.add_argument("--target", action="append", metavar="LIST", help="as for build")
    add_trace_options(parser)


def run(options: argparse.Namespace) -> int:
    """Print each product as soon as it is made."""
    if options.after is not None:
        _check_pass(options.after)
    check_file(options.model)
    how = read_options(
        options, targets=parse_targets(options.target) if options.target else DEFAULT_TARGETS
    )
    source = load_source(options)
    _check_method(source.module, options.method)
    from aotpack.instrumentation import Instrumentation, pass_title
    from aotpack.pipeline import build_of  # imports torch

    shown = (options.stage,) if options.stage else () if options.why or options.after else SHOWN

    def look(stage: str, whole: Any) -> None:
        for method, product in _each(whole, options.method).items():
            behind = f" of {method}" if method else ""
            if stage in shown:
                if options.stage is None or behind:
                    print(f"# ======== {stage}{behind}")
                if options.target and stage == "scheduled":
                    product = product.for_targets(how.targets)
                print(product.as_text(), end="")
            if options.why and stage == "scheduled":
                print(product.why_text() or _without_reasons(product), end="")

    def look_after(stage: str, run: PassRun) -> None:
        if stage == "scheduled" and run.name == options.after:
            print(f"# ======== {pass_title(stage, run)}")
            print(run.state.as_text(), end="")

    hook = Instrumentation(look=look, look_after=look_after if options.after else None)
    made = build_of(source, how, hook)
    _ = made.rendered if "rendered" in shown else made.scheduled
    return 0


def _without_reasons(product: Any) -> str:
    count = max(len(schedule.kernels) for schedule in product.schedules)
    if count < 2:
        return "all operations share one kernel\n"
    return f"no reason is recorded why the {count} kernels are apart\n"


def _each(product: Any, method: str | None) -> Mapping[str, Any]:
    """The product of each method, or of the one that is asked for; "" for an only one."""
    found: Mapping[str, Any] = getattr(product, "methods", None) or {"": product}
    return {name: one for name, one in found.items() if method in (None, name)}


def _check_method(module: Any, method: str | None) -> None:
    names = [*module] if isinstance(module, Mapping) else []
    if method is not None and method not in names:
        accepted = f"accepted are {', '.join(names)}" if names else "the model has a single one"
        raise UsageError(f"--method {method}: no method has that name; {accepted}")


def _check_pass(name: str) -> None:
    from aotpack.schedule import PASSES  # slow: imports all of the schedule

    names = list(dict.fromkeys(one.name for one in PASSES))
    if name not in names:
        raise UsageError(
            f"--after {name}: no pass has that name; accepted are {', '.join(names)}"
            f"{did_you_mean(name, names)}"
        )
