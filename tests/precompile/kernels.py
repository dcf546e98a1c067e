"""Small rendered kernels for the tests of precompile."""

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.tiles import MAX_ARCH
from aotpack.stages import Golden, KernelArg, KernelSource, Rendered, Signature
from aotpack.trees import Tree

ADD = """import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def {name}(x, y, n):
    i = tl.program_id(0) * 128 + tl.arange(0, 128)
    a = tl.load(x + i, mask=i < n, other=0.0).to(tl.float32)
    tl.store(y + i, libdevice.erf(a) + 1, mask=i < n)
"""

BROKEN = """import triton
import triton.language as tl


@triton.jit
def {name}(x, y, n):
    tl.store(y, tl.load(x) + no_such_name)
"""

GREEDY = """import triton
import triton.language as tl


@triton.jit
def {name}(x, y, n):
    i, k = tl.arange(0, 64), tl.arange(0, 128)
    total = tl.zeros([64, 64], tl.float32)
    for start in tl.range(0, n, 128, num_stages=8):
        a = tl.load(x + i[:, None] * n + start + k[None, :])
        b = tl.load(x + (start + k[:, None]) * 64 + i[None, :])
        total = tl.dot(a, b, total)
    tl.store(y + i[:, None] * 64 + i[None, :], total)
"""


def kernel(
    name: str, text: str = ADD, arches: tuple[tuple[int, int], ...] = ((0, MAX_ARCH),)
) -> KernelSource:
    args = (
        KernelArg("x", DType.FLOAT32, True, 16, is_written=False),
        KernelArg("y", DType.FLOAT32, True, 16, is_written=True),
        KernelArg("n", DType.INT32, False, is_written=False),
    )
    return KernelSource(name, text.format(name=name), args, 4, 2, arches)


def rendered(*kernels: KernelSource) -> Rendered:
    leaf = Tree("leaf")
    signature = Signature("model", "0.1.0", (), (), (), leaf, leaf, leaf)
    return Rendered(signature, (), Golden((), (), ()), kernels, "", 0)
