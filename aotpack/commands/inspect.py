"""Show the contents of a wheel: signature, memory, weights, kernels and their resources.

In the table of kernels, "moved" is the bytes that a launch must read and write at the sizes of the
example inputs, and "us" an estimate of the microseconds of that on the target's GPU.
"""

import argparse
import json
from pathlib import Path

from aotpack.commands.report import html_report, kernel_rows, summary_rows, table
from aotpack.commands.wheel_file import example_sizes, manifest_of
from aotpack.errors import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``aotpack inspect``."""
    parser.add_argument("wheel", metavar="WHEEL", type=Path, help="a wheel that aotpack built")
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--kernel", metavar="K", help="print the source of this kernel")
    shown.add_argument("--html", metavar="FILE", type=Path, help="write a report as one HTML file")
    shown.add_argument("--json", action="store_true", help="print the manifest")


def run(options: argparse.Namespace) -> int:
    """Print or write the requested facts."""
    with manifest_of(options.wheel) as (manifest, archive, name):
        kernels = manifest.kernels
        if options.kernel is not None and options.kernel not in kernels:
            raise UsageError(
                f"{options.wheel} has no kernel {options.kernel!r};"
                f" it has {', '.join(sorted(kernels))}"
            )
        if options.json:
            data = json.loads(archive.read(f"{name}/manifest.json"))
            print(json.dumps(data, indent=2, sort_keys=True))
        elif options.kernel is not None:
            print(archive.read(f"{name}/{kernels[options.kernel].source}").decode(), end="")
        elif options.html is not None:
            sources = {k: archive.read(f"{name}/{v.source}").decode() for k, v in kernels.items()}
            options.html.write_text(
                html_report(manifest, archive, sources, example_sizes(manifest, archive, name))
            )
            print(options.html)
        else:
            print(table(summary_rows(manifest, archive)))
            print()
            print(table(kernel_rows(manifest, example_sizes(manifest, archive, name))))
    return 0
