"""Rendered kernels in memory with guards around it: sizes beside the block, every kind of row."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from aotpack.devices import H200, Gpu
from aotpack.ir.dtypes import DType
from aotpack.ir.interpret.evaluate import evaluate
from aotpack.ir.operations import Reduction, Scan
from aotpack.ir.ops.monoids import MONOIDS
from aotpack.ir.ops.optable import OPS
from aotpack.ir.program import Program
from aotpack.ir.symbolic.integers import Axis, Int, Var
from aotpack.ir.values import Apply, Const, Guarded, IndexValue
from aotpack.lower import lower
from aotpack.pipeline import compile
from aotpack.precompile.interpreter.device import (
    HostKernel,
    interpretable,
    launch,
    pointer_type,
    scalar_type,
)
from aotpack.render import render
from aotpack.runtime.plan import Buffer, Launch, Plan
from aotpack.schedule import schedule
from aotpack.stages import Ref, Rendered, TensorSpec
from tests.e2e.models import Function
from tests.ir import samples
from tests.lower.oracle import node
from tests.lower.oracle import traced as graph_of
from tests.render.emit.test_emitter import Bench
from tests.render.models import H100, kernel_text, rendered, rendered_program
from tests.schedule.programs import BOOL, F32, I64, Writer, apply, load

GUARD = 64  # elements before and after each buffer, which no kernel may read or write


def plan_of(product: Rendered, *sizes: int) -> Plan:
    """The launches for an architecture of many, as the wrapper says."""
    scope: dict[str, Any] = {"Buffer": Buffer, "Launch": Launch, "Plan": Plan}
    exec(product.wrapper.replace("from ._runtime import Buffer, Launch, Plan\n", ""), scope)
    plan = scope["plan"](90, *sizes)
    assert isinstance(plan, Plan)
    return plan


def run(program: Program, given: dict[str, np.ndarray], gpu: Gpu = H200) -> dict[str, np.ndarray]:
    """The outputs of the rendered Triton kernels, each buffer between guards of NaN.

    Outputs and intermediates begin as NaN (integers as their largest number).
    """
    product = rendered_program(program, gpu=gpu)
    plan = plan_of(product)
    shapes = {spec.name: spec for spec in product.signature.outputs}
    memory = {name: guarded(array) for name, array in given.items()}
    for name, spec in shapes.items():
        memory[name] = guarded(poison([int(n) for n in spec.shape], spec.dtype))
    for buffer in plan.buffers:
        memory[buffer.name] = guarded(np.full(buffer.size // 4, np.nan, np.float32))
    before = {name: whole.copy() for name, whole in memory.items()}
    sources = {kernel.name: kernel for kernel in product.kernels}
    for step in plan.launches:
        source = sources[step.kernel]
        types = tuple(
            pointer_type(str(a.dtype)) if a.is_pointer else scalar_type(str(a.dtype))
            for a in source.args
        )
        values = [address(memory[a]) if isinstance(a, str) else a for a in step.args]
        launch(
            HostKernel(source.name, interpretable(source.name, source.text), types),
            step.grid,
            values,
        )
    for name, whole in memory.items():
        for guard in (slice(None, GUARD), slice(-GUARD, None)):
            np.testing.assert_array_equal(whole[guard], before[name][guard], err_msg=name)
        if name in given:
            np.testing.assert_array_equal(whole, before[name], err_msg=name)
    return {
        output: memory[spec][GUARD:-GUARD].reshape([int(n) for n in shapes[spec].shape])
        for output, spec in zip(program.outputs, shapes, strict=True)
    }


def poison(shape: list[int], dtype: DType) -> np.ndarray:
    numpy_type = np.dtype(dtype.facts.numpy)
    if numpy_type.kind == "f":
        return np.full(shape, np.nan, numpy_type)
    return np.full(shape, 1 if numpy_type.kind == "b" else np.iinfo(numpy_type).max, numpy_type)


def guarded(array: np.ndarray) -> np.ndarray:
    guard = poison([GUARD], DType(array.dtype.name))
    return np.concatenate([guard, array.ravel(), guard])


def address(whole: np.ndarray) -> int:
    return int(whole.ctypes.data) + GUARD * whole.itemsize


SIZES = (1, 2, 31, 255, 256, 257, 1021, 2048)


@pytest.mark.row("C:inv10", "C:inv27", "C:F1", "C:F3", "C:F4", "C:H1", "C:A1", "C:A15")
@pytest.mark.parametrize("size", SIZES)
def test_points_are_written_once_and_nothing_beside_them(size: int) -> None:
    w = Writer()
    x, y = w.input("x", size), w.input("y", 1)
    total = w.pointwise("t", [size], lambda i: apply("add", load(x, i), load(y, 0)))
    same = w.pointwise("s", [size], lambda i: load(y, 0))
    values = np.random.default_rng(0).random(size).astype(np.float32)
    found = run(w.program(total, same), {"x": values, "y": np.ones(1, np.float32)})
    np.testing.assert_array_equal(found["t"], values + 1)
    np.testing.assert_array_equal(found["s"], np.ones(size, np.float32))


def rows(kind: str, count: int, length: int, dtype: DType, *, columns: bool) -> Program:
    """A reduction of each row, or of each column."""
    w = Writer()
    x = w.input("x", *((length, count) if columns else (count, length)), dtype=dtype)
    monoid = MONOIDS[kind]
    axes, inner = (Axis("i0", Int.of(count)),), (Axis("r0", Int.of(length)),)
    index = (*inner, *axes) if columns else (*axes, *inner)
    names = tuple(f"y{n}" for n in range(monoid.outputs))
    types = monoid.result_dtypes(dtype)
    results = [w.buffer(name, [count], kind) for name, kind in zip(names, types, strict=True)]
    w.operations.append(Reduction(names, axes, inner, kind, (load(x, *index),)))
    return w.program(*results)


def kinds() -> Iterator[tuple[str, DType]]:
    for name, monoid in MONOIDS.items():
        if not name.startswith("cum"):
            yield name, next(d for d in (F32, BOOL, I64) if monoid.accepts(d))
    yield from (("sum", I64), ("max", I64), ("argmax", I64), ("argmin", DType.INT32))


LENGTHS = (1, 2, 31, 33, 256, 1025)


@pytest.mark.row("C:inv18", "C:inv12", "C:inv10", "C:G1", "C:G3", "C:G4", "C:G5", "C:G6", "C:G7")
@pytest.mark.row("C:G2", "C:F8", "C:F13", "C:inv21", "C:G9", "C:G10", "S:inv29", "S:inv27")
@pytest.mark.parametrize("form", ["registers", "loop", "columns"])
@pytest.mark.parametrize(("kind", "dtype"), list(kinds()), ids=str)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_rows_of_every_kind_and_length(kind: str, dtype: DType, form: str) -> None:
    """In registers, in loops and down columns; what lies beside a row never counts."""
    gpu = replace(H200, registers=0) if form == "loop" else H200
    for length in LENGTHS:
        program = rows(kind, 3, length, dtype, columns=form == "columns")
        x = np.resize(samples.elements(dtype)[:3], (3, length))
        x = np.nan_to_num(x, posinf=3, neginf=-3) if kind == "welford" else x  # see below
        given = {"x": np.ascontiguousarray(x.T if form == "columns" else x)}
        wanted = evaluate(program, given, {}, {})
        found = run(program, given, gpu)
        for name in program.outputs:
            np.testing.assert_allclose(found[name], wanted[name], rtol=2e-5, atol=1e-5)


@pytest.mark.row("C:E1", "C:E3", "C:E5", "C:E6", "C:E8", "C:E9", "C:E10", "C:E11", "C:E12")
@pytest.mark.row("C:E14", "C:E15", "C:E16", "C:E17", "C:E28", "C:inv15")
@pytest.mark.parametrize("dtype", [F32, I64])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_operators_of_kernels_mean_what_the_evaluator_says(dtype: DType) -> None:
    edges = samples.edge_values(dtype)
    if dtype is I64:
        edges = edges[(edges > edges.min()) & (edges != 0)]  # else divisions are undefined
    a, b = np.repeat(edges, len(edges)), np.tile(edges, len(edges))
    w = Writer()
    x, y = (w.input(name, len(a), dtype=dtype) for name in "xy")
    outputs = []
    for op, info in OPS.items():
        if not info.accepts(dtype) or info.result not in ("same", "bool"):
            continue
        result = info.result_type(dtype, dtype)

        def value(i: Int, op: str = op, arity: int = info.arity, result: DType = result) -> Apply:
            operands = load(x, i), load(y, i)
            condition = Apply("lt", operands, BOOL)
            return Apply(op, (condition, *operands) if arity == 3 else operands[:arity], result)

        outputs.append(w.pointwise(f"of_{op}", [len(a)], value, dtype=result))
    program, given = w.program(*outputs), {"x": a, "y": b}
    wanted, found = evaluate(program, given, {}, {}), run(program, given)
    for name in program.outputs:
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-4, atol=1e-9, err_msg=name)


@pytest.mark.row("C:G10", "C:inv20")
def test_the_mean_of_a_row_with_an_infinity_is_that_of_its_sum() -> None:
    """Merged moments say NaN, and so does eager unless the infinity is last."""
    x = torch.tensor([[1.0, np.inf, 2.0], [1.0, 2.0, -np.inf], [1e4, 1e4, 1e4 + 8]])
    with compile(Function(lambda x: torch.var_mean(x, 1), 1), (x,), target="interpreter") as model:
        spread, mean = model(x)
    wanted = (part.float() for part in torch.var_mean(x.double(), 1))
    wanted = next(wanted), x.double().mean(1).float()
    torch.testing.assert_close((spread, mean), wanted, equal_nan=True)


@pytest.mark.row("C:G15", "C:inv22", "S:inv31", "C:G14")
@pytest.mark.parametrize("looped", [False, True])
@pytest.mark.parametrize("kind", ["sum", "prod", "logsumexp", "cummax", "cummin"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_scans_carry_over_blocks(kind: str, looped: bool) -> None:
    count = 3  # rows, of which a GPU of one multiprocessor gives each a program that walks
    gpu = replace(H200, registers=0, multiprocessors=1) if looped else H200
    for length in (1, 33, 5000):
        w = Writer()
        x = w.input("x", count, length)
        axes = (Axis("i0", Int.of(count)), Axis("i1", Int.of(length)))
        monoid = MONOIDS[kind]
        types = monoid.result_dtypes(F32)
        results = [w.buffer(f"y{n}", [count, length], d) for n, d in enumerate(types)]
        names = tuple(result.name for result in results)
        w.operations.append(Scan(names, axes, axes[1], kind, (load(x, *axes),)))
        program = w.program(*results)
        values = (
            np.random.default_rng(length).uniform(0.99, 1.01, (count, length)).astype(np.float32)
        )
        wanted, found = evaluate(program, {"x": values}, {}, {}), run(program, {"x": values}, gpu)
        for name in names:
            np.testing.assert_allclose(found[name], wanted[name], rtol=2e-4)


@pytest.mark.row("C:J13", "C:D1", "C:inv4")
def test_each_member_of_a_launch_has_offsets_of_its_own_width() -> None:
    """One reads far into a tensor of more than 2**31 elements, the other a few elements."""
    w = Writer()
    x, z = w.input("x", 2**31 + 8), w.input("z", 100)
    far = w.pointwise("far", [100], lambda i: load(x, i * 2**24))
    near = w.pointwise("near", [100], lambda i: apply("exp", load(z, i)))
    product = rendered_program(w.program(far, near))
    (kernel,) = product.kernels
    wide = [part for part in kernel.text.split("def ")[1:] if "tl.int64" in part]
    assert len(wide) == 1 and "z_ptr" not in wide[0] and kernel.text.count("def ") == 3


@pytest.mark.row("C:inv28", "C:J1", "C:J2", "C:J11", "C:J17", "S:K13")
def test_kernels_that_share_a_launch_leave_what_each_would_alone() -> None:
    """Maps, rows and columns of sizes beside the blocks, between guards."""
    w = Writer()
    sizes = (1, 255, 257, 1000)
    xs = [w.input(f"x{n}", 3, size) for n, size in enumerate(sizes)]
    outputs = [
        w.pointwise(f"y{n}", x.shape, lambda i, j, x=x: apply("mul", load(x, i, j), 2.0))
        if n % 2
        else w.reduction(f"y{n}", [3], [x.shape[1]], lambda i, r, x=x: load(x, i, r), kind="max")
        for n, x in enumerate(xs)
    ]
    program = w.program(*outputs)
    assert len(plan_of(rendered_program(program)).launches) == 1
    rng = np.random.default_rng(0)
    given = {x.name: rng.random((3, int(x.shape[1]))).astype(np.float32) for x in xs}
    found, wanted = run(program, given), evaluate(program, given, {}, {})
    for name in program.outputs:
        np.testing.assert_array_equal(found[name], wanted[name])


@pytest.mark.row("C:G1", "C:inv21")
@pytest.mark.parametrize("length", [37, 64])  # a mask spans the block, but not every block has one
def test_a_constant_counts_once_for_each_element_of_the_row(length: int) -> None:
    w = Writer()
    x = w.input("x", 3)
    y = w.reduction("y", [3], [length], lambda i, r: apply("mul", load(x, i), 2.0))
    values = np.arange(3, dtype=np.float32)
    found = run(w.program(y), {"x": values})
    np.testing.assert_allclose(found["y"], values * 2 * length)


# --- texts ---------------------------------------------------------------------------------------


def one_call(op: str, count: int, length: int, *args: Any) -> Rendered:
    """The kernels of one operator on rows; no data is made for it."""
    shape = (Int.of(count), Int.of(length))
    reduced = op.startswith("aten.sum")
    result = TensorSpec("y", F32, shape[:1] if reduced else shape)
    call = node("y", op, (Ref("x"), *args), result)
    graph = graph_of([call], (TensorSpec("x", F32, shape),), (Ref("y"),))
    return render(schedule(lower(graph)), H100)


@pytest.mark.row("C:inv7", "C:B8", "C:B9", "C:B11", "C:G12", "C:G13")
@pytest.mark.parametrize(
    ("op", "args", "loops"),
    [
        ("aten.softmax.int", lambda n: (-1,), 2),
        ("aten.layer_norm.default", lambda n: ((n,),), 2),
        ("aten.rms_norm.default", lambda n: ((n,),), 2),
        ("aten.sum.dim_IntList", lambda n: ((1,),), 1),
    ],
)
def test_long_rows_take_one_loop_a_dependence_and_short_rows_none(
    op: str, args: Callable[[int], tuple[Any, ...]], loops: int
) -> None:
    def loops_of(length: int) -> int:
        text = kernel_text(one_call(op, 4096, length, *args(length)))
        assert "r_start" in text or "for " not in text
        return text.count("for r_start in")

    assert (loops_of(2**17), loops_of(1000)) == (loops, 0)


@pytest.mark.row("C:B17", "C:H13", "C:F13")
def test_a_long_row_is_a_program_of_its_own_without_a_row_dimension() -> None:
    long, short = (kernel_text(one_call("aten.sum.dim_IntList", 4000, n, (1,))) for n in (8192, 64))
    assert "[:, None]" not in long and "x = tl.program_id(0)" in long
    assert "[:, None]" in short
    for text in (long, short):
        (store,) = (line for line in text.splitlines() if "tl.store(" in line)
        assert "tl.store(out_ptr + x, " in store  # once, not by each lane of the row


@pytest.mark.row("C:F5", "C:H2", "C:H14", "C:inv9", "C:def3", "C:I3")
def test_every_grid_is_flat_so_no_axis_overflows() -> None:
    """The first axis of a grid holds 2**31 - 1 programs, the others 65535."""

    w = Writer()
    tall = 70_001 * 64
    x, y, a = w.input("x", 66, tall), w.input("y", tall, 66), w.weight("a", 64, 66)
    turned = w.pointwise("t", [tall, 66], lambda i, j: apply("add", load(x, j, i), load(y, i, j)))
    product = rendered_program(w.program(turned, w.matmul("z", tall, 64, 66, y, a)))
    launches = plan_of(product).launches
    assert len(launches) == 2
    assert all(step.grid[1:] == (1, 1) and 65535 < step.grid[0] < 2**31 for step in launches)


@pytest.mark.row("C:F2", "C:def5", "C:F10", "C:F6")
def test_a_load_under_one_condition_is_not_that_under_another() -> None:
    bench = Bench()
    r = IndexValue(Int.of(bench_axis(bench)), I64)
    first, second = (Apply("lt", (r, Const(n, I64)), BOOL) for n in (3, 5))
    element = bench.load("bias", Int.of(bench_axis(bench)))
    guards = [Guarded(c, element, Const(0.0, F32), F32) for c in (first, second)]
    lines = bench.lines(apply("add", *guards), guards[0])
    loads = [line for line in lines if "tl.load" in line]
    assert len(loads) == 2 and loads[0].split("mask=")[1] != loads[1].split("mask=")[1]


def bench_axis(bench: Bench) -> Axis:
    """The inner axis of the bench's frame."""
    return next(axis for axis in bench.emitter.frame.names if axis.name == "r")


@pytest.mark.row("C:inv17", "C:L3", "C:D7", "C:F9", "C:inv13")
def test_16_bits_are_widened_when_loaded_and_rounded_when_stored_only() -> None:
    x = torch.empty(64, 64, dtype=torch.bfloat16)
    text = kernel_text(rendered(Function(lambda x: (x.exp() * 2 + x).tanh(), 1), x))
    assert text.count(".to(tl.float32)") == 1 and text.count(".to(tl.bfloat16)") == 1


@pytest.mark.row("C:H3", "C:A12", "C:H4", "C:H18")
def test_fixed_sizes_are_literals_and_dynamic_ones_arguments() -> None:
    def program(rows: Int | int) -> Program:
        w = Writer((Var("b", 1, 99),))
        x = w.input("x", rows, 100)
        return w.program(w.reduction("y", [rows], [100], lambda i, r: load(x, i, r)))

    fixed, dynamic = (rendered_program(program(n)) for n in (5, Int.of(Var("b", 1, 99))))
    names = [[argument.name for argument in p.kernels[0].args] for p in (fixed, dynamic)]
    assert names == [["x_ptr", "out_ptr"], ["x_ptr", "out_ptr", "b"]]
    assert "x < 5" in kernel_text(fixed) and "x < b" in kernel_text(dynamic)


@pytest.mark.row("C:H17", "C:B21", "C:I2")
def test_a_kernels_text_is_complete() -> None:
    product = one_call("aten.softmax.int", 4096, 50_000, -1)
    (kernel,) = product.kernels
    scope: dict[str, Any] = {}
    function: Callable[..., Any] = interpretable(kernel.name, kernel.text)
    assert callable(function) and scope == {}
    assert kernel.text.startswith("# template: kernel_loop.py.jinja\nimport triton\n")


@pytest.mark.row("C:A5", "C:A7", "C:A14", "C:D5")
def test_an_index_that_mixes_rows_and_columns_stays_within_its_buffer() -> None:
    """Reshapes that split and merge, on memory between guards."""
    w = Writer()
    x = w.input("x", 6, 4)
    y = w.pointwise("y", [4, 6], lambda i, j: load(x, (i * 6 + j) // 4, (i * 6 + j) % 4))
    z = w.pointwise("z", [3, 8], lambda i, j: load(x, ((i * 8 + j) // 4) % 6, j % 4))
    values = np.arange(24, dtype=np.float32).reshape(6, 4)
    found = run(w.program(y, z), {"x": values})
    np.testing.assert_array_equal(found["y"], values.reshape(4, 6))
    np.testing.assert_array_equal(found["z"], values.reshape(3, 8))
