"""Host time of a call, by number of inputs and launches, by executor, with and without new sizes.

    python tools/bench_host.py [--inputs 1,10,100] [--launches 1,3,10,100,300] [--calls 200]

Each case is a package written here: a sequence of launches of one small kernel, each reading the
next input. "static" calls have the same tensors, "rebound" ones other tensors every time, "dynamic"
ones other tensors of other sizes. "first" to "third" are calls of sizes that were not seen before:
the first plans, the second may build a graph. On a machine without a GPU the driver is a compiled
stub whose functions return at once, and tensors are on the host: then figures are what Python
costs.
"""

import argparse
import ctypes
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from aotpack.emit import write_package
from aotpack.ir.dtypes import DType
from aotpack.ir.symbolic.integers import Int, Var
from aotpack.precompile import precompile
from aotpack.runtime import load
from aotpack.runtime.devices.cuda import CudaDevice
from aotpack.runtime.devices.cuda_launch import Function
from aotpack.stages import (
    Binary,
    Golden,
    KernelArg,
    KernelSource,
    Precompiled,
    Rendered,
    Signature,
    TensorSpec,
)
from aotpack.target import device_arch, parse_targets
from aotpack.trees import Tree

F32, ROWS = DType.FLOAT32, Var("s", 1, 64)
SIZES = (8, 16, 24, 32)
KERNEL = """import triton
import triton.language as tl


@triton.jit
def add(x_ptr, y_ptr, out_ptr, s):
    i = tl.program_id(0) * 64 + tl.arange(0, 64)
    tl.store(out_ptr + i, tl.load(x_ptr + i) + tl.load(y_ptr + i))
"""
WRAPPER = '''"""host: {launches} launches."""
from ._runtime import Buffer, Launch, Plan


def plan(arch: int, s: int) -> Plan:
    """A chain of launches."""
    names = ["x0", *(f"t{{i}}" for i in range({launches} - 1)), "output0"]
    return Plan(
        buffers=tuple(Buffer(f"t{{i}}", 256*s, i, i + 1) for i in range({launches} - 1)),
        outputs=((s, 64),),
        launches=tuple(
            Launch("add", (s, 1, 1), (names[i], f"x{{i % {inputs}}}", names[i + 1], s))
            for i in range({launches})
        ),
    )
'''
STUB = """
int cuCtxGetCurrent(void **context) { *context = (void *)1; return 0; }
int cuLaunchKernelEx(void *a, void *b, void *c, void *d) { return 0; }
int cuGraphCreate(void **graph, unsigned flags) { *graph = (void *)1; return 0; }
int cuGraphAddKernelNode_v2(void **node, void *a, void *b, unsigned long c, void *d) {
    *node = (void *)1;
    return 0;
}
int cuGraphInstantiateWithFlags(void **graph, void *a, unsigned long long b) {
    *graph = (void *)1;
    return 0;
}
int cuGraphExecKernelNodeSetParams_v2(void *a, void *b, void *c) { return 0; }
int cuGraphUpload(void *a, void *b) { return 0; }
int cuGraphLaunch(void *a, void *b) { return 0; }
int cuGraphDestroy(void *a) { return 0; }
int cuGraphExecDestroy(void *a) { return 0; }
int cuThreadExchangeStreamCaptureMode(void *a) { return 0; }
int cuEventRecord(void *a, void *b) { return 0; }
"""


class StubGpu(CudaDevice):
    """The port to a GPU over a stub of the driver and host memory; it computes nothing."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.name, self.place = "stub:0", (1, 0)
        self._library, self._context = library, 1
        self._kept: list[Any] = []
        self.driver = SimpleNamespace(cuMemAlloc=self._memory, cuMemFree=lambda address: (0,))

    def select(self, targets: Any) -> tuple[str, int]:
        return "sm_90", 90

    def load(self, kernel: Any, binary: Any, code: bytes) -> Function:
        return Function(1, 128, 0, 1)

    def event(self) -> int:
        return 1

    def drop(self, event: int) -> None:
        return

    def synchronize(self, stream: int | None) -> None:
        return

    def close(self) -> None:
        return

    def _memory(self, size: int) -> tuple[int, int]:
        self._kept.append(torch.empty(size + 256, dtype=torch.uint8))
        return 0, (self._kept[-1].data_ptr() + 255) // 256 * 256


def package(inputs: int, launches: int, folder: Path) -> Path:
    """A package of one kernel in ``folder``."""
    shape = (Int.of(ROWS), Int.of(64))
    tensors = tuple(TensorSpec(f"x{number}", F32, shape) for number in range(inputs))
    leaf = Tree("leaf")
    args = Tree("tuple", (leaf,) * inputs)
    output = TensorSpec("output0", F32, shape)
    names = tuple(tensor.name for tensor in tensors)
    kwargs = Tree("dict")
    signature = Signature("host", "0", (ROWS,), tensors, (output,), args, kwargs, leaf, names)
    golden = Golden(tuple((t.name, F32, (1, 64), bytes(256)) for t in (*tensors,)), (), (0.0,))
    names = ("x_ptr", "y_ptr", "out_ptr")
    pointers = (KernelArg(name, F32, True, is_written=name == "out_ptr") for name in names)
    arguments = (*pointers, KernelArg("s", DType.INT32, False, is_written=False))
    kernel = KernelSource("add", KERNEL, arguments, 4, 1)
    wrapper = WRAPPER.format(inputs=inputs, launches=launches)
    rendered = Rendered(signature, (), golden, (kernel,), wrapper, 1 << 20)
    if device_arch() is None:
        targets = parse_targets("sm_90")
        binary = Binary("add", "sm_90", "add", b"stub", "cubin", 4, 1, 0, 0, 1, 32, 0)
        built = Precompiled(rendered, targets, (binary,), {})
    else:
        built = precompile(rendered, parse_targets("native"))
    write_package(built, folder)
    return folder


def stub(folder: Path) -> StubGpu:
    """A device over a stub that is compiled into ``folder``."""
    source, library = folder / "stub.c", folder / "stub.so"
    source.write_text(STUB)
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", library, source], check=True)
    return StubGpu(ctypes.CDLL(str(library)))


def arguments(inputs: int, sizes: tuple[int, ...], device: str) -> list[tuple[torch.Tensor, ...]]:
    """The arguments of calls that follow each other: four sets of tensors."""
    return [tuple(torch.ones(s, 64, device=device) for _ in range(inputs)) for s in sizes]


def microseconds(
    call: Callable[..., Any], sets: list[tuple[torch.Tensor, ...]], calls: int
) -> float:
    """Median time until a call returns; the GPU is idle at its start."""
    times = []
    for number in range(calls + 40):
        args = sets[number % len(sets)]
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        start = time.perf_counter()
        result = call(*args)
        times.append(time.perf_counter() - start)
        del result
    return statistics.median(times[40:]) * 1e6


def first_calls(call: Callable[..., Any], inputs: int, device: str) -> list[float]:
    """Medians of the first three calls of new sizes; the third runs as a graph."""
    times: list[list[float]] = [[], [], []]
    for (args,) in (arguments(inputs, (size,), device) for size in range(33, 54)):
        for own in times:
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            start = time.perf_counter()
            call(*args)
            own.append(time.perf_counter() - start)
    return [statistics.median(own) * 1e6 for own in times]


def rows(inputs: int, launches: int, calls: int) -> Iterator[str]:
    """A line for each executor."""
    has_gpu = torch.cuda.is_available()
    place = "cuda" if has_gpu else "cpu"
    cases = {
        "static": arguments(inputs, SIZES[:1], place),
        "rebound": arguments(inputs, SIZES[:1] * 4, place),
        "dynamic": arguments(inputs, SIZES, place),
    }
    with tempfile.TemporaryDirectory() as name:
        folder = package(inputs, launches, Path(name) / "host")
        for graphs in (False, True):
            device = 0 if has_gpu else stub(Path(name))
            with load(folder, device, graphs=graphs) as model:
                times = [microseconds(model, sets, calls) for sets in cases.values()]
                times += first_calls(model, inputs, place)
            found = [f"{time:9.1f}" for time in times]
            kind = "graph" if graphs else "launches"
            yield f"{inputs:6} {launches:8}  {kind:8}  {' '.join(found)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", default="1,10,100")
    parser.add_argument("--launches", default="1,3,10,100,300")
    parser.add_argument("--calls", type=int, default=200)
    given = parser.parse_args()
    where = torch.cuda.get_device_name() if torch.cuda.is_available() else "a stub of the driver"
    print(f"{where}, torch {torch.__version__}; us a call")
    print("inputs launches  executor     static   rebound   dynamic    first    second     third")
    for inputs in map(int, given.inputs.split(",")):
        for launches in map(int, given.launches.split(",")):
            for line in rows(inputs, launches, given.calls):
                print(line, flush=True)


if __name__ == "__main__":
    main()
