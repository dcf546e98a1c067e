"""A precompiled build to emit; nothing in it can run."""

from dataclasses import replace
from typing import Any

from aotpack.emit.names import Identity
from aotpack.ir.dtypes import DType
from aotpack.ir.symbolic.integers import Int, Var
from aotpack.stages import (
    Binary,
    Golden,
    KernelArg,
    KernelSource,
    Precompiled,
    Rendered,
    Signature,
    TensorSpec,
    Weight,
)
from aotpack.target import Target
from aotpack.trees import Tree

B = Var("b", 1, 8)
LEAF = Tree("leaf")
WRAPPER = '"""tiny: 1 launch."""\nfrom ._runtime import Buffer, Launch, Plan\n'
TARGETS = (Target("cuda", 80), Target("cuda", 90))
IDENTITY = Identity.of("Tiny-Model", "1.0-rc1")


def tiny(weight: bytes = bytes(range(8)), **signature: Any) -> Precompiled:
    """Two kernels for two targets; on sm_80 both have the same code."""
    x = TensorSpec("x", DType.FLOAT32, (Int.of(B), Int.of(4)))
    y = TensorSpec("output0", DType.FLOAT32, (2 * Int.of(B), Int.of(4)))
    args = Tree("tuple", (LEAF,))
    whole = Signature("Tiny-Model", "1.0-rc1", (B,), (x,), (y,), args, Tree("dict"), LEAF, ("x",))
    golden = Golden(
        (("x", DType.FLOAT32, (1, 4), bytes(16)),),
        (("output0", DType.FLOAT32, (2, 4), bytes(32)),),
        (0.5,),
    )
    weights = (Weight("w", ("w", "tied"), DType.BFLOAT16, (len(weight) // 2,), memoryview(weight)),)
    arg = KernelArg("x", DType.FLOAT32, is_pointer=True, is_written=True)
    kernels = tuple(
        KernelSource(name, f"# {name}\n", (arg,), num_warps=4, num_stages=2)
        for name in ("k1", "k2")
    )
    rendered = Rendered(replace(whole, **signature), weights, golden, kernels, WRAPPER, 512)
    binaries = tuple(
        Binary(kernel, str(target), kernel, code, "cubin", 4, 1, 0, 0, 1, 32, 0)
        for target, codes in zip(TARGETS, ((b"same", b"same"), (b"one", b"two")), strict=True)
        for kernel, code in zip(("k1", "k2"), codes, strict=True)
    )
    return Precompiled(rendered, TARGETS, binaries, {"triton": "3.9.0"})
