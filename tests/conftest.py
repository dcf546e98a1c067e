"""What all tests share: a kernel cache for the run, no dumps, little effort, few processes."""

import fcntl
import gc
import os
import signal
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from aotpack.precompile import pool
from tests.c_flags import QUICK, shipped
from tests.golden_texts import FLAG, check_golden, golden_file
from tests.kept_worker import keeping

# Tracing makes objects by the million, in processes that hold all of torch: with Python's own
# numbers a fifth of the run is spent in searching them for cycles.
gc.set_threshold(100_000, 20, 50)

# torch's threads wait for more work by turning in place, for longer than a test computes: beside
# other workers they are a fourth of the run. What is compared with it uses threads of its own.
torch.set_num_threads(1)


@pytest.hookimpl(tryfirst=True)
def pytest_make_collect_report(collector: pytest.Collector) -> None:
    """A module draws the same numbers at its import, whatever was imported before it."""
    _seed(collector.nodeid)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test draws the same numbers, whatever ran before it in its worker."""
    _seed(item.nodeid)


def _seed(name: str) -> None:
    torch.manual_seed(zlib.crc32(name.encode()))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(FLAG, action="store_true", help="rewrite the texts in tests/golden")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compares a text with the test's file in ``tests/golden``, by its extension."""
    name, file = request.node.originalname, request.path

    def check(text: str, kind: str) -> None:
        path = golden_file(Path(__file__).parent, file, name, kind)
        check_golden(path, text, is_update=request.config.getoption(FLAG))

    return check


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The temporary folder of all workers of the run."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def once(run_folder: Path) -> Callable[[str, Callable[[Path], object]], Path]:
    """A folder by its name: the first worker that asks for it fills it, the others wait."""

    def folder(name: str, fill: Callable[[Path], object]) -> Path:
        made, place = run_folder / f"{name}.made", run_folder / name
        with (run_folder / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not made.exists():
                place.mkdir(exist_ok=True)
                fill(place)
                made.touch()
        return place

    return folder


@pytest.fixture(scope="session", autouse=True)
def kernel_cache(run_folder: Path) -> Iterator[Path]:
    """The user's cache is neither read nor written; a kernel is compiled once in a run.

    Kernels in C are compiled with little effort, where a test does not ask for more.
    """
    folder = run_folder / "kernel-cache"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AOTPACK_CACHE", str(folder))
        patch.delenv("AOTPACK_DUMP", raising=False)
        patch.setenv("AOTPACK_VERIFY", "1")
        patch.setenv("AOTPACK_JOBS", "1")  # a process more is started for each, beside busy workers
        patch.setenv("AOTPACK_CFLAGS", QUICK)
        yield folder


@pytest.fixture(scope="session", autouse=True)
def kept_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[type[pool._Worker]]:
    """Compiling processes of Triton are not started for each build; the class that starts them."""
    started = pool._Worker
    worker, end_all = keeping(tmp_path_factory.mktemp("workers"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pool, "_Worker", worker)
        yield started
    end_all()


@pytest.fixture
def workers_of_builds(kept_workers: type[pool._Worker]) -> Iterator[None]:
    """In a test that asks for it, each build starts its own compiling processes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pool, "_Worker", kept_workers)
        yield


@pytest.fixture(scope="module")
def as_shipped() -> Iterator[None]:
    """In a module that asks for it, kernels in C are compiled as those that are shipped."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AOTPACK_CFLAGS", shipped())
        yield


@pytest.fixture(scope="module")
def for_this_processor() -> Iterator[None]:
    """In a module that asks for it, C is compiled for this processor's widest registers.

    The effort is little: modules that ask for ``as_shipped`` are about what the compiler makes.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AOTPACK_CFLAGS", f"-Og {shipped()}")
        yield


@pytest.fixture
def heeds_interrupts() -> Iterator[None]:
    """Processes begun here get SIGINT and SIGHUP, even below ``nohup`` or in the background."""
    interrupt = signal.signal(signal.SIGINT, signal.default_int_handler)
    hangup = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGINT, interrupt)
    signal.signal(signal.SIGHUP, hangup)
