"""Print the stage products of a model as text; nothing is written."""

import argparse
from typing import Any

from aotpack.commands.model_options import MODEL_HELP, add_trace_options, load_source
from aotpack.target import DEFAULT_TARGETS, parse_targets

SHOWN = ("traced", "lowered", "scheduled", "rendered")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``aotpack show``."""
    parser.add_argument("model", metavar="MODEL", help=MODEL_HELP)
    parser.add_argument("--stage", choices=SHOWN, help="only this one (default: all)")
    parser.add_argument(
        "--why", action="store_true", help="say why operations did not share a kernel"
    )
    parser.add_argument("--target", action="append", metavar="LIST", help="as for build")
    add_trace_options(parser)


def run(options: argparse.Namespace) -> int:
    """Print each product as soon as it is made."""
    targets = parse_targets(options.target) if options.target else DEFAULT_TARGETS
    source = load_source(options)
    from aotpack.pipeline import Instrumentation, to_rendered  # imports torch

    def look(stage: str, product: Any) -> None:
        if options.stage is None:
            print(f"# ======== {stage}")
        if options.stage in (None, stage):
            print(product.as_text(), end="")
        if options.why and stage == "scheduled":
            print(product.why_text(), end="")

    to_rendered(source, targets, Instrumentation(look=look))
    return 0
