"""Report what this machine can build and run, and what is missing."""

import argparse
import json
import os
import platform
import shlex
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path

from packaging.requirements import Requirement

from aotpack.commands.parser import add_verbosity
from aotpack.errors import AotpackError
from aotpack.knobs import read_knobs
from aotpack.target import CPU, INTERPRETER, SUPPORTED_ARCHES, device_arch

_BUILD_PACKAGES = ("torch", "triton", "jinja2", "safetensors", "setuptools", "numpy")


@dataclass(frozen=True, slots=True)
class Finding:
    """One fact; ``missing`` gives the remedy if it prevents every build."""

    name: str
    value: str
    missing: str = ""
    targets: tuple[str, ...] = ()  # the targets it enables


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``aotpack doctor``."""
    add_verbosity(
        parser,
        quiet="print only what is missing",
        verbose="also print where each package lies, and the environment variables that are set",
    )


def run(options: argparse.Namespace) -> int:
    """Print the findings; 1 when this machine cannot build."""
    findings = [
        Finding("python", platform.python_version()),
        *map(_package, _BUILD_PACKAGES),
        _assemblers(),
        _c_compiler(),
        _cache(),
        _gpu(),
        *(_details() if options.verbose else ()),
    ]
    missing = [finding.missing for finding in findings if finding.missing]
    able = [*(target for finding in findings for target in finding.targets), str(INTERPRETER)]
    targets = [] if missing else able
    if options.json:
        found = {finding.name: finding.value for finding in findings}
        print(json.dumps({"found": found, "targets": targets, "missing": missing}, indent=2))
        return 1 if missing else 0
    if not options.quiet:
        for finding in findings:
            print(f"{finding.name:12} {finding.value}")
        print(f"{'can build':12} {', '.join(targets) or 'nothing'}")
    for text in missing:
        print(f"missing: {text}")
    return 1 if missing else 0


def _details() -> list[Finding]:
    """The interpreter, the folder of each package, and the variables that are set."""
    places = [Finding("executable", sys.executable)]
    for name in _BUILD_PACKAGES:
        spec = find_spec(name)
        if spec is not None and spec.origin is not None:
            places.append(Finding(f"{name} in", str(Path(spec.origin).parent)))
    names = sorted(name for name in os.environ if name.startswith("AOTPACK_"))
    return places + [Finding(name, os.environ[name]) for name in names]


def _package(name: str) -> Finding:
    wanted = _requirements().get(name, Requirement(name))
    advice = f"{wanted}: pip install '{wanted}'"
    try:
        found = version(name)
    except PackageNotFoundError:
        return Finding(name, "not installed", advice)
    is_right = wanted.specifier.contains(found, prereleases=True)
    return Finding(name, found, "" if is_right else advice)


def _requirements() -> dict[str, Requirement]:
    """aotpack's requirements by name; empty if aotpack is not installed."""
    try:
        found = [Requirement(text) for text in requires("aotpack") or ()]
    except PackageNotFoundError:
        return {}
    return {one.name: one for one in found if one.marker is None}


def _assemblers() -> Finding:
    """The assemblers of triton, found as a build finds them."""
    try:
        from aotpack.precompile.compilers import compiler_versions  # triton may be absent
    except ImportError:
        return Finding("ptxas", "not found", "ptxas: it comes with triton")
    try:
        found = {name: text for name, text in compiler_versions().items() if name != "triton"}
    except AotpackError as error:
        return Finding("ptxas", "does not run", str(error))
    targets = tuple(f"sm_{arch}" for arch in SUPPORTED_ARCHES)
    return Finding("ptxas", ", ".join(sorted(set(found.values()))), targets=targets)


def _c_compiler() -> Finding:
    """Only the target cpu needs it, so its absence is no error."""
    try:
        from aotpack.precompile.host import check_host, find_compiler  # triton may be absent
    except ImportError:
        return Finding("c compiler", "not looked for: triton is missing")
    try:
        check_host(None)
        named = find_compiler(read_knobs().compiler)
        value = f"{shlex.join(named.command)} {named.version}"
        return Finding("c compiler", value, targets=(str(CPU),))
    except AotpackError as error:
        return Finding("c compiler", f"none, so not the target cpu: {error}")


def _cache() -> Finding:
    folder = read_knobs().cache
    if folder is None:
        return Finding("cache", "off (AOTPACK_CACHE)")
    try:
        from aotpack.precompile.cache import KernelCache  # triton may be absent

        KernelCache(folder)
    except ImportError:
        pass
    except AotpackError as error:
        return Finding("cache", f"{folder} (not safe)", str(error))
    nearest = next(place for place in (folder, *folder.parents) if place.exists())
    is_writable = nearest.is_dir() and os.access(nearest, os.W_OK)
    entries = sum(1 for path in (folder / "kernels").rglob("*") if path.is_file())
    note = (
        f"{entries} kernels" if is_writable else "cannot be written to: builds compile everything"
    )
    return Finding("cache", f"{folder} ({note})")


def _gpu() -> Finding:
    """A build needs no GPU, so its absence is no error."""
    arch = device_arch()
    if arch is not None:
        return Finding("gpu", f"sm_{arch}")
    driver = "no NVIDIA driver" if not Path("/proc/driver/nvidia").exists() else "a driver, no GPU"
    return Finding("gpu", f"{driver}: packages run here on cpu, and for tests in the interpreter")
