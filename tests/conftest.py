"""What all tests share: a kernel cache for the run, no dumps, one thread of torch."""

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

# Tracing makes objects by the million, in processes that hold all of torch: with Python's own
# numbers a fifth of the run is spent in searching them for cycles.
gc.set_threshold(100_000, 20, 50)

# torch's threads wait for more work by turning in place, for longer than a test computes: beside
# other workers they are a fourth of the run. What is compared with it uses threads of its own.
torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def kernel_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The user's cache is neither read nor written; a kernel is compiled once in a run."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "kernel-cache"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AOTPACK_CACHE", str(folder))
        patch.delenv("AOTPACK_DUMP", raising=False)
        patch.delenv("AOTPACK_JOBS", raising=False)
        yield folder


@pytest.fixture
def heeds_interrupts() -> Iterator[None]:
    """Processes begun here get SIGINT, even where this run was begun in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
