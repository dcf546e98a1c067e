"""The targets of packages: the ``Target`` value, its spellings, and "native".

From 9.0 on the compiled code is always the architecture-specific kind (``sm_90a``), so ``sm_90``
and ``sm_90a`` are two spellings of one target. ``+PTX`` behind a target adds another one: text for
newer GPUs, whose driver compiles it. Text that is architecture-specific runs on no newer GPU, so
behind targets from 9.0 on it is that of the newest earlier architecture.
"""

import ctypes
import re
from collections.abc import Iterable
from dataclasses import dataclass

from aotpack.devices import HOPPER, arch_of_product
from aotpack.errors import UsageError, did_you_mean

SUPPORTED_ARCHES = (80, 86, 89, 90, 100, 103, 120)
_NOT_BUILT_YET = {"gfx": "AMD code objects"}
_PTX = "+ptx"
_SPELLING = re.compile(r"(?:sm_)?(\d+)(?:\.(\d))?(a?)")
_BACKENDS = ("cuda", "ptx", "cpu", "interpreter")
_CUDA_ATTRIBUTES = (75, 76)  # compute capability, major and minor, in cuDeviceGetAttribute


@dataclass(frozen=True, slots=True, order=True)
class Target:
    """A backend and the compute capability, as major*10 + minor; "cpu" has 0.

    "cuda" is code, "ptx" text that the driver compiles. The interpreter runs the kernels rendered
    for the oldest GPU.
    """

    backend: str
    arch: int = 0

    def __post_init__(self) -> None:
        if self.backend not in _BACKENDS:
            raise UsageError(
                f"making a Target: the backend {self.backend!r} is not known; accepted are "
                f"{', '.join(_BACKENDS)}, and Target.parse('sm_90')"
            )

    def __str__(self) -> str:
        prefix = {"cuda": "sm", "ptx": "ptx"}.get(self.backend)
        return self.backend if prefix is None else f"{prefix}_{self.arch}"

    @property
    def is_native(self) -> bool:
        """True where kernels are compiled for a GPU: code or text."""
        return self.backend in ("cuda", "ptx")

    def serves(self, capability: int) -> bool:
        """True if its code runs on GPUs of a compute capability, major * 10 + minor.

        Code for 8.x runs on 8.y from x on; from 9.0 on code is for one capability alone. Text runs
        on every later one.
        """
        if self.backend == "ptx":
            return self.arch <= capability
        if self.backend != "cuda":
            return False
        is_later = self.arch < capability and self.arch // 10 == capability // 10
        return capability == self.arch or (is_later and self.arch < HOPPER)

    @staticmethod
    def parse(text: str) -> "Target":
        """Read one spelling: sm_90, sm_90a, 9.0, 9.0a, cpu, interpreter, native."""
        spelling = text.strip().lower()
        if spelling == "interpreter":
            return INTERPRETER
        if spelling == "cpu":
            return CPU
        if spelling == "native":
            return native_target()
        if spelling.endswith(_PTX):
            raise UsageError(f"target {text!r} is two targets, and one is accepted here")
        _refuse_unbuilt(text, spelling)
        match = _SPELLING.fullmatch(spelling)
        if match is None:
            raise UsageError(f"target {text!r} is not known; {accepted_targets()}{_meant(text)}")
        major, minor, suffix = match.groups()
        arch = int(major) if minor is None else int(major) * 10 + int(minor)
        if arch not in SUPPORTED_ARCHES or (suffix and arch < 90):
            raise UsageError(f"target {text!r} is not supported; {accepted_targets()}")
        return Target("cuda", arch)


INTERPRETER = Target("interpreter", 80)
CPU = Target("cpu")
DEFAULT_TARGETS = (Target("cuda", 80), Target("cuda", 90), Target("cuda", 120))


def accepted_targets() -> str:
    """The sentence that ends each error about a target."""
    names = ", ".join(f"sm_{arch}" for arch in SUPPORTED_ARCHES)
    return (
        f"accepted are {names} (also as 9.0, or with PTX: 8.0+PTX), cpu, interpreter, native, all"
    )


def parse_targets(text: str | Iterable[str]) -> tuple[Target, ...]:
    """Read a list of spellings, given apart or with commas; sorted, each once."""
    texts = [text] if isinstance(text, str) else list(text)
    found: set[Target] = set()
    for spelling in (part.strip() for item in texts for part in str(item).split(",")):
        if spelling.lower() == "all":
            found.update(Target("cuda", arch) for arch in SUPPORTED_ARCHES)
        elif spelling.lower().endswith(_PTX):
            found.update(_with_text(spelling))
        else:
            found.add(Target.parse(spelling))
    if not found:
        raise UsageError(f"no target is given; {accepted_targets()}")
    return tuple(sorted(found))


def _with_text(spelling: str) -> tuple[Target, Target]:
    """The targets of ``sm_80+PTX``: code, and text for newer GPUs."""
    code = Target.parse(spelling[: -len(_PTX)])
    if code.backend != "cuda":
        raise UsageError(
            f"target {spelling!r}: PTX is for GPUs; accepted before +PTX are "
            f"{', '.join(f'sm_{arch}' for arch in SUPPORTED_ARCHES)}, and native"
        )
    portable = max(arch for arch in SUPPORTED_ARCHES if arch < HOPPER)
    return code, Target("ptx", min(code.arch, portable))


def native_target() -> Target:
    """The target for the first GPU of this machine."""
    arch = device_arch()
    if arch is None:
        raise UsageError(
            "target 'native' asks the NVIDIA driver for the GPU of this machine, and no driver with"
            " a GPU was found; name the target to build for instead, such as sm_90 or cpu"
        )
    if arch in SUPPORTED_ARCHES:
        return Target("cuda", arch)
    runnable = [known for known in SUPPORTED_ARCHES if Target("cuda", known).serves(arch)]
    if not runnable:
        raise UsageError(
            f"the GPU of this machine is sm_{arch}, which is not supported; {accepted_targets()}"
        )
    return Target("cuda", runnable[-1])


def device_arch(device: int = 0) -> int | None:
    """The compute capability the CUDA driver reports for a device; None without driver or GPU."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    handle = ctypes.c_int()
    if driver.cuInit(0) or driver.cuDeviceGet(ctypes.byref(handle), device):
        return None
    major, minor = ctypes.c_int(), ctypes.c_int()
    for value, attribute in zip((major, minor), _CUDA_ATTRIBUTES, strict=True):
        if driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, handle):
            return None
    return major.value * 10 + minor.value


def _meant(text: str) -> str:
    """The target that a product's name or another spelling probably means, for an error."""
    arch = arch_of_product(text)
    if arch is not None and arch not in SUPPORTED_ARCHES:
        return f"; {text} has the compute capability {arch // 10}.{arch % 10}"
    if arch is not None:
        return f"; did you mean 'sm_{arch}'?"
    spelt = text.strip().lower()
    if spelt in ("gpu", "cuda"):
        return "; did you mean 'native', the GPU of this machine?"
    if spelt.startswith(("x86", "amd64", "arm", "aarch64")):
        return "; did you mean 'cpu'? --cpu-arch says which processors it runs on"
    digits = re.search(r"(\d+)\D*$", text)
    names = ("cpu", "interpreter", "native", "all", *(f"sm_{arch}" for arch in SUPPORTED_ARCHES))
    return did_you_mean(f"sm_{digits[1]}" if digits else text, names)


def _refuse_unbuilt(text: str, spelling: str) -> None:
    """Refuse targets that only a later version may build, with their names."""
    kind = spelling[:3]
    if kind in _NOT_BUILT_YET:
        raise UsageError(
            f"target {text!r} is not built by this version ({_NOT_BUILT_YET[kind]});"
            f" {accepted_targets()}"
        )
