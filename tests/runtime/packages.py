"""A package for the fake device: ``(x + y) * scale[0]``, in two kernels and one intermediate."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from aotpack.emit import write_package
from aotpack.emit.package import reseal
from aotpack.ir.dtypes import DType
from aotpack.ir.symbolic.integers import Int, Var
from aotpack.runtime import Model
from aotpack.stages import (
    Binary,
    DerivedWeight,
    Golden,
    KernelArg,
    KernelSource,
    Precompiled,
    Rendered,
    Signature,
    TensorSpec,
    Weight,
)
from aotpack.trees import Tree

LEAF = Tree("leaf")
B, S = Var("b", 1, 8), Var("s", 0, 32)
F32 = DType.FLOAT32

WRAPPER = '''\
"""demo 0.1.0: 2 launches."""
from ._runtime import Buffer, Launch, Plan


def plan(arch: int, b: int, s: int) -> Plan:
    """Launches and memory for one set of sizes."""
    return Plan(
        buffers=(Buffer("total", 4*b*s, 0, 1),),
        outputs=((b, s),),
        launches=(
            Launch("add", (b*s, 1, 1), ("x", "y", "total", b*s)),
            Launch("scale", (b*s, 1, 1), ("total", "scale", "output0", b*s)),
        ),
    )
'''
DIAMOND = '''\
"""demo 0.1.0: 5 launches."""
from ._runtime import Buffer, Launch, Plan


def plan(arch: int, b: int, s: int) -> Plan:
    """``d`` lies where ``a`` did, which the launch before it reads."""
    n, grid = b*s, (b*s, 1, 1)
    return Plan(
        buffers=(
            Buffer("a", 4*n, 0, 2),
            Buffer("b", 4*n, 1, 3),
            Buffer("c", 4*n, 2, 4),
            Buffer("d", 4*n, 3, 4),
        ),
        outputs=((b, s),),
        launches=(
            Launch("add", grid, ("x", "y", "a", n)),
            Launch("scale", grid, ("a", "scale", "b", n)),
            Launch("add", grid, ("a", "y", "c", n)),
            Launch("scale", grid, ("b", "scale", "d", n)),
            Launch("add", grid, ("c", "d", "output0", n)),
        ),
    )
'''
"""5 * (x + y) + y, in five launches."""
STATEFUL = WRAPPER.replace(
    "        launches=(\n",
    '        launches=(\n            Launch("add", (1, 1, 1), ("scale", "scale", "scale", 1)),\n',
).replace("b*s, 0, 1)", "b*s, 1, 2)")
"""(x + y) * scale, where each call doubles scale first."""
DERIVED = (
    WRAPPER.replace('("total", "scale",', '("total", "square",')
    + '''

def derive(arch: int) -> Plan:
    """A weight by itself, through an intermediate."""
    return Plan(
        buffers=(Buffer("total", 4, 0, 1),),
        outputs=(),
        launches=(
            Launch("add", (1, 1, 1), ("scale", "scale", "total", 1)),
            Launch("scale", (1, 1, 1), ("total", "scale", "square", 1)),
        ),
    )
'''
)
"""(x + y) * square, where square is 2 * scale * scale, computed once."""
LOOPED = '''\
"""demo 0.1.0: 5 launches."""
from ._runtime import Branch, Buffer, Launch, Loop, Part, Plan


def plan(arch: int, b: int, s: int) -> Plan:
    """Launches around a loop of three turns, in which a branch is taken."""
    n, grid = b*s, (b*s, 1, 1)
    again = Part(
        (Buffer("t", 4*n, 0, 1),),
        (
            Launch("scale", grid, ("c", "scale", "t", n), "demo.py:7: 2 * c"),
            Launch("add", grid, ("t", "y", "c", n), "demo.py:8: + y"),
        ),
    )
    body = Part((), (Branch(1, again, Part((), ())),))
    entry = Part((), (Launch("add", grid, ("x", "y", "c", n)),))
    return Plan(
        buffers=(Buffer("a", 4*n, 0, 1), Buffer("b", 4*n, 1, 3), Buffer("c", 4*n, 2, 3)),
        outputs=((b, s),),
        launches=(
            Launch("add", grid, ("x", "y", "a", n)),
            Launch("scale", grid, ("a", "scale", "b", n)),
            Loop(3, "", entry, body),
            Launch("add", grid, ("b", "c", "output0", n)),
        ),
    )
'''
"""10 * (x + y) + 7 * y: c becomes 2c + y three times."""
ADD = "def add(x, y, out, n):\n    floats(out, n)[:] = floats(x, n) + floats(y, n)\n"
SCALE = "def scale(x, w, out, n):\n    floats(out, n)[:] = floats(x, n) * floats(w, 1)[0]\n"


def _kernel(name: str, text: str, *pointers: str) -> KernelSource:
    buffers = (KernelArg(p, F32, True, is_written=p == "out") for p in pointers)
    args = (*buffers, KernelArg("n", DType.INT32, False, is_written=False))
    return KernelSource(name, text, args, num_warps=4, num_stages=1)


def _binary(name: str, text: str, target: str) -> Binary:
    return Binary(name, target, name, text.encode(), "py", 4, 1, 0, 0, 1, 0, 0)


def demo(
    wrapper: str = WRAPPER,
    inputs: tuple[TensorSpec, ...] = (),
    target: str = "fake",
    is_constant: bool = False,
    factor: float = 4,
    **signature: Any,
) -> Precompiled:
    """The product to emit; ``inputs`` come after x and y, ``signature`` replaces its fields.

    The golden result is ``factor`` times the golden x, which is y too.
    """
    shape = (Int.of(B), Int.of(S))
    tensors = (TensorSpec("x", F32, shape), TensorSpec("y", F32, shape), *inputs)
    args = Tree("tuple", (LEAF,) * len(tensors))
    output = TensorSpec("output0", F32, shape)
    whole = Signature("demo", "0.1.0", (B, S), tensors, (output,), args, Tree("dict"), LEAF)
    whole = replace(whole, **signature)
    if not whole.positional:
        names = [*(tensor.name for tensor in tensors), "third", "fourth", "fifth"]
        whole = replace(whole, positional=tuple(names[: len(whole.args.children)]))
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    golden = Golden(
        tuple((name, F32, (2, 3), x.tobytes()) for name in ("x", "y")),
        (("output0", F32, (2, 3), (x * factor).tobytes()),),
        (1e-6,),
    )
    two = memoryview(np.float32(2).tobytes())
    weight = Weight("scale", ("scale", "alias"), F32, (1,), two, is_constant)
    kernels = (_kernel("add", ADD, "x", "y", "out"), _kernel("scale", SCALE, "x", "w", "out"))
    rendered = Rendered(whole, (weight,), golden, kernels, wrapper, 1024)
    binaries = (_binary("add", ADD, target), _binary("scale", SCALE, target))
    return Precompiled(rendered, (target,), binaries, {"fake": "1.0"})  # type: ignore[arg-type]


def write_demo(folder: Path, weights: str = "embed", **changes: Any) -> Path:
    """Write the demo package and return its folder."""
    write_package(demo(**changes), folder, weights)
    return folder


def write_derived(folder: Path, weights: str = "embed", **changes: Any) -> Path:
    """The demo package with ``DERIVED``: its golden factor is 16."""
    made = demo(**{"wrapper": DERIVED, "factor": 16, **changes})
    derived = (DerivedWeight("square", F32, (1,), 4),)
    write_package(replace(made, rendered=replace(made.rendered, derived=derived)), folder, weights)
    return folder


def write_stateful(folder: Path) -> Path:
    """The demo package with ``STATEFUL``: scale, which is 2, is state."""
    made = demo(wrapper=STATEFUL, updates=("scale",))
    four = np.float32(4).tobytes()
    golden = replace(
        made.rendered.golden,
        outputs=(("output0", F32, (2, 3), np.arange(0, 48, 8, dtype=np.float32).tobytes()),),
        updates=(("scale", F32, (1,), four),),
        eager_errors=(1e-6, 1e-6),
    )
    write_package(replace(made, rendered=replace(made.rendered, golden=golden)), folder)
    return folder


def rewrite(package: Path, manifest: Any) -> None:
    """Give the package another manifest, with its hash."""
    (package / "manifest.json").write_text(json.dumps(manifest))
    reseal(package)


def call_diamond(model: Model, rows: int = 2, value: float = 1.0) -> None:
    """A call of ``DIAMOND`` with arguments of its own, whose answer is checked."""
    x = np.arange(32 * rows, dtype=np.float32).reshape(rows, 32) + np.float32(value)
    y = x * 2
    np.testing.assert_array_equal(model(x, y), 5 * (x + y) + y)
