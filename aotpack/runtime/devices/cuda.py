"""The port to an NVIDIA GPU over cuda.bindings: memory, copies, streams, modules."""

import ctypes
import os
import re
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from ..errors import DeviceError
from ..manifest import Binary, Kernel
from .cuda_errors import failure, result
from .cuda_executor import cuda_executor
from .cuda_launch import Function, relaxed
from .device import Step
from .tensor_maps import map_specs

OLDEST_DRIVER = 12000
STATIC_SHARED = 48 * 1024  # more must be requested
_PORTABLE_CLUSTER = 8
_STARTS_EARLY = 12030  # the first driver with programmatic launches in graphs
_ARCHITECTURE_SPECIFIC = 9  # from this major on, code is for one minor
_TARGET = re.compile(r"sm_(\d+)(\d)([af]?)")
_TEXT = re.compile(r"ptx_(\d+)")


class _Current(threading.local):
    """Where the driver writes the context of a thread: made once, for every call asks."""

    def __init__(self) -> None:
        context = ctypes.c_void_p()
        self.context = context, ctypes.byref(context)


_current = _Current()


class CudaDevice:
    """One GPU with its primary context, which other libraries of the process share."""

    def __init__(self, index: int) -> None:
        self.driver, self._version = _driver()
        driver = self.driver
        self.name, self.place = f"cuda:{index}", (2, index)
        count = int(result("counting GPUs", driver.cuDeviceGetCount()))
        if not 0 <= index < count:
            raise DeviceError(
                f"loading on cuda:{index}: this machine shows {count} GPUs; accepted: 0 to "
                f"{count - 1}. Check CUDA_VISIBLE_DEVICES."
            )
        self.number = result(f"opening {self.name}", driver.cuDeviceGet(index))
        attributes = driver.CUdevice_attribute
        self._major, self._minor = (
            int(result("asking the GPU", driver.cuDeviceGetAttribute(attribute, self.number)))
            for attribute in (
                attributes.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                attributes.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
            )
        )
        self._context = int(
            result(f"opening {self.name}", driver.cuDevicePrimaryCtxRetain(self.number))
        )
        release = driver.cuDevicePrimaryCtxRelease
        # Arrays returned to the caller outlive the model and reference this object.
        weakref.finalize(self, release, self.number).atexit = False
        self._library = _library()
        self._handle = ctypes.c_void_p(self._context)
        self._libraries: dict[bytes, Any] = {}

    def __repr__(self) -> str:
        return f"<CudaDevice {self.name}>"

    def select(self, targets: Sequence[str]) -> tuple[str, int]:
        """The newest target that runs here: same major, no higher minor; else PTX, if it is given.

        From 9.0 on aotpack compiles architecture-specific code, which requires the exact minor.
        """
        best: tuple[int, bool, str] | None = None
        for target in targets:
            match = _TARGET.fullmatch(target)
            if match is None:
                continue
            major, minor, suffix = int(match[1]), int(match[2]), match[3]
            is_exact = minor == self._minor
            if major != self._major or minor > self._minor:
                continue
            if not is_exact and (suffix == "a" or major >= _ARCHITECTURE_SPECIFIC):
                continue
            best = max(best or (-1, False, ""), (minor, suffix == "a", target))
        if best is None:
            here = self._major * 10 + self._minor
            texts = [int(match[1]) for match in map(_TEXT.fullmatch, targets) if match]
            if usable := [arch for arch in texts if arch <= here]:
                return f"ptx_{max(usable)}", max(usable)
            raise DeviceError(
                f"loading on {self.name}: the GPU is sm_{self._major}{self._minor} and the package "
                f"has binaries for {', '.join(targets)}. Build it with --target "
                f"sm_{self._major}{self._minor}, or use another GPU."
            )
        return best[2], self._major * 10 + best[0]

    def enter(self) -> bool:
        context, reference = _current.context
        status = self._library.cuCtxGetCurrent(reference)
        if status == 0 and context.value == self._context:
            return False
        status = self._library.cuCtxPushCurrent_v2(self._handle)
        if status:
            raise failure(f"using {self.name}", status)
        return True

    def leave(self) -> None:
        self._library.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))

    def alloc(self, size: int) -> int:
        doing = f"allocating {size:,} bytes on {self.name}"
        with relaxed(self._library):
            return int(result(doing, self.driver.cuMemAlloc(size)))

    def free(self, address: int) -> None:
        with relaxed(self._library):
            result(f"freeing memory on {self.name}", self.driver.cuMemFree(address))

    def alloc_shared(self, size: int) -> int:
        """Pinned host memory, which kernels address as the host does (unified addressing)."""
        driver, doing = self.driver, f"allocating {size:,} bytes of the host for {self.name}"
        flags = driver.CU_MEMHOSTALLOC_PORTABLE | driver.CU_MEMHOSTALLOC_DEVICEMAP
        with relaxed(self._library):
            return int(result(doing, driver.cuMemHostAlloc(size, flags)))

    def free_shared(self, address: int) -> None:
        with relaxed(self._library):
            result(f"freeing memory for {self.name}", self.driver.cuMemFreeHost(address))

    def lock(self, address: int, size: int) -> None:
        driver, doing = self.driver, f"locking {size:,} bytes of the host for {self.name}"
        with relaxed(self._library):
            flags = driver.CU_MEMHOSTREGISTER_PORTABLE
            result(doing, driver.cuMemHostRegister(address, size, flags))

    def unlock(self, address: int) -> None:
        with relaxed(self._library):
            doing = f"unlocking memory of the host for {self.name}"
            result(doing, self.driver.cuMemHostUnregister(address))

    def copy_in(self, target: int, source: int, size: int, stream: int) -> None:
        if size:
            doing = f"copying {size:,} bytes to {self.name}"
            result(doing, self.driver.cuMemcpyHtoDAsync(target, source, size, stream))
            if self._is_page_locked(source) and not self.capture(stream):
                self.synchronize(stream)  # such memory is read after the call has returned

    def _is_page_locked(self, address: int) -> bool:
        """True for pinned memory of the host; the driver knows no other host memory."""
        driver = self.driver
        attribute = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE
        status, kind = driver.cuPointerGetAttribute(attribute, address)
        return not status and int(kind) == driver.CUmemorytype.CU_MEMORYTYPE_HOST

    def copy_out(self, target: int, source: int, size: int, stream: int) -> None:
        if size:
            doing = f"copying {size:,} bytes from {self.name}"
            result(doing, self.driver.cuMemcpyDtoHAsync(target, source, size, stream))

    def copy(self, target: int, source: int, size: int, stream: int) -> None:
        if size:
            doing = f"copying {size:,} bytes on {self.name}"
            result(doing, self.driver.cuMemcpyDtoDAsync(target, source, size, stream))

    def clear(self, address: int, size: int) -> None:
        driver, doing = self.driver, f"zeroing {size:,} bytes on {self.name}"
        with relaxed(self._library):
            flags = driver.CUstream_flags.CU_STREAM_NON_BLOCKING
            own = result(doing, driver.cuStreamCreate(flags))
            try:
                result(doing, driver.cuMemsetD8Async(address, 0, size, own))
                result(doing, driver.cuStreamSynchronize(own))
            finally:
                driver.cuStreamDestroy(own)

    def synchronize(self, stream: int | None) -> None:
        doing = f"waiting for {self.name}"
        if stream is None:
            result(doing, self.driver.cuCtxSynchronize())
        else:
            result(doing, self.driver.cuStreamSynchronize(stream))

    def event(self) -> int:
        flags = self.driver.CUevent_flags.CU_EVENT_DISABLE_TIMING
        return int(result("making an event", self.driver.cuEventCreate(flags)))

    def record(self, event: int, stream: int) -> None:
        status = self._library.cuEventRecord(ctypes.c_void_p(event), ctypes.c_void_p(stream))
        if status:
            raise failure(f"marking the end of a call on {self.name}", status)

    def wait(self, event: int, stream: int) -> None:
        result(f"ordering streams on {self.name}", self.driver.cuStreamWaitEvent(stream, event, 0))

    def drop(self, event: int) -> None:
        result("dropping an event", self.driver.cuEventDestroy(event))

    def owner(self, address: int) -> int:
        attribute = self.driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
        asked = self.driver.cuPointerGetAttribute(attribute, address)
        return int(result("asking whose memory an argument is", asked))

    def load(self, kernel: Kernel, binary: Binary, code: bytes) -> Function:
        driver, doing = self.driver, f"loading {binary.file} on {self.name}"
        if binary.file.endswith(".ptx"):
            code += b"\0"  # the driver compiles a text that ends here
        if code not in self._libraries:
            loaded = driver.cuLibraryLoadData(code, [], [], 0, [], [], 0)
            self._libraries[code] = result(doing, loaded)
        found = driver.cuLibraryGetKernel(self._libraries[code], binary.symbol.encode())
        function = result(doing, driver.cuKernelGetFunction(result(doing, found)))
        attributes = driver.CUfunction_attribute
        name = attributes.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES  # that the code declares itself
        needed = binary.shared + int(result(doing, driver.cuFuncGetAttribute(name, function)))
        if needed > STATIC_SHARED:
            self._check_shared(doing, needed)
            name = attributes.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            result(doing, driver.cuFuncSetAttribute(function, name, binary.shared))
        if binary.num_ctas > _PORTABLE_CLUSTER:
            name = attributes.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
            result(doing, driver.cuFuncSetAttribute(function, name, 1))
        if binary.carveout:
            name = attributes.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT
            result(doing, driver.cuFuncSetAttribute(function, name, binary.carveout))
        early = binary.starts_early and self._version >= _STARTS_EARLY
        threads = 32 * binary.num_warps
        maps = map_specs(kernel.maps, binary.maps, kernel.args)
        shape = (threads, binary.shared, binary.num_ctas)
        return Function(int(function), *shape, early, maps, reads_early=kernel.reads_early)

    def _check_shared(self, doing: str, needed: int) -> None:
        """Code has what its target has; PTX may come to a GPU with less shared memory."""
        attribute = self.driver.CUdevice_attribute
        optin = attribute.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
        most = int(result(doing, self.driver.cuDeviceGetAttribute(optin, self.number)))
        if needed > most:
            raise DeviceError(
                f"{doing}: the kernel takes {needed:,} bytes of shared memory, and a block has "
                f"{most:,} here. Build it with --target sm_{self._major}{self._minor}."
            )

    def capture(self, stream: int) -> int:
        if stream == 0:
            return 0  # the default stream cannot be captured
        status, number = ctypes.c_int(), ctypes.c_ulonglong()
        found = ctypes.byref(status), ctypes.byref(number)
        failed = self._library.cuStreamGetCaptureInfo_v2(
            ctypes.c_void_p(stream), *found, None, None, None
        )
        if failed:
            raise failure(f"asking whether a stream of {self.name} is being captured", failed)
        return number.value if status.value else 0

    def executor(
        self, steps: Sequence[Step], cells: "ctypes.Array[ctypes.c_uint64]", *, graphs: bool
    ) -> Callable[[int], None]:
        return cuda_executor(self.name, self._library, steps, cells, graphs=graphs)

    def close(self) -> None:
        while self._libraries:  # a close that dies is repeated; none is unloaded twice
            _, library = self._libraries.popitem()
            result(f"unloading kernels from {self.name}", self.driver.cuLibraryUnload(library))


def _driver() -> tuple[Any, int]:
    """cuda.bindings.driver, initialised, and the version of CUDA that the driver speaks."""
    try:
        _library()  # cuda-bindings would start programs to find a missing one
    except OSError as error:
        raise DeviceError(
            f"loading a model: this machine has no NVIDIA driver ({error}). Install the driver, or "
            "run on a machine with a GPU; in a container, pass the GPU through."
        ) from None
    try:
        from cuda.bindings import driver
    except ImportError as error:
        raise DeviceError(
            f"loading a model: cuda-bindings cannot be imported ({error}). It is a requirement of "
            "this package: pip install cuda-bindings."
        ) from None
    result("starting the NVIDIA driver", driver.cuInit(0))
    version = int(result("asking the driver's version", driver.cuDriverGetVersion()))
    if version < OLDEST_DRIVER:
        raise DeviceError(
            f"loading a model: the NVIDIA driver speaks CUDA {_cuda(version)}; accepted: "
            f"{_cuda(OLDEST_DRIVER)} or newer. Update the driver."
        )
    return driver, version


def _library() -> ctypes.CDLL:
    """The driver library, for the calls of every inference."""
    return ctypes.CDLL("nvcuda.dll" if os.name == "nt" else "libcuda.so.1")


def _cuda(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"
