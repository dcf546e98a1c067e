"""Show the contents of a wheel: signature, memory, weights, kernels and their resources.

In the table of kernels, "moved" is the bytes that a launch must read and write at the sizes of the
example inputs, and "us" an estimate of the microseconds of that on the target's GPU. The lines
"moved" above the table are about all launches of a call.
"""

import argparse
import json
from pathlib import Path

from aotpack.commands.kernel_sources import read_host_bytes, read_sources
from aotpack.commands.report import (
    aligned,
    html_report,
    kernel_tables,
    summary_rows,
    table_text,
)
from aotpack.commands.wheel_file import example_sizes, manifest_of, read_entry
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
            data = json.loads(read_entry(archive, f"{name}/manifest.json"))
            print(json.dumps(data, indent=2, sort_keys=True))
        elif options.kernel is not None:
            print(read_sources(manifest, archive, name).kernels[options.kernel], end="")
        else:
            sizes = example_sizes(manifest, archive, name)
            facts = summary_rows(manifest, archive, sizes)
            host_bytes = read_host_bytes(manifest, archive, name)
            tables = kernel_tables(manifest, sizes, host_bytes)
            if options.html is None:
                print("\n\n".join([aligned(facts), *map(table_text, tables)]))
            else:
                page = html_report(facts, tables, read_sources(manifest, archive, name))
                _write(options.html, page)
                print(options.html)
    return 0


def _write(file: Path, page: str) -> None:
    try:
        file.write_text(page, encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"--html {file}: the report cannot be written: {error.strerror}; accepted is a file, "
            "new or old, in a folder that is there and that you may write to"
        ) from error
