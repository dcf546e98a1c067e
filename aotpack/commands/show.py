"""Print the stage products of a model, or the output of a pass, as text; writes nothing."""

import argparse
from typing import Any

from aotpack.commands.model_options import (
    MODEL_HELP,
    add_trace_options,
    load_source,
    read_options,
)
from aotpack.errors import UsageError
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
    parser.add_argument("--target", action="append", metavar="LIST", help="as for build")
    add_trace_options(parser)


def run(options: argparse.Namespace) -> int:
    """Print each product as soon as it is made."""
    if options.after is not None:
        _check_pass(options.after)
    how = read_options(
        options, targets=parse_targets(options.target) if options.target else DEFAULT_TARGETS
    )
    source = load_source(options)
    from aotpack.instrumentation import Instrumentation, pass_title
    from aotpack.pipeline import Build  # imports torch

    shown = (options.stage,) if options.stage else () if options.why or options.after else SHOWN

    def look(stage: str, product: Any) -> None:
        if stage in shown:
            if options.stage is None:
                print(f"# ======== {stage}")
            if options.target and stage == "scheduled":
                product = product.for_targets(how.targets)
            print(product.as_text(), end="")
        if options.why and stage == "scheduled":
            print(product.why_text(), end="")

    def look_after(stage: str, run: PassRun) -> None:
        if stage == "scheduled" and run.name == options.after:
            print(f"# ======== {pass_title(stage, run)}")
            print(run.state.as_text(), end="")

    hook = Instrumentation(look=look, look_after=look_after if options.after else None)
    made = Build(source, how, hook)
    _ = made.rendered if "rendered" in shown else made.scheduled
    return 0


def _check_pass(name: str) -> None:
    from aotpack.schedule import PASSES  # slow: imports all of the schedule

    names = list(dict.fromkeys(one.name for one in PASSES))
    if name not in names:
        raise UsageError(f"--after {name}: no pass has that name; accepted are {', '.join(names)}")
