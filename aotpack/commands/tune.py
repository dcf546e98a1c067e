"""Time the candidates of every kernel inside a wheel, on this machine; no compiler is needed.

The wheel was built with --candidates N. A build with --tuning FILE then takes the quickest.
"""

import argparse
from pathlib import Path

from aotpack.commands.shipped import IMPORT, WEIGHTS, shipped_runtime
from aotpack.commands.wheel_file import unpacked, weights_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``aotpack tune``."""
    parser.add_argument("wheel", metavar="WHEEL", type=Path, help="a wheel that aotpack built")
    parser.add_argument("--import", **IMPORT)
    parser.add_argument("--weights", **WEIGHTS)
    parser.add_argument(
        "-o",
        "--out",
        metavar="FILE",
        type=Path,
        required=True,
        help="the file for the times; what it has of other kernels and devices is kept",
    )
    parser.add_argument(
        "--device", help='a GPU\'s number or "cpu" (default: a GPU if there is one)'
    )


def run(options: argparse.Namespace) -> int:
    """The wheel's own tuner, from a temporary folder."""
    with unpacked(options.wheel) as package:
        weights = weights_of(options.wheel, package, options.weights)
        with shipped_runtime(package, options.imports) as runtime:
            command = runtime.command
            device = command.device_of(options.device)
            command.tune_into(options.out, package, device, weights, print)
    return 0
