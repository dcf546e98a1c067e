import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from aotpack.runtime import ArgumentError, DeviceError, load, loading
from aotpack.runtime.devices import cuda
from aotpack.runtime.devices.cuda import CudaDevice

from ..fake_library import FakeLibrary


class _Driver(ModuleType):
    """As much of cuda.bindings.driver as is used before a context exists."""

    def __init__(self, *, version: int = 13000, init: int = 0, count: int = 1) -> None:
        super().__init__("cuda.bindings.driver")
        self.version, self.init, self.count = version, init, count

    def cuInit(self, flags: int) -> tuple[int]:
        return (self.init,)

    def cuDriverGetVersion(self) -> tuple[int, int]:
        return (0, self.version)

    def cuDeviceGetCount(self) -> tuple[int, int]:
        return (0, self.count)


@pytest.mark.row("S:P4", "C:inv30")
@pytest.mark.parametrize(
    ("driver", "device", "message"),
    [
        (_Driver(init=100), 0, "no NVIDIA GPU is visible"),
        (_Driver(version=11040), 0, "speaks CUDA 11.4; accepted: 12.0 or newer. Update"),
        (_Driver(count=2), 2, "loading on cuda:2: this machine shows 2 GPUs; accepted: 0 to 1"),
        (_Driver(), 1, "loading on cuda:1: this machine shows 1 GPUs"),
    ],
)
def test_machines_that_cannot_run(
    package: Path, monkeypatch: pytest.MonkeyPatch, driver: _Driver, device: int, message: str
) -> None:
    bindings = SimpleNamespace(driver=driver)
    monkeypatch.setattr(cuda, "_library", lambda: None)
    monkeypatch.setitem(sys.modules, "cuda.bindings", bindings)
    with pytest.raises(DeviceError, match=message):
        load(package, device)


def test_a_device_below_0_is_refused(package: Path) -> None:
    with pytest.raises(ArgumentError, match="device=-1; accepted: a GPU's number"):
        load(package, -1)


@pytest.mark.row("S:P4")
def test_no_driver(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> None:
        raise OSError("libcuda.so.1: cannot open shared object file")

    monkeypatch.setattr(cuda, "_library", absent)
    with pytest.raises(DeviceError, match="no NVIDIA driver .libcuda.so.1.*Install the driver"):
        load(package, 0)


def test_no_bindings(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "_library", lambda: None)
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    with pytest.raises(DeviceError, match="cuda-bindings cannot be imported.*pip install"):
        load(package)


@pytest.mark.parametrize(
    ("gpu", "targets", "chosen"),
    [
        ((8, 0), ["sm_80", "sm_90"], "sm_80"),
        ((8, 9), ["sm_80", "sm_86", "sm_90"], "sm_86"),
        ((9, 0), ["sm_80", "sm_90"], "sm_90"),
        ((9, 0), ["sm_90", "sm_90a"], "sm_90a"),
        ((12, 0), ["sm_100", "sm_120"], "sm_120"),
    ],
)
def test_the_newest_target_that_runs(gpu: tuple[int, int], targets: list[str], chosen: str) -> None:
    assert _gpu(gpu).select(targets)[0] == chosen


@pytest.mark.row("C:inv30")
@pytest.mark.parametrize(
    ("gpu", "targets"),
    [
        ((7, 5), ["sm_80"]),
        ((8, 0), ["sm_86", "interpreter"]),
        ((10, 3), ["sm_100"]),  # architecture-specific from 9.0 on
        ((8, 9), ["sm_86a"]),
    ],
)
def test_a_gpu_without_a_binary(gpu: tuple[int, int], targets: list[str]) -> None:
    with pytest.raises(DeviceError, match=f"the GPU is sm_{gpu[0]}{gpu[1]} and the package"):
        _gpu(gpu).select(targets)


@pytest.mark.parametrize(
    ("gpu", "targets", "chosen"),
    [
        ((9, 0), ["sm_80", "ptx_80"], ("ptx_80", 80)),
        ((10, 0), ["sm_90", "ptx_80", "ptx_89"], ("ptx_89", 89)),
        ((8, 6), ["sm_80", "ptx_80"], ("sm_80", 80)),  # code goes before text
        ((8, 6), ["sm_90", "ptx_80", "ptx_89"], ("ptx_80", 80)),
    ],
)
def test_text_is_taken_where_no_code_runs(
    gpu: tuple[int, int], targets: list[str], chosen: tuple[str, int]
) -> None:
    assert loading.select(_gpu(gpu), targets, True) == chosen


@pytest.mark.parametrize("targets", [["sm_80", "ptx_80"], ["ptx_80"]])
def test_without_leave_text_is_refused_and_both_ways_out_are_named(targets: list[str]) -> None:
    both = r"Build it with --target sm_100, or use.* Or load\(allow_jit=True\): .* ptx_80"
    with pytest.raises(DeviceError, match=both):
        loading.select(_gpu((10, 0)), targets, False)
    with pytest.raises(DeviceError, match="the GPU is sm_75") as caught:
        loading.select(_gpu((7, 5)), targets, False)
    assert "allow_jit" not in str(caught.value)  # it would not help
    with pytest.raises(DeviceError, match="the GPU is sm_75"):
        loading.select(_gpu((7, 5)), targets, True)


def _gpu(capability: tuple[int, int]) -> CudaDevice:
    """A device of some compute capability that was never opened."""
    device = CudaDevice.__new__(CudaDevice)
    device.name = "cuda:0"
    device._major, device._minor = capability
    return device


class _Zeroing:
    """As much of cuda.bindings.driver as zeroing memory needs; it notes what it is asked."""

    CUstream_flags = SimpleNamespace(CU_STREAM_NON_BLOCKING=1)

    def __init__(self, fails: str = "") -> None:
        self.fails, self.asked = fails, list[tuple[str, int]]()

    def __getattr__(self, name: str) -> Callable[..., tuple[int, int]]:
        def call(*args: int) -> tuple[int, int]:
            self.asked.append((name, args[-1]))
            return (719 if name == self.fails else 0), 42

        return call


def test_memory_is_zeroed_beside_a_capture_not_in_it() -> None:
    driver = _Zeroing()
    _unopened(driver).clear(4096, 256)
    assert driver.asked == [
        ("cuStreamCreate", 1),
        ("cuMemsetD8Async", 42),
        ("cuStreamSynchronize", 42),
        ("cuStreamDestroy", 42),
    ]


def test_zeroing_that_fails_says_so_and_keeps_no_stream() -> None:
    driver = _Zeroing("cuMemsetD8Async")
    with pytest.raises(DeviceError, match="zeroing 256 bytes on cuda:0"):
        _unopened(driver).clear(4096, 256)
    assert driver.asked[-1] == ("cuStreamDestroy", 42)


def _unopened(driver: _Zeroing) -> CudaDevice:
    """A device with this driver that was never opened."""
    device = CudaDevice.__new__(CudaDevice)
    device.driver, device.name, device._library = driver, "cuda:0", FakeLibrary()
    return device


class _Copying:
    """As much of cuda.bindings.driver as copies to the GPU need; addresses from 100 are pinned."""

    CUpointer_attribute = SimpleNamespace(CU_POINTER_ATTRIBUTE_MEMORY_TYPE=2)
    CUmemorytype = SimpleNamespace(CU_MEMORYTYPE_HOST=1)

    def __init__(self) -> None:
        self.asked = list[str]()

    def cuMemcpyHtoDAsync(self, target: int, source: int, size: int, stream: int) -> tuple[int]:
        self.asked.append(f"copy {size} from {source}")
        return (0,)

    def cuPointerGetAttribute(self, attribute: int, address: int) -> tuple[int, int | None]:
        return (0, 1) if address >= 100 else (1, None)

    def cuStreamSynchronize(self, stream: int) -> tuple[int]:
        self.asked.append(f"wait for {stream}")
        return (0,)


@pytest.mark.parametrize(
    ("source", "size", "capturing", "asked"),
    [
        (100, 8, 0, ["copy 8 from 100", "wait for 3"]),  # pinned: it may be overwritten on return
        (8, 8, 0, ["copy 8 from 8"]),  # the driver has read it on return
        (100, 8, 1, ["copy 8 from 100"]),  # a capture cannot wait; its replays read the memory
        (100, 0, 0, []),
    ],
)
def test_what_was_copied_to_a_gpu_may_be_overwritten(
    monkeypatch: pytest.MonkeyPatch, source: int, size: int, capturing: int, asked: list[str]
) -> None:
    device = _gpu((9, 0))
    device.driver = _Copying()
    monkeypatch.setattr(device, "capture", lambda stream: capturing)
    device.copy_in(4096, source, size, 3)
    assert device.driver.asked == asked


class _Loader(ModuleType):
    """As much of cuda.bindings.driver as loading a kernel takes; it declares some memory itself."""

    def __init__(self, declared: int) -> None:
        super().__init__("cuda.bindings.driver")
        self.declared, self.asked, self.carveouts = declared, list[int](), list[int]()
        names = (
            "SHARED_SIZE_BYTES",
            "MAX_DYNAMIC_SHARED_SIZE_BYTES",
            "PREFERRED_SHARED_MEMORY_CARVEOUT",
        )
        self.CUfunction_attribute = SimpleNamespace(
            **{f"CU_FUNC_ATTRIBUTE_{name}": name for name in names}
        )
        self.CUdevice_attribute = SimpleNamespace(
            CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN="most"
        )

    def cuLibraryLoadData(self, *args: object) -> tuple[int, str]:
        return 0, "library"

    def cuLibraryGetKernel(self, library: str, symbol: bytes) -> tuple[int, str]:
        return 0, "kernel"

    def cuKernelGetFunction(self, kernel: str) -> tuple[int, int]:
        return 0, 7

    def cuFuncGetAttribute(self, name: str, function: int) -> tuple[int, int]:
        return 0, self.declared

    def cuFuncSetAttribute(self, function: int, name: str, value: int) -> tuple[int]:
        (self.carveouts if name == "PREFERRED_SHARED_MEMORY_CARVEOUT" else self.asked).append(value)
        return (0,)

    def cuDeviceGetAttribute(self, name: str, device: int) -> tuple[int, int]:
        return 0, 64 * 1024


def _loaded(shared: int, declared: int, carveout: int = 0) -> _Loader:
    """The driver that was asked for a kernel of so many bytes."""
    device = object.__new__(CudaDevice)
    device.driver, device.name, device.number = _Loader(declared), "cuda:0", 0
    device._libraries, device._version, device._major, device._minor = {}, 13000, 9, 0
    binary = SimpleNamespace(
        file="k.cubin",
        symbol="k",
        shared=shared,
        num_ctas=1,
        num_warps=4,
        starts_early=False,
        maps=(),
        carveout=carveout,
    )
    kernel = SimpleNamespace(maps=(), args=(), reads_early=False)
    assert device.load(kernel, binary, b"code").shared == shared  # type: ignore[arg-type]
    return device.driver


def test_more_than_a_block_has_at_first_is_asked_for_with_what_the_code_declares() -> None:
    assert _loaded(49_152, 0).asked == []
    assert _loaded(49_153, 0).asked == [49_153]
    assert _loaded(43_008, 8_448).asked == [43_008]
    assert _loaded(0, 8_448).asked == []


def test_a_split_of_memory_is_asked_for_where_the_package_has_one() -> None:
    assert _loaded(0, 0, 58).carveouts == [58]
    assert _loaded(0, 0).carveouts == []


def test_more_than_a_block_can_have_is_an_error() -> None:
    with pytest.raises(DeviceError, match="takes 66,048 bytes of shared memory, and a block has"):
        _loaded(57_600, 8_448)
