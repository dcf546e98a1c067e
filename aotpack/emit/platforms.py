"""Where a package runs and where it does not, in words: its METADATA and each build say so."""

from collections.abc import Sequence

from aotpack.devices import PRODUCTS
from aotpack.emit.tags import OLDEST_GLIBC
from aotpack.stages import HostBuild
from aotpack.target import Target

OLDEST_PYTHON, OLDEST_CUDA = "3.10", "12.0"
_FEATURES = {
    "x86-64": "every x86-64 processor",
    "x86-64-v2": "x86-64 processors with SSE 4.2",
    "x86-64-v3": "x86-64 processors with AVX2 and FMA",
    "x86-64-v4": "x86-64 processors with AVX-512",
    "armv8-a": "every 64-bit ARM processor",
    "armv8.2-a": "64-bit ARM processors from ARMv8.2 on",
    "armv9-a": "64-bit ARM processors from ARMv9 on",
}


def runs_on(targets: Sequence[Target], host: HostBuild | None) -> tuple[str, ...]:
    """What a package has code for, a line each."""
    lines = []
    compiled = [target for target in targets if target.backend == "cuda"]
    served = [capability for capability in PRODUCTS if _serving(compiled, capability)]
    if served:
        gpus = ", ".join(map(_gpu, served))
        lines.append(f"NVIDIA GPUs of compute capability {gpus}; a driver for CUDA {OLDEST_CUDA}")
    texts = [target.arch for target in targets if target.backend == "ptx"]
    if texts:
        oldest = f"{min(texts) // 10}.{min(texts) % 10}"
        lines.append(
            f"later NVIDIA GPUs, from compute capability {oldest} on, with load(allow_jit=True): "
            "their driver compiles the kernels from PTX"
        )
    if host is not None:
        lines.append(_FEATURES[host.arch])
    if not lines:
        return ("Triton's interpreter alone, for tests",)
    return (*lines, f"Linux{_libc(host)}, with Python {OLDEST_PYTHON} or newer")


def not_on(targets: Sequence[Target], host: HostBuild | None) -> tuple[str, ...]:
    """What a package has no code for, a line each."""
    missing = [capability for capability in PRODUCTS if not _serving(targets, capability)]
    lines = []
    if len(missing) < len(PRODUCTS):
        if missing:
            gpus = ", ".join(map(_gpu, missing))
            lines.append(f"NVIDIA GPUs of compute capability {gpus}, and GPUs of other makers")
        if host is None:
            lines.append("machines without a GPU")
    elif host is not None:
        lines.append("GPUs")
    return (*lines, "Windows and macOS")


def _serving(targets: Sequence[Target], capability: int) -> bool:
    return any(target.serves(capability) for target in targets)


def _gpu(capability: int) -> str:
    return f"{capability // 10}.{capability % 10} ({PRODUCTS[capability][0]})"


def _libc(host: HostBuild | None) -> str:
    if host is None:
        return ""
    if host.glibc is None:
        return " with musl"
    major, minor = max(host.glibc, OLDEST_GLIBC)
    return f" with glibc {major}.{minor} or newer"
