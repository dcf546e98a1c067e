"""What kernels do to memory, read from the PTX that Triton makes of their texts, without a GPU."""

import re
from collections import Counter

from aotpack.precompile.request import Request
from aotpack.precompile.worker import run_triton
from aotpack.stages import KernelSource
from aotpack.target import Target

ACCESS = re.compile(r"\b(ld|st)\.global(?:\.\w+)*?(?:\.v(\d))?\.b(\d+)\b")


def ptx(kernel: KernelSource, arch: int = 90, *, fuses_products: bool = True) -> str:
    """The PTX of a kernel for a compute capability."""
    request = Request.of(kernel, Target("cuda", arch), fuses_products=fuses_products)
    text: str = run_triton(request).asm["ptx"]
    return text


def access_bytes(kernel: KernelSource, arch: int = 90) -> dict[str, Counter[int]]:
    """For "ld" and "st": how many instructions move how many bytes a thread."""
    found: dict[str, Counter[int]] = {"ld": Counter(), "st": Counter()}
    for which, vector, bits in ACCESS.findall(ptx(kernel, arch)):
        found[which][int(vector or 1) * int(bits) // 8] += 1
    return found
