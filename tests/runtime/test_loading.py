"""From a folder to a model: what is read and refused, and the device where none is named."""

import hashlib
import importlib
import json
import os
import py_compile
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from aotpack.runtime import (
    AotpackError,
    ArgumentError,
    DeviceError,
    PackageError,
    WeightError,
    command,
    load,
    loading,
)
from aotpack.runtime.devices.cpu import CpuDevice
from aotpack.runtime.devices.cuda import CudaDevice
from aotpack.runtime.devices.device import Device
from aotpack.runtime.manifest import read_manifest

from .fake_device import FakeDevice
from .packages import rewrite, write_demo

X = np.ones((2, 3), np.float32)
NO_GPU = "loading a model: this machine has no NVIDIA driver"


def test_attributes(package: Path, device: FakeDevice) -> None:
    before = {name for name in sys.modules if name.startswith("_aotpack_package")}
    with load(package, device) as model:
        assert model.targets == ("fake",) and model.target == "fake" and model.state == {}
        takes, gives, *ranges = re.split(r" -> |\n  ", str(model.signature))
        assert takes == "demo(x: float32[b, s], y: float32[b, s])" and gives == "float32[b, s]"
        assert ranges == ["b in 1 to 8", "s in 0 to 32"] and "object at" not in repr(
            model.signature
        )
        assert repr(model) == "<Model demo 0.1.0 on fake:0>"
    assert repr(CpuDevice(read_manifest(package))) == "<CpuDevice cpu>"
    assert before.issuperset(name for name in sys.modules if name.startswith("_aotpack_package"))


def test_a_wheel_cannot_run_from_a_zip(
    package: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = package.rename(package.with_name("zipped_demo"))
    wheel = Path(shutil.make_archive(f"{folder}-1", "zip", folder.parent, folder.name))
    message = "lies in a file, such as a wheel .*: install the wheel; it cannot run from a zip"
    with pytest.raises(PackageError, match=message):
        load(wheel)
    monkeypatch.syspath_prepend(wheel)
    zipped = importlib.import_module("zipped_demo")
    try:
        with pytest.raises(zipped.PackageError, match=message):
            zipped.load()
        assert command.main(f"{zipped.__path__[0]}/__main__.py", ["info"]) == 1
        assert re.search(message, capsys.readouterr().err)
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "zipped_demo"]:
            del sys.modules[name]


def test_a_device_may_be_torchs(tmp_path: Path) -> None:
    package = write_demo(tmp_path, target="cpu")
    with pytest.raises(DeviceError, match="on cuda:3: the package was built for cpu alone"):
        load(package, torch.device("cuda", 3))
    with pytest.raises(ArgumentError, match="device='meta'; accepted: a GPU's number"):
        load(package, torch.device("meta"))


@pytest.mark.parametrize("file", ["kernels/fake/add.py", "wrapper.py"])
def test_a_flipped_byte_is_found(package: Path, device: FakeDevice, file: str) -> None:
    data = bytearray((package / file).read_bytes())
    data[5] ^= 1
    (package / file).write_bytes(data)
    with pytest.raises(PackageError, match=f"{file} is damaged: its sha256"):
        load(package, device)


@pytest.mark.parametrize(
    ("args", "options", "message"),
    [
        ((1.5,), {}, "package is of type float; accepted: the package's module, or its folder"),
        ((None,), {}, "package is of type NoneType"),
        ((".", True), {}, "device is of type bool; accepted: a GPU's number"),
        ((".", 1.5), {}, "device is of type float; accepted: a GPU's number"),
        ((".",), {"concurrency": "2"}, "concurrency is of type str; accepted: a number"),
        ((".",), {"concurrency": True}, "concurrency is of type bool; accepted: a number"),
        ((".",), {"graphs": "no"}, "graphs is of type str; accepted: True or False"),
        ((".",), {"check": "no"}, "check is of type str; accepted: True or False"),
        ((".",), {"allow_jit": 3}, "allow_jit is of type int; accepted: True or False"),
        ((".",), {"weights": 5}, "weights is of type int; accepted: a safetensors file"),
        ((".",), {"tuning": 5}, "tuning is of type int; accepted: a file of measured times"),
        ((".",), {"tuning": "gone"}, "reading the tuning file gone: it cannot be read"),
        ((".",), {"debug": "all"}, "debug='all'; accepted: \"sync\""),
        ((".", "gpu"), {}, ".*accepted: a GPU's number, .*; did you mean .cuda:0.?"),
        ((".", "cuda0"), {}, ".*accepted: a GPU's number, .*; did you mean 'cuda:0'"),
        ((".", -1), {}, "device=-1; accepted: a GPU's number"),
        (
            (".", "interpreter"),
            {},
            "device='interpreter'; .*; Triton's .* of aotpack verify, which",
        ),
        ((".", "CPU"), {}, "device='CPU'; .*; did you mean 'cpu'"),
        ((".", "vulkan"), {}, 'device=\'vulkan\'; accepted: a GPU\'s number, "cuda:0", "cpu"$'),
    ],
)
def test_options_of_other_types_are_refused_in_words(
    package: Path, args: tuple[object, ...], options: dict[str, object], message: str
) -> None:
    given = [package if one == "." else one for one in args]
    with pytest.raises(ArgumentError, match=f"^loading a model: {message}"):
        load(*given, **options)


def test_weights_that_are_no_mapping_are_refused(package: Path, device: FakeDevice) -> None:
    with (
        load(package, device) as model,
        pytest.raises(WeightError, match="binding weights to demo: they are int; accepted"),
    ):
        model.bind_weights(5)


def test_bytecode_beside_the_wrapper_is_never_run(package: Path, device: FakeDevice) -> None:
    wrapper = package / "wrapper.py"
    text = wrapper.read_text()
    wrapper.write_text('raise SystemExit("planted")' + " " * (len(text) - 27))
    py_compile.compile(str(wrapper), doraise=True)
    facts = wrapper.stat()
    wrapper.write_text(text)
    os.utime(wrapper, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    with load(package, device) as model:
        np.testing.assert_array_equal(model(X, X), X * 4)


@pytest.mark.parametrize(
    "text", ["plan = ", "import lost", "from ._runtime import Lost", "plans = 1"]
)
def test_a_wrapper_of_another_build_is_told(package: Path, device: FakeDevice, text: str) -> None:
    (package / "wrapper.py").write_text(text)
    data = json.loads((package / "manifest.json").read_bytes())
    data["wrapper_sha256"] = hashlib.sha256(text.encode()).hexdigest()
    rewrite(package, data)
    with pytest.raises(PackageError, match=r"wrapper.py does not define plan\(\)"):
        load(package, device)


@pytest.mark.parametrize("file", ["kernels/fake/add.py", "wrapper.py", "manifest.json"])
def test_a_missing_file_is_named(package: Path, device: FakeDevice, file: str) -> None:
    (package / file).unlink()
    with pytest.raises(PackageError, match=f"{file} cannot be read"):
        load(package, device)


def test_a_gpu_without_a_binary(tmp_path: Path) -> None:
    folder = write_demo(tmp_path / "demo", target="other")
    with pytest.raises(DeviceError, match="the package has binaries for"):
        load(folder, FakeDevice())


def test_concurrency_must_be_positive(package: Path, device: FakeDevice) -> None:
    with pytest.raises(AotpackError, match="concurrency=0; accepted: 1 or more"):
        load(package, device, concurrency=0)


def test_a_failed_load_gives_its_memory_back(package: Path) -> None:
    device = FakeDevice(capacity=10)
    with pytest.raises(DeviceError, match="no memory left"):
        load(package, device)
    assert device.is_closed and device.blocks == {}


def chosen(
    package: Path,
    targets: tuple[str, ...],
    gpu: str | None,
    monkeypatch: pytest.MonkeyPatch,
    device: int | str | None = None,
) -> Device:
    """The choice for a package with these targets, on a machine with a GPU of this kind."""

    def opened(index: int) -> FakeDevice:
        if gpu is None:
            raise DeviceError(NO_GPU)
        return FakeDevice(targets=(gpu,))

    monkeypatch.setattr(loading, "CudaDevice", opened)
    return loading.choose_device(replace(read_manifest(package), targets=targets), device)


@pytest.mark.parametrize(
    ("targets", "gpu", "name"),
    [
        (("sm_90", "cpu"), "sm_90", "fake:0"),
        (("sm_90", "cpu"), "sm_80", "cpu"),
        (("sm_90", "cpu"), None, "cpu"),
        (("cpu",), "sm_90", "cpu"),
        (("sm_90",), "sm_90", "fake:0"),
    ],
)
def test_the_gpu_if_there_is_code_for_it_else_the_processors(
    package: Path,
    monkeypatch: pytest.MonkeyPatch,
    targets: tuple[str, ...],
    gpu: str | None,
    name: str,
) -> None:
    assert chosen(package, targets, gpu, monkeypatch).name == name


def test_without_code_for_what_there_is_the_error_says_what_is_missing(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DeviceError, match=f"{NO_GPU}.*build with --target cpu too"):
        chosen(package, ("sm_90",), None, monkeypatch)
    device = chosen(package, ("sm_90",), "sm_80", monkeypatch)
    with pytest.raises(DeviceError, match=r"the package has binaries for .'sm_90',"):
        device.select(("sm_90",))


def test_a_gpu_that_is_asked_for_and_is_not_there(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert chosen(package, ("sm_90", "cpu"), "sm_90", monkeypatch, "cuda").name == "fake:0"
    for device in 0, "cuda":
        for targets, words in (
            (("sm_90", "cpu"), r"code for processors too: load\("),
            (
                ("sm_90",),
                f"^{NO_GPU}$",
            ),
        ):
            with pytest.raises(DeviceError, match=words):
                chosen(package, targets, None, monkeypatch, device)


def test_a_package_without_code_for_processors_is_refused_there(package: Path) -> None:
    with pytest.raises(DeviceError, match="loading on cpu: the package has binaries for fake"):
        load(package, "cpu")
    assert loading.CudaDevice is CudaDevice


def flipped(file: Path, at: int = -2) -> Path:
    content = bytearray(file.read_bytes())
    content[at] ^= 1
    file.write_bytes(content)
    return file


@pytest.mark.parametrize("place", [(2, 0), (1, 0)])
def test_a_flipped_bit_of_a_weight_is_found_unless_unchecked(
    package: Path, place: tuple[int, int]
) -> None:
    device = FakeDevice(place)
    flipped(package / "weights.safetensors")
    with pytest.raises(WeightError, match="bytes 0 to 76 have sha256 .*, the build recorded"):
        load(package, device)
    assert device.is_closed and device.blocks == {}
    with load(package, FakeDevice(place), check=False) as model:
        assert not np.array_equal(model(X, X), X * 4)


@pytest.mark.parametrize("place", [(2, 0), (1, 0)])
def test_a_sidecar_is_checked_wherever_it_lies_and_other_files_are_not(
    tmp_path: Path, place: tuple[int, int]
) -> None:
    package = write_demo(tmp_path / "demo", weights="sidecar")
    whole = write_demo(tmp_path / "whole")
    content = (whole / "weights.safetensors").read_bytes()
    sidecar, own = tmp_path / "demo-0.1.0.weights.safetensors", tmp_path / "own.safetensors"
    for file in (sidecar, own):
        file.write_bytes(content)
        flipped(file)
    for weights in (None, sidecar):
        with pytest.raises(WeightError, match="demo-0.1.0.weights.safetensors: bytes 0 to"):
            load(package, FakeDevice(place), weights=weights)
    with load(package, FakeDevice(place), weights=own) as model:
        assert not np.array_equal(model(X, X), X * 4)
    sidecar.write_bytes(content)
    with load(package, FakeDevice(place)) as model:
        np.testing.assert_array_equal(model(X, X), X * 4)


def test_a_failed_file_leaves_no_half_of_its_weights(package: Path, device: FakeDevice) -> None:
    with load(package, device) as model:
        file = flipped(package / "weights.safetensors")
        with pytest.raises(WeightError, match="bytes 0 to"):
            model.bind_weights(file, digests=model.manifest.weights_chunks)
        with pytest.raises(WeightError, match="1 of 1 weights have not been given: '.*'"):
            model(X, X)
        model.bind_weights({"scale": np.full(1, 2, np.float32)})
        np.testing.assert_array_equal(model(X, X), X * 4)
