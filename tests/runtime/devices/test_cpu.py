"""The processors' port with a real shared object: threads, forks, machines that do not fit."""

import os
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from aotpack import pipeline
from aotpack.emit import write_package
from aotpack.pipeline import Source
from aotpack.runtime import Model, load
from aotpack.runtime.devices import cpu
from aotpack.runtime.devices.cpu import CpuDevice, default_threads
from aotpack.runtime.errors import AotpackError, DeviceError, PackageError
from aotpack.runtime.files.checked import read_checked
from aotpack.runtime.manifest import Host, read_manifest
from aotpack.target import CPU

pytestmark = pytest.mark.usefixtures("as_shipped")


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with a dynamic size; long rows, so that a call is shared among threads."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.LayerNorm(512), nn.Linear(512, 8), nn.Softmax(-1)).eval()
    sizes = ({0: torch.export.Dim("b", min=1, max=256)},)
    source = Source(module, (torch.randn(64, 512),), None, sizes, name="rows")
    precompiled = pipeline.Build(source, pipeline.BuildOptions((CPU,))).precompiled
    folder = tmp_path_factory.mktemp("rows")
    write_package(precompiled, folder)
    return folder


@pytest.fixture
def model(package: Path) -> Iterator[Model]:
    with load(package, CpuDevice(read_manifest(package), threads=4)) as loaded:
        yield loaded


@pytest.mark.row("C:L7")
def test_the_number_of_threads_changes_no_bit(package: Path) -> None:
    x = np.random.default_rng(0).normal(size=(200, 512)).astype(np.float32)
    results = []
    for threads in (1, 2, 7):
        with load(package, CpuDevice(read_manifest(package), threads=threads)) as model:
            results.append(model(x))
    assert all(np.array_equal(results[0], other) for other in results[1:])


def test_a_thread_that_does_not_come_is_not_waited_for(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where others have the processors, one may come long after its work is done."""
    doors = [threading.Event(), threading.Event()]
    start = cpu._Team._start

    def start_late(team: cpu._Team, number: int) -> None:
        work, library = team._library.aot_work, team._library
        late = SimpleNamespace(aot_work=lambda *args: doors[number].wait() and work(*args))
        team._library = late
        start(team, number)
        team._library = library

    monkeypatch.setattr(cpu._Team, "_start", start_late)
    x = np.random.default_rng(0).normal(size=(200, 512)).astype(np.float32)
    with load(package, CpuDevice(read_manifest(package), threads=3)) as model:
        alone = [model(x) for _ in range(3)]
        doors[0].set()  # comes to work that is done
        beside = [model(x) for _ in range(50)]
        doors[1].set()
    assert all(np.array_equal(alone[0], other) for other in alone + beside)


def test_a_pool_is_freed_once_its_threads_have_left(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a join that an interrupt ended, threading lets every join return at once."""
    left: list[int] = []
    start = cpu._Team._start

    def start_late(team: cpu._Team, number: int) -> None:
        work, library = team._library.aot_work, team._library

        def late(*args: object) -> None:
            time.sleep(0.1 * number)
            work(*args)
            left.append(number)

        team._library = SimpleNamespace(aot_work=late)
        start(team, number)
        team._library = library

    monkeypatch.setattr(cpu._Team, "_start", start_late)
    model = load(package, CpuDevice(read_manifest(package), threads=3))
    monkeypatch.setattr(threading.Thread, "join", lambda thread: None)
    model.close()
    monkeypatch.undo()
    until = time.monotonic() + 5
    while len(left) < 2 and time.monotonic() < until:  # they hold the GIL after the pool
        time.sleep(0.001)
    assert left == [0, 1]


def test_an_interrupted_start_ends_the_threads(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = cpu._Team._start

    def interrupted(team: cpu._Team, number: int) -> None:
        start(team, number)
        if number == 1:
            raise KeyboardInterrupt

    before = threading.active_count()
    monkeypatch.setattr(cpu._Team, "_start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        load(package, CpuDevice(read_manifest(package), threads=4))
    until = time.monotonic() + 5
    while threading.active_count() > before and time.monotonic() < until:
        time.sleep(0.001)
    assert threading.active_count() == before


def test_torch_tensors_are_used_in_place(model: Model) -> None:
    x = torch.randn(3, 512)
    result = model(x)
    assert isinstance(result, torch.Tensor)
    np.testing.assert_array_equal(result.numpy(), model(x.numpy()))


def test_weights_lie_where_the_file_is_mapped(package: Path) -> None:
    device = CpuDevice(read_manifest(package), threads=1)
    with load(package, device) as model:
        x = np.ones((2, 512), np.float32)
        before = model(x)
        assert sum(map(len, device._memory.values())) < model._weights.total
        names = [weight.name for weight in model.manifest.weights]
        bias = next(name for name in names if name == "1.bias")
        model.bind_weights({bias: np.arange(8, dtype=np.float32)}, strict=False)
        assert not np.array_equal(model(x), before)
        model.bind_weights(package / "weights.safetensors")
        np.testing.assert_array_equal(model(x), before)


def test_a_forked_child_computes_alone(package: Path) -> None:
    program = (
        "import os, sys; import numpy as np; from aotpack.runtime import load\n"
        f"model = load({str(package)!r}, 'cpu'); x = np.ones((200, 512), np.float32)\n"
        "before = model(x); child = os.fork()\n"
        "same = np.array_equal(model(x), before); model.close()\n"
        "if child == 0: os._exit(0 if same else 3)\n"
        "_, status = os.waitpid(child, 0)\n"
        "sys.exit(os.waitstatus_to_exitcode(status) or not same)\n"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], timeout=60, check=False)
    assert done.returncode == 0


def test_cpu_is_the_choice_where_nothing_else_runs(package: Path) -> None:
    with load(package) as model:
        assert model.device.name == "cpu" and model.target == "cpu"


@pytest.mark.parametrize("device", [0, "cuda:0", "1"])
def test_a_gpu_is_refused_when_the_package_has_nothing_for_it(
    package: Path, device: int | str
) -> None:
    with pytest.raises(DeviceError, match="was built for cpu alone"):
        load(package, device)


def test_a_package_without_code_for_processors_is_refused(package: Path) -> None:
    device = CpuDevice(read_manifest(package), threads=1)
    assert device.select(("sm_80", "cpu")) == ("cpu", 0)
    with pytest.raises(DeviceError, match="has binaries for sm_80. Build it with --target cpu"):
        device.select(("sm_80",))


@pytest.mark.parametrize(
    ("host", "words"),
    [
        (Host("vax", "vax"), f"is for vax machines, this one is {platform.machine()}"),
        (None, "does not say for which machine"),
    ],
)
def test_code_of_another_machine_is_refused(package: Path, host: Host | None, words: str) -> None:
    manifest = replace(read_manifest(package), host=host)
    with pytest.raises(DeviceError, match=words):
        CpuDevice(manifest, threads=1).select(("cpu",))


def test_code_for_newer_processors_is_refused_before_it_runs(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = replace(read_manifest(package), host=Host(platform.machine(), "x86-64-v3"))
    monkeypatch.setattr(cpu, "_cpu_flags", lambda: frozenset({"avx", "fma"}))
    with pytest.raises(DeviceError, match="this one lacks avx2, bmi1.*--cpu-arch x86-64"):
        CpuDevice(manifest, threads=1).select(("cpu",))
    monkeypatch.setattr(cpu, "_cpu_flags", lambda: frozenset())  # the system does not list any
    assert CpuDevice(manifest, threads=1).select(("cpu",)) == ("cpu", 0)


@pytest.mark.parametrize("symbol", ["malloc", "aot_run", "lost"])
def test_a_symbol_that_is_no_kernel_of_the_library_is_refused(package: Path, symbol: str) -> None:
    manifest = read_manifest(package)
    kernel, *_ = manifest.kernels.values()
    binary = kernel.binaries["cpu"]
    code = read_checked(package, binary.file, binary.sha256)
    device = CpuDevice(manifest, threads=1)
    assert device.load(kernel, binary, code)
    with pytest.raises(PackageError, match=f"it lacks the kernel {symbol}"):
        device.load(kernel, replace(binary, symbol=symbol), code)
    device.close()


def test_a_library_without_a_team_of_threads_is_refused(tmp_path: Path, package: Path) -> None:
    (tmp_path / "a.c").write_text("int k(void) { return 1; }")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", "a.so", "a.c"], cwd=tmp_path, check=True)
    kernel, *_ = read_manifest(package).kernels.values()
    device = CpuDevice(read_manifest(package), threads=1)
    with pytest.raises(PackageError, match="kernels.so: it lacks the function aot_open"):
        device.load(kernel, kernel.binaries["cpu"], (tmp_path / "a.so").read_bytes())


def test_memory_that_is_not_there_is_an_error_in_words(package: Path) -> None:
    with pytest.raises(DeviceError, match="allocating .* bytes on cpu"):
        CpuDevice(read_manifest(package), threads=1).alloc(1 << 62)


def test_large_results_that_go_past_the_caches_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sizes with and without a rest, rows that are aligned and rows that are not."""

    class Chains(nn.Module):
        def forward(self, *args: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return tuple(f(x) for x in args for f in (torch.relu, softmax))

    def softmax(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, -1)

    args = (torch.randn(1100, 1024), torch.randn(1050, 1023), torch.randn(3, 420_000).half())
    source = Source(Chains(), args, name="chains")
    write_package(pipeline.Build(source, pipeline.BuildOptions((CPU,))).precompiled, tmp_path)
    assert "aot_stream(&" in (tmp_path / "kernels/source/kernels.c").read_text()
    results = []
    for size in (0, 1 << 40):
        monkeypatch.setattr(cpu, "cache_bytes", lambda size=size: size)
        with load(tmp_path, CpuDevice(read_manifest(tmp_path), threads=3)) as model:
            results.append(model(*args))
    for streamed, plain, eager in zip(*results, Chains()(*args), strict=True):
        assert torch.equal(streamed, plain)
        torch.testing.assert_close(streamed, eager)


def test_the_largest_cache_is_read_from_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu, "_CACHES", tmp_path)
    assert cpu.cache_bytes() == 32 << 20
    for number, text in enumerate(("48K", "1024K", "odd")):
        (tmp_path / f"index{number}").mkdir()
        (tmp_path / f"index{number}" / "size").write_text(f"{text}\n")
    assert cpu.cache_bytes() == 1 << 20


def test_threads_that_outnumber_processors_sleep_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1})
    assert cpu._spins(1) > cpu._spins(2) > 0


def test_the_environment_bounds_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.delenv("AOTPACK_THREADS", raising=False)
    assert default_threads() == 3
    monkeypatch.setenv("AOTPACK_THREADS", "5")
    assert default_threads() == 5
    for wrong in ("all", "0", "-1"):
        monkeypatch.setenv("AOTPACK_THREADS", wrong)
        with pytest.raises(AotpackError, match=f"AOTPACK_THREADS='{wrong}'; accepted: a number"):
            default_threads()
    monkeypatch.delenv("AOTPACK_THREADS")
    monkeypatch.setenv("OMP_NUM_THREADS", "two")
    assert 1 <= default_threads() <= len(os.sched_getaffinity(0))


@pytest.mark.parametrize("threads", [0, -1])
def test_a_team_without_threads_is_refused(package: Path, threads: int) -> None:
    with pytest.raises(DeviceError, match=f"threads={threads}; accepted: 1 or more"):
        CpuDevice(read_manifest(package), threads=threads)


def _names() -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.is_alive()}


def test_a_thread_that_cannot_start_ends_the_others(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, before = threading.Thread.start, _names()

    def limited(thread: threading.Thread) -> None:
        if thread.name == "aotpack-2":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", limited)
    with pytest.raises(DeviceError, match="thread 3 of 4 cannot be started"):
        load(package, CpuDevice(read_manifest(package), threads=5))
    assert _names() == before


def test_kernels_without_huge_pages_do_without(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu.mmap, "MADV_HUGEPAGE", 999_999)
    device = CpuDevice(read_manifest(package))
    device.free(device.alloc(1 << 23))
