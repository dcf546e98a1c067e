"""Where ``load()`` puts a package when no device is named."""

from dataclasses import replace
from pathlib import Path

import pytest

from aotpack.runtime import DeviceError, load, loading
from aotpack.runtime.devices.cuda import CudaDevice
from aotpack.runtime.devices.device import Device
from aotpack.runtime.manifest import read_manifest

from .fake_device import FakeDevice

NO_GPU = "loading a model: this machine has no NVIDIA driver"


def chosen(
    package: Path, targets: tuple[str, ...], gpu: str | None, monkeypatch: pytest.MonkeyPatch
) -> Device:
    """The choice for a package with these targets, on a machine with a GPU of this kind."""

    def opened(index: int) -> FakeDevice:
        if gpu is None:
            raise DeviceError(NO_GPU)
        return FakeDevice(targets=(gpu,))

    monkeypatch.setattr(loading, "CudaDevice", opened)
    return loading.choose_device(replace(read_manifest(package), targets=targets), None)


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


def test_a_package_without_code_for_processors_is_refused_there(package: Path) -> None:
    with pytest.raises(DeviceError, match="loading on cpu: the package has binaries for fake"):
        load(package, "cpu")
    assert loading.CudaDevice is CudaDevice
