"""A wheel for processors alone, built and then run where neither compiler nor GPU package is."""

import os
import platform
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from packaging.tags import sys_tags
from packaging.utils import parse_wheel_filename
from torch import nn

import aotpack
from aotpack.emit.package import reseal
from aotpack.errors import UsageError
from aotpack.runtime import load
from aotpack.runtime.devices.cpu import CpuDevice
from aotpack.runtime.errors import PackageError
from aotpack.runtime.manifest import read_manifest
from tests.e2e.models import mlp

BLOCKED = ("cuda", "torch", "triton", "aotpack", "jinja2")
PROGRAM = f"""
import runpy, sys
for name in {BLOCKED!r}:
    sys.modules[name] = None
sys.argv = ["two_layers", *sys.argv[1:]]
runpy.run_module("two_layers", run_name="__main__")
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As users build it: with kernels for all processors."""
    torch.manual_seed(0)
    rows = {"input": {0: torch.export.Dim("b", min=1, max=16)}}
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("AOTPACK_CFLAGS")
        return aotpack.build(
            mlp().eval(),
            (torch.randn(5, 12),),
            dynamic_shapes=rows,
            name="two_layers",
            targets="cpu",
            out=tmp_path_factory.mktemp("dist"),
        )


@pytest.fixture
def site(wheel: Path, tmp_path: Path) -> Path:
    """A folder with the wheel's files, as an installer puts them there."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    return tmp_path


def run(site: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """The package's command line, with an empty PATH and without any of the builder's packages."""
    return subprocess.run(
        [sys.executable, "-B", "-c", PROGRAM, *words],
        cwd=site,
        env={"PATH": "", "HOME": os.devnull},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_tag_is_what_the_symbols_of_the_code_ask_for(wheel: Path) -> None:
    (tag,) = parse_wheel_filename(wheel.name)[3]
    assert tag in sys_tags()
    with zipfile.ZipFile(wheel) as archive:
        code = archive.read("two_layers/kernels/cpu/kernels.so")
    versions = {(int(a), int(b)) for a, b in re.findall(rb"GLIBC_(\d+)\.(\d+)", code)}
    major, minor = max(versions | {(2, 17)})
    assert tag.platform == f"manylinux_{major}_{minor}_{platform.machine()}"


def test_it_requires_numpy_alone(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith("/METADATA"))
        lines = archive.read(name).decode().splitlines()
    assert [line for line in lines if line.startswith("Requires-Dist")] == ["Requires-Dist: numpy"]


def test_it_agrees_with_eager_where_nothing_else_is(site: Path) -> None:
    done = run(site, "verify")
    assert done.returncode == 0, done.stderr
    line = r"on cpu:\noutput0: largest error \S+, eager's \S+, allowed \S+: ok"
    assert re.match(line, done.stdout) and "no program started" in done.stdout


def test_a_gpu_is_refused_there_in_words(site: Path) -> None:
    done = run(site, "verify", "--device", "0")
    assert done.returncode == 1 and "was built for cpu alone" in done.stderr
    assert "Traceback" not in done.stderr


def test_another_answer_than_eagers_fails(site: Path) -> None:
    golden = site / "two_layers/golden.safetensors"
    data = bytearray(golden.read_bytes())
    data[-4:] = np.float32(7).tobytes()
    golden.write_bytes(data)
    reseal(site / "two_layers")
    (record,) = site.glob("*.dist-info/RECORD")
    record.unlink()  # an installation without one, as some installers leave it
    done = run(site, "verify")
    assert done.returncode == 1 and re.search(r"allowed \S+: WRONG", done.stdout)


def test_damaged_code_is_refused(site: Path) -> None:
    code = site / "two_layers/kernels/cpu/kernels.so"
    code.write_bytes(code.read_bytes()[:-1] + b"x")
    with pytest.raises(PackageError, match="kernels.so is damaged: its sha256"):
        load(site / "two_layers", "cpu")


def test_intermediates_take_what_the_build_said_and_later_calls_nothing(site: Path) -> None:
    manifest = read_manifest(site / "two_layers")
    device = CpuDevice(manifest, threads=1)
    with load(site / "two_layers", device) as model:
        before = set(device._memory)
        model(np.zeros((16, 12), np.float32))
        arenas = {a: block for a, block in device._memory.items() if a not in before}
        assert sum(map(len, arenas.values())) == manifest.peak_bytes > 0
        for rows in (1, 16, 7):
            model(np.zeros((rows, 12), np.float32))
        assert set(device._memory) == {*before, *arenas}


class Checked(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch._assert_async(x.isfinite().all(), "x must be finite")
        return x * 2


ASKING = f"""
import sys
for name in {BLOCKED!r}:
    sys.modules[name] = None
import checked, numpy
model, x = checked.load(), numpy.float32([1, 2, 3])
for wrong in (numpy.nan, numpy.inf):
    assert model(x).tolist() == [2, 4, 6]
    try:
        model(x * numpy.float32(wrong))
    except checked.AssertionFailed as error:
        print(error)
try:
    model(x.astype("float64"))
except checked.ArgumentError as error:
    print(type(error).__name__)
"""


@pytest.mark.row("S:H26")
def test_what_the_model_asserts_is_checked_where_nothing_else_is(tmp_path: Path) -> None:
    out = tmp_path / "dist"
    wheel = aotpack.build(Checked(), (torch.ones(3),), name="checked", targets="cpu", out=out)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    done = subprocess.run(
        [sys.executable, "-B", "-c", ASKING],
        cwd=tmp_path,
        env={"PATH": "", "HOME": os.devnull},
        capture_output=True,
        text=True,
        check=True,
    )
    line = "aten._assert_async.msg at test_cpu_wheel.py:\\d+: torch._assert_async"
    told = f"calling checked: an assertion failed: x must be finite\n  {line}"
    assert len(re.findall(told, done.stdout)) == 2
    assert done.stdout.endswith("\nArgumentError\n")


def test_code_for_another_machine_is_refused_before_tracing(tmp_path: Path) -> None:
    other = "armv8-a" if platform.machine() == "x86_64" else "x86-64"
    with pytest.raises(UsageError, match=f"--cpu-arch {other} cannot be built on this"):
        aotpack.build(mlp(), ("no tensor",), targets="cpu", cpu_arch=other, out=tmp_path)
    with pytest.raises(UsageError, match="--cpu-arch z80 is not known; accepted: "):
        aotpack.build(mlp(), ("no tensor",), targets="cpu", cpu_arch="z80", out=tmp_path)
    assert not list(tmp_path.iterdir())


class Constant(nn.Module):
    """A model without arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.arange(3.0))

    def forward(self) -> torch.Tensor:
        return self.weight * 2


def test_a_call_without_arguments_gives_an_array_of_numpy() -> None:
    found = aotpack.compile(Constant(), (), target="cpu")()
    assert type(found) is np.ndarray and found.tolist() == [0.0, 2.0, 4.0]
