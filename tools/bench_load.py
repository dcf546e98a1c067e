"""Time to load wheels, with and without the check of their weights, side by side.

    python -m tools.bench_load WHEEL... [--device 0] [--rounds 9] [--weights FILE]

Each load is a fresh process, which imports the package and loads it; the ways take turns, so that
files are equally warm. A wheel of a version without checks is loaded as it is: name it first to
compare with it. "load" is ``PACKAGE.load()`` until the device is done, "process" all from its
start.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

PROGRAM = """
import importlib, json, sys, time
import numpy
name, device, weights, options = sys.argv[1:]
package, options = importlib.import_module(name), json.loads(options)
if weights:
    options["weights"] = weights
start = time.perf_counter()
package.load(int(device) if device.isdecimal() else device, **options).synchronize()
print(time.perf_counter() - start)
"""


class Way(NamedTuple):
    """A way to load a package, and the keywords of ``load`` that say so."""

    title: str
    folder: Path
    name: str
    keywords: dict[str, bool]


def main(argv: Sequence[str] | None = None) -> int:
    """Print a line for each way, with its ratio to the first."""
    options = _options(argv)
    with tempfile.TemporaryDirectory() as place:
        ways = [
            way
            for number, wheel in enumerate(options.wheels)
            for way in _ways(wheel, Path(place, str(number)))
        ]
        times: dict[str, list[tuple[float, float]]] = {way.title: [] for way in ways}
        for turn in range(options.rounds + 1):
            for way in ways if turn % 2 else ways[::-1]:
                found = _time(way, options.device, str(options.weights or ""))
                if turn:  # the first reads the disk
                    times[way.title].append(found)
    first = statistics.median(load for load, _ in times[ways[0].title])
    for title, found in times.items():
        loads, walls = zip(*found, strict=True)
        load, wall = statistics.median(loads), statistics.median(walls)
        least = f"least {1e3 * min(loads):.1f} and {1e3 * min(walls):.1f}"
        shown = f"load {1e3 * load:.1f} ms, process {1e3 * wall:.1f} ms ({least})"
        print(f"{title}: {shown}; load / first {load / first:.3f}")
    return 0


def _ways(wheel: Path, folder: Path) -> list[Way]:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
        name = next(n.split("/")[0] for n in archive.namelist() if n.endswith("/manifest.json"))
        if "weights_chunks" not in json.loads(archive.read(f"{name}/manifest.json")):
            return [Way(f"{wheel}, as it is", folder, name, {})]
    return [
        Way(f"{wheel}, unchecked", folder, name, {"check": False}),
        Way(f"{wheel}, checked", folder, name, {"check": True}),
    ]


def _time(way: Way, device: str, weights: str) -> tuple[float, float]:
    """Seconds of a load, and of its process."""
    words = [way.name, device, weights, json.dumps(way.keywords)]
    command, start = [sys.executable, "-c", PROGRAM, *words], time.perf_counter()
    done = subprocess.run(command, cwd=way.folder, capture_output=True, text=True, check=False)
    wall = time.perf_counter() - start
    if done.returncode:
        raise SystemExit(done.stderr)
    return float(done.stdout), wall


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheels", nargs="+", metavar="WHEEL", type=Path)
    parser.add_argument("--device", default="0", help='a GPU\'s number or "cpu"')
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--weights", type=Path, help="for wheels without them")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
