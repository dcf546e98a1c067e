"""A mistake planted in C: python -m tools.sanitize tests.precompile.planted FAULT

The program is written by hand: torch alone takes seconds under the sanitizers.
"""

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from aotpack.emit import write_package
from aotpack.ir.dtypes import DType
from aotpack.ir.operations import Matmul, Pointwise, Reduction
from aotpack.ir.origin import Origin
from aotpack.ir.program import Buffer, Program
from aotpack.ir.symbolic.integers import Axis, Int
from aotpack.ir.values import Apply, Load
from aotpack.precompile import host, precompile
from aotpack.render import render
from aotpack.runtime import load
from aotpack.schedule import schedule
from aotpack.stages import Golden, Lowered, Signature, TensorSpec
from aotpack.target import CPU
from aotpack.trees import Tree

LOOP = "for (int64_t item = first; item < last; item++) {"
FAULTS = {
    "overrun": LOOP.replace("item < last", "item <= last"),
    "overflow": f"{LOOP} volatile int32_t planted = INT32_MAX; planted += (int32_t)item + 1;",
}
F32 = DType.FLOAT32
SHAPES = {"x": (7, 5), "w": (5, 3), "xw": (7, 3), "sum": (7,), "output0": (7, 3)}


def program() -> Program:
    """A product with the sums of its rows: a kernel reads what the one before it stored."""
    m, n, k, r = (Axis(name, Int.of(size)) for name, size in zip("mnkr", (7, 3, 5, 3), strict=True))
    product = Matmul("xw", (), m, n, k, read("x", m, k), read("w", k, n), F32, origin("mm"))
    total = Reduction(("sum",), (m,), (r,), "sum", (read("xw", m, r),), origin("sum"))
    value = Apply("add", (read("xw", m, n), read("sum", m)), F32)
    result = Pointwise("output0", (m, n), value, ints((m, n)), origin("add"))
    buffers = {name: Buffer(name, F32, ints(shape)) for name, shape in SHAPES.items()}
    return Program((), buffers, ("x", "w"), (), (product, total, result), ("output0",))


def ints(shape: Sequence[int | Axis]) -> tuple[Int, ...]:
    return tuple(map(Int.of, shape))


def read(name: str, *index: Axis) -> Load:
    return Load(name, ints(index), F32)


def origin(op: str) -> Origin:
    return Origin((op,), (f"aten.{op}.default",), ())


def main(fault: str) -> None:
    """Build the program with the fault, and call it."""
    compile_text = host._compile

    def compile_planted(text: str, *others: object) -> bytes:
        assert LOOP in text
        return compile_text(text.replace(LOOP, FAULTS[fault]), *others)

    host._compile = compile_planted
    inputs, outputs = (
        tuple(TensorSpec(name, F32, ints(SHAPES[name])) for name in names)
        for names in (("x", "w"), ("output0",))
    )
    leaf = Tree("leaf")
    args = Tree("tuple", (leaf, leaf))
    names = tuple(one.name for one in inputs)
    signature = Signature("m", "1", (), inputs, outputs, args, Tree("dict"), leaf, names)
    lowered = Lowered(signature, (), Golden((), (), (), note="written by hand"), program())
    product = precompile(render(schedule(lowered), (CPU,)), (CPU,))
    x, w = np.ones(SHAPES["x"], np.float32), np.ones(SHAPES["w"], np.float32)
    with tempfile.TemporaryDirectory() as folder:
        write_package(product, Path(folder))
        with load(folder, "cpu") as model:
            assert (model(x, w) == 20).all()
    assert "torch" not in sys.modules


if __name__ == "__main__":
    main(sys.argv[1])
