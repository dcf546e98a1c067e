"""Small programs by hand and from models, and a schedule replayed in its kernels' own axes."""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils import _pytree as pytree

from aotpack.devices import H200, Gpu
from aotpack.ir.dtypes import DType
from aotpack.ir.interpret.evaluate import evaluate
from aotpack.ir.kernels.access import written_index
from aotpack.ir.kernels.kernel import Kernel, Member, Schedule
from aotpack.ir.operations import Attention, Matmul, Pointwise, Reduction, Scan, Scatter
from aotpack.ir.ops.monoids import MONOIDS
from aotpack.ir.origin import Origin
from aotpack.ir.passes import verify_each
from aotpack.ir.program import Buffer, Operation, Program, targets
from aotpack.ir.rewrite import Rewriter, map_values
from aotpack.ir.symbolic.integers import Axis, Int, Number, Var
from aotpack.ir.values import Apply, Const, Load, Value
from aotpack.lower import lower
from aotpack.render import reserved_names
from aotpack.schedule import PASSES, schedule
from aotpack.stages import Golden, Lowered, Scheduled, Signature, TensorSpec
from aotpack.target import Target
from aotpack.trace import trace
from aotpack.trees import Tree

F32, F16, BF16, I64, BOOL = (
    DType.FLOAT32,
    DType.FLOAT16,
    DType.BFLOAT16,
    DType.INT64,
    DType.BOOL,
)
Size = Number | Var


def load(buffer: Buffer, *index: Number | Axis) -> Load:
    """An element of a buffer."""
    return Load(buffer.name, tuple(map(Int.of, index)), buffer.dtype.compute)


def apply(op: str, *args: Value | float) -> Apply:
    """An operator on float32 values; numbers become constants."""
    values = tuple(a if not isinstance(a, (int, float)) else Const(float(a), F32) for a in args)
    return Apply(op, values, F32)


@dataclass(slots=True)
class Writer:
    """Writes a program, operation by operation."""

    sizes: tuple[Var, ...] = ()
    buffers: dict[str, Buffer] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)
    weights: list[str] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)

    def buffer(self, name: str, shape: Sequence[Size], dtype: DType = F32) -> Buffer:
        made = self.buffers[name] = Buffer(name, dtype, tuple(map(Int.of, shape)))
        return made

    def input(self, name: str, *shape: Size, dtype: DType = F32) -> Buffer:
        self.inputs.append(name)
        return self.buffer(name, shape, dtype)

    def weight(self, name: str, *shape: Size, dtype: DType = F32) -> Buffer:
        self.weights.append(name)
        return self.buffer(name, shape, dtype)

    def pointwise(
        self,
        name: str,
        shape: Sequence[Size],
        value: Callable[..., Value],
        *,
        op: str = "add",
        dtype: DType = F32,
    ) -> Buffer:
        made = self.buffer(name, shape, dtype)
        axes = tuple(Axis(f"i{k}", size) for k, size in enumerate(made.shape))
        index = tuple(map(Int.of, axes))
        self.operations.append(Pointwise(name, axes, value(*index), index, origin(name, op)))
        return made

    def reduction(
        self,
        name: str,
        shape: Sequence[Size],
        inner: Sequence[Size],
        value: Callable[..., Value],
        *,
        kind: str = "sum",
        dtype: DType = F32,
    ) -> Buffer:
        """``value`` takes the outer, then the inner indices."""
        (made,) = self.reductions((name,), shape, inner, value, kind=kind, dtype=dtype)
        return made

    def reductions(
        self,
        names: Sequence[str],
        shape: Sequence[Size],
        inner: Sequence[Size],
        value: Callable[..., Value],
        *,
        kind: str,
        dtype: DType = F32,
    ) -> tuple[Buffer, ...]:
        """As ``reduction``, for a kind with several results."""
        made = tuple(self.buffer(name, shape, dtype) for name in names)
        axes = tuple(Axis(f"i{k}", size) for k, size in enumerate(made[0].shape))
        within = tuple(Axis(f"r{k}", Int.of(size)) for k, size in enumerate(inner))
        arg = value(*map(Int.of, (*axes, *within)))
        named = origin(names[0], kind)
        self.operations.append(Reduction(tuple(names), axes, within, kind, (arg,), named))
        return made

    def matmul(
        self,
        name: str,
        m: Size,
        n: Size,
        k: Size,
        lhs: Buffer,
        rhs: Buffer,
        *,
        by_rows: bool = True,
    ) -> Buffer:
        """``rhs`` is [n, k] if ``by_rows``, else [k, n]."""
        made = self.buffer(name, (m, n))
        rows, columns, depth = (Axis(a, Int.of(size)) for a, size in (("m", m), ("n", n), ("k", k)))
        right = load(rhs, columns, depth) if by_rows else load(rhs, depth, columns)
        left = load(lhs, rows, depth)
        self.operations.append(
            Matmul(name, (), rows, columns, depth, left, right, F32, origin(name, "linear"))
        )
        return made

    def scatter(
        self,
        name: str,
        base: Buffer,
        over: Sequence[Size],
        index: Callable[..., Sequence[Number]],
        value: Callable[..., Value],
        *,
        kind: str = "sum",
    ) -> Buffer:
        """``index`` and ``value`` are functions of the points of ``over``."""
        made = self.buffer(name, base.shape, base.dtype)
        axes = tuple(Axis(f"i{k}", Int.of(size)) for k, size in enumerate(over))
        at = tuple(map(Int.of, axes))
        place = tuple(map(Int.of, index(*at)))
        self.operations.append(
            Scatter(name, base.name, axes, place, value(*at), kind, origin(name, "scatter"))
        )
        return made

    def program(self, *outputs: Buffer) -> Program:
        return Program(
            self.sizes,
            dict(self.buffers),
            tuple(self.inputs),
            tuple(self.weights),
            tuple(self.operations),
            tuple(buffer.name for buffer in outputs),
        )


def origin(name: str, op: str) -> Origin:
    return Origin((name,), (f"aten.{op}.default",), ())


def lowered(program: Program) -> Lowered:
    """A program as the lowering would hand it on."""
    leaf = Tree("leaf")
    outputs = tuple(
        TensorSpec(f"output{k}", program.buffers[name].dtype, program.buffers[name].shape)
        for k, name in enumerate(program.outputs)
    )
    signature = Signature("test", "1", program.sizes, (), outputs, leaf, leaf, leaf)
    return Lowered(signature, (), Golden((), (), ()), program)


def schedule_of(program: Program, arch: int = 80, gpu: Gpu = H200) -> Schedule:
    """The schedule of a program for an architecture."""
    return schedule(lowered(program), gpu=gpu, after=verify_each).on(arch)


def numbered(name: str) -> str:
    """A pass as messages name it: the first of that name."""
    return f"{[one.name for one in PASSES].index(name) + 1}, {name}"


def scheduled(
    module: nn.Module,
    *args: Any,
    dynamic_shapes: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    offers_unfused: bool = False,
    targets: tuple[Target, ...] = (),
    gpu: Gpu = H200,
) -> Scheduled:
    """The schedule of a model, from the sizes and types of its inputs and weights alone."""
    traced = trace(
        copy.deepcopy(module).eval().to("meta"),
        pytree.tree_map(_on_meta, args),
        pytree.tree_map(_on_meta, kwargs),
        dynamic_shapes=dynamic_shapes,
        name="test",
        version="1",
        reserved=reserved_names(),
        needs_weights=False,
    )
    return schedule(
        lower(traced), offers_unfused=offers_unfused, targets=targets, gpu=gpu, after=verify_each
    )


def _on_meta(x: Any) -> Any:
    return x.to("meta") if isinstance(x, torch.Tensor) else x


def names(schedule: Schedule) -> list[str]:
    """The kernels in launch order."""
    return [kernel.name for kernel in schedule.kernels]


def random_arrays(
    program: Program, sizes: Mapping[str, int], seed: int = 0
) -> dict[str, np.ndarray]:
    """Numbers for all inputs and weights; integers are small and not negative."""
    rng = np.random.default_rng(seed)
    arrays = {}
    packed = {packed.name for packed in program.packed}
    for name in (*program.inputs, *(name for name in program.weights if name not in packed)):
        buffer = program.buffers[name]
        shape = [int(size.evaluate(dict(sizes))) for size in buffer.shape]
        if buffer.dtype.is_float:
            arrays[name] = rng.standard_normal(shape).astype(np.float32)
        else:
            arrays[name] = rng.integers(0, 2, shape).astype(buffer.dtype.facts.numpy)
    return arrays


def run(
    program: Program, arrays: Mapping[str, np.ndarray], sizes: Mapping[str, int]
) -> dict[str, np.ndarray]:
    """The outputs of a program for its inputs and weights."""
    weights = {name: array for name, array in arrays.items() if name in program.weights}
    inputs = {name: array for name, array in arrays.items() if name in program.inputs}
    return evaluate(program, inputs, weights, sizes)


def assert_same(a: Program, b: Program, sizes: Mapping[str, int] | None = None) -> None:
    """Both programs yield the same, up to rounding; ``b`` may name more weights."""
    arrays = random_arrays(b, sizes or {})
    before, after = (run(program, arrays, sizes or {}) for program in (a, b))
    for x, y in zip(a.outputs, b.outputs, strict=True):
        np.testing.assert_allclose(before[x], after[y], rtol=2e-5, atol=2e-5)


# --- replay -------------------------------------------------------------------------------------


def replayed(schedule: Schedule) -> Program:
    """The program a schedule says: kernel after kernel, members written in the kernel's axes.

    The evaluator then finds an element that no point writes (NaN), that two write, or that is read
    before it is written.
    """
    program = schedule.program
    buffers = dict(program.buffers)
    operations: list[Operation] = []
    for kernel in schedule.kernels:
        for member in kernel.members:
            operations += _in_kernel_axes(kernel, member, buffers)
    return replace(program, operations=tuple(operations), buffers=buffers)


def _in_kernel_axes(
    kernel: Kernel, member: Member, buffers: dict[str, Buffer]
) -> Sequence[Operation]:
    operation = member.operation
    if isinstance(operation, (Matmul, Attention)):
        return (operation,)
    moved = map_values(operation, Rewriter(dict(member.binding)))
    index = written_index(member)
    if isinstance(moved, Pointwise):
        own = kernel.template_op.axes if kernel.template_op else kernel.axes
        axes = kernel.axes[:1] if member.outer else own
        return (replace(moved, axes=axes, index=index),)
    if isinstance(moved, Scatter):
        return (replace(moved, axes=kernel.axes),)
    assert isinstance(moved, (Reduction, Scan))
    product = kernel.template_op
    x, r = (product.m, product.k) if isinstance(product, Matmul) else kernel.axes
    axes = (x, r) if isinstance(moved, Scan) else (x,)
    dtypes = MONOIDS[moved.kind].result_dtypes(moved.args[0].dtype)
    flat = tuple(f"{name}.flat" for name in targets(moved))
    for name, dtype in zip(flat, dtypes, strict=True):
        buffers[name] = Buffer(name, dtype, tuple(axis.extent for axis in axes))
    if isinstance(moved, Scan):
        made: Operation = replace(moved, targets=flat, axes=axes, along=r)
    else:
        made = replace(moved, targets=flat, axes=axes, inner=(r,))
    point = tuple(map(Int.of, axes))
    copies = [
        Pointwise(name, axes, Load(source, point, dtype), index)
        for name, source, dtype in zip(targets(moved), flat, dtypes, strict=True)
    ]
    return (made, *copies)
