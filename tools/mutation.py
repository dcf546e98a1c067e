"""Planted faults: each breaks a line of the code behind a row, and a test of the row must notice.

    python -m tools.mutation                    # all of tests/capabilities/faults/
    python -m tools.mutation --part 3 --of 10   # every tenth, from the third on
    python -m tools.mutation -j 2               # two at a time
    python -m tools.mutation --row S:B5

Each fault runs in a process of its own; no file changes. A test that breaks off or hangs has not
noticed: it must fail, and pass without the fault.
"""

import argparse
import os
import signal
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType

import pytest
from hypothesis import Phase, settings
from jinja2 import Environment, PackageLoader

ROOT = Path(__file__).resolve().parents[1]
FAULTS = ROOT / "tests/capabilities/faults"
LONGEST = 60  # seconds of a test
MOST_TOLD = 255  # the largest exit code
COMMON = (
    *("numpy", "sympy", "hypothesis", "jinja2", "torch", "torch.export", "torch._dynamo"),
    *(
        "torch.fx.experimental.symbolic_shapes",
        "torch.nn.attention.flex_attention",
        "triton.language",
    ),
)
"""What most tests import: the process before the parts imports it once."""
FAILED = int(pytest.ExitCode.TESTS_FAILED)
PASSED = int(pytest.ExitCode.OK)
TEMPLATE = ".jinja"


@dataclass(frozen=True, slots=True)
class Fault:
    """In ``file`` of the package, ``new`` stands for ``old``; ``test``, of all rows, must fail.

    The test may be a single case of it: ``test_file.py::test_name[parameters]``.
    """

    rows: tuple[str, ...]
    file: str
    old: str
    new: str
    test: str

    @property
    def of(self) -> str:
        return ", ".join(self.rows)

    @property
    def path(self) -> Path:
        return ROOT / self.file if self.file.endswith(TEMPLATE) else ROOT / "aotpack" / self.file

    def source(self) -> str:
        """The module or template with the fault."""
        text = self.path.read_text()
        if text.count(self.old) != 1:
            raise ValueError(f"{self.of}: {self.file} has {text.count(self.old)} of {self.old!r}")
        return text.replace(self.old, self.new)


def prepare() -> None:
    """Import what most tests import, but nothing of the package."""
    for name in COMMON:
        import_module(name)


def read_faults(folder: Path = FAULTS) -> tuple[Fault, ...]:
    """The faults, as written in the data files: one for each section of the rows."""
    files = sorted(folder.glob("*.toml"))
    found = [fault for file in files for fault in tomllib.loads(file.read_text())["fault"]]
    return tuple(Fault(**{**one, "rows": tuple(one["rows"])}) for one in found)


def is_noticed(fault: Fault) -> bool:
    """True if the test fails with the fault, and passes without it."""
    return fails(fault) and passes(fault.test)


def fails(fault: Fault) -> bool:
    """True if the test fails with the fault."""
    return _outcome([fault.test], fault.path, fault.source()) == FAILED


@cache
def passes(*tests: str) -> bool:
    """True if all tests pass in the package as it is: one that always fails notices nothing."""
    return _outcome(tests) == PASSED


def _outcome(tests: Sequence[str], path: Path | None = None, source: str = "") -> int:
    """The exit code of the tests, in a process that has not imported the package."""
    child = os.fork()
    if child == 0:
        os._exit(_run(tests, path, source))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _run(tests: Sequence[str], path: Path | None, source: str) -> int:
    """Run the tests, with a module's other source if there is a path; their exit code."""
    signal.alarm(LONGEST * len(tests))
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    os.chdir(ROOT)
    if path is not None:
        _plant(path, source)
    quick = [Phase.explicit, Phase.generate]  # shrinking what fails would take minutes
    settings.register_profile("quick", phases=quick, derandomize=True)
    settings.load_profile("quick")
    # pytest-timeout would take the alarm
    without = ("-p", "no:cacheprovider", "-p", "no:randomly", "--timeout=0")
    options = ("-q", "-x", "-n", "0", *without)
    return int(pytest.main([*(str(ROOT / "tests" / test) for test in tests), *options]))


def _plant(path: Path, source: str) -> None:
    """Let what reads a module or a template find another source."""
    if path.suffix == TEMPLATE:
        _plant_template(path.name, source)
        return
    original = SourceFileLoader.get_code

    def get_code(self: SourceFileLoader, fullname: str) -> CodeType | None:
        own = Path(self.get_filename(fullname)).resolve() == path.resolve()
        return compile(source, str(path), "exec") if own else original(self, fullname)

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign]


def _plant_template(name: str, source: str) -> None:
    original = PackageLoader.get_source

    def get_source(
        self: PackageLoader, environment: Environment, template: str
    ) -> tuple[str, str, Callable[[], bool] | None]:
        text, path, is_current = original(self, environment, template)
        return source if template == name else text, path, is_current

    PackageLoader.get_source = get_source  # type: ignore[method-assign]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print each fault that its test does not notice; 1 if there is one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--part", type=int, default=0, help="which of the parts, by its remainder")
    parser.add_argument("--of", type=int, default=1, help="the number of parts")
    parser.add_argument("--row", help="the faults of one row")
    parser.add_argument("-j", "--jobs", type=int, default=1, help="faults at a time")
    options = parser.parse_args(arguments)
    every = [fault for fault in read_faults() if options.row in (None, *fault.rows)]
    chosen = every[options.part % options.of :: options.of]
    if chosen:
        prepare()
    missed = sum(_in_processes([chosen[job :: options.jobs] for job in range(options.jobs)]))
    print(f"{len(chosen) - missed} of {len(chosen)} faults are noticed")
    return 1 if missed or not chosen else 0


def _in_processes(parts: Sequence[Sequence[Fault]]) -> Iterator[int]:
    """Check each part in a process; how many faults its tests do not notice, which it prints."""
    children = []
    for part in parts:
        child = os.fork()
        if child == 0:
            os._exit(min(_missed(part), MOST_TOLD))
        children.append(child)
    for child in children:
        yield os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _missed(faults: Sequence[Fault]) -> int:
    """Print each fault that its test does not notice; their number.

    Without a fault, all tests run in one process; where one fails, each is asked.
    """
    do_all_pass = bool(faults) and passes(*sorted({fault.test for fault in faults}))
    missed = [one for one in faults if not (fails(one) if do_all_pass else is_noticed(one))]
    for fault in missed:
        words = f"{fault.of}: {fault.test} does not notice {fault.new!r} in {fault.file}"
        print(words, flush=True)
    return len(missed)


if __name__ == "__main__":
    sys.exit(main())
