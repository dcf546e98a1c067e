"""CUDA driver results in plain English."""

from typing import Any

from ..errors import DeviceError

REASONS = {
    1: "a value given to the driver is not accepted; this is a defect of the package",
    2: "the GPU has no memory left; free some, load fewer models, or use smaller sizes",
    3: "the driver is not initialised; it failed or was forked: start the process anew",
    4: "the driver is shutting down, the process is ending",
    34: "only a stub of the driver library was found; install the NVIDIA driver",
    36: "the driver is older than the GPU's system software; update the driver",
    100: "no NVIDIA GPU is visible; check nvidia-smi and CUDA_VISIBLE_DEVICES",
    101: "this device number does not exist; accepted: 0 to the number of visible GPUs less one",
    200: "the kernel binary is damaged or of a format this driver does not know; update the driver",
    201: "the GPU's context is gone; load the model again",
    205: "memory could not be mapped on the GPU",
    209: "the GPU has no code in this package; build it with this GPU among the targets",
    214: "the GPU found a memory error it cannot correct; reset or replace it",
    218: "the driver could not read the kernel's code; reinstall the package",
    222: "the code needs a newer driver; update the driver",
    300: "the kernel's code is not valid",
    400: "a stream or event is no longer valid; was it destroyed?",
    500: "a symbol the package needs is missing in its binary; reinstall the package",
    600: "the work is not finished yet",
    700: "a kernel read or wrote memory it does not own; the process must start anew",
    701: "the GPU lacks registers or shared memory for a kernel; build for this very GPU",
    702: "a kernel ran too long and was stopped by the system; the process must start anew",
    709: "the GPU's context was destroyed by someone else; load the model again",
    714: "the GPU met a hardware stack error; the process must start anew",
    715: "a kernel met an illegal instruction; the process must start anew",
    716: "a kernel met a misaligned address; the process must start anew",
    719: "a kernel failed; the process must start anew",
    800: "the operation is not permitted here",
    801: "this GPU or driver does not support the operation",
    802: "the GPU's system is not ready yet; is the fabric manager running?",
    803: "the driver's kernel module and library differ in version; reboot or reinstall",
    804: "the driver is too old for compatibility mode on this GPU; update the driver",
    900: "the stream is being captured into a graph, which does not admit this",
    906: "the default stream is used while another stream is captured",
    999: "the driver reports an unknown failure",
}


def failure(doing: str, status: int, name: str = "") -> DeviceError:
    """The error for a driver call that returned ``status``."""
    code = name or f"CUDA result {status}"
    reason = REASONS.get(status, "the driver reports a failure")
    return DeviceError(f"{doing}: {reason} ({code}).")


def result(doing: str, returned: tuple[Any, ...]) -> Any:
    """The value of a cuda.bindings call, or its failure as an error."""
    status = int(returned[0])
    if status:
        raise failure(doing, status, getattr(returned[0], "name", ""))
    return returned[1] if len(returned) == 2 else None
