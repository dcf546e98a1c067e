"""Time the calls of a wheel on its golden inputs."""

import argparse
from pathlib import Path

from aotpack.commands.shipped import IMPORT, WEIGHTS, shipped_runtime
from aotpack.commands.wheel_file import unpacked, weights_of
from aotpack.runtime.command import REPEAT


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``aotpack bench``."""
    parser.add_argument("wheel", metavar="WHEEL", type=Path, help="a wheel that aotpack built")
    parser.add_argument("--import", **IMPORT)
    parser.add_argument("--weights", **WEIGHTS)
    parser.add_argument(
        "--device", help='a GPU\'s number or "cpu" (default: a GPU if there is one)'
    )
    parser.add_argument("--repeat", **REPEAT)


def run(options: argparse.Namespace) -> int:
    """The wheel's own bench, from a temporary folder."""
    with unpacked(options.wheel) as package:
        weights = weights_of(options.wheel, package, options.weights)
        with shipped_runtime(package, options.imports) as runtime:
            command = runtime.command
            device = command.device_of(options.device)
            code: int = command.bench(package, device, weights, options.repeat)
    return code
