"""Which kernel an operation joins and why not another; what a fused kernel reads and stores."""

import ast
import dataclasses
import inspect
from pathlib import Path

import pytest
import torch

from aotpack.ir import integers, nodes, schedule
from aotpack.ir.integers import Int, Var
from aotpack.ir.nodes import Program, targets
from aotpack.ir.schedule import Kernel, Schedule
from aotpack.schedule.fuse import _shared_bytes
from aotpack.schedule.group import join, start
from tests.e2e.models import Function
from tests.schedule.programs import BF16, Writer, apply, load, schedule_of, scheduled

ROOT = Path(__file__).parents[2]


def kernel_of(made: Schedule, name: str) -> Kernel:
    """The kernel that makes a buffer, stored or not."""
    for kernel in made.kernels:
        if any(name in targets(member.operation) for member in kernel.members):
            return kernel
    raise KeyError(name)


def two_readers(wide: int, narrow: int) -> Program:
    """``z`` reads both ``a`` and ``b``; either kernel could take it."""
    w = Writer()
    x, y = w.input("x", 8, wide), w.input("y", 8, narrow)
    a = w.reduction("a", [8], [wide], lambda i, r: load(x, i, r))
    b = w.reduction("b", [8], [narrow], lambda i, r: load(y, i, r))
    return w.program(w.pointwise("z", [8], lambda i: apply("add", load(a, i), load(b, i))), a, b)


@pytest.mark.row("S:M2", "S:M3", "S:M5", "S:N5", "S:T5")
def test_an_operation_joins_the_kernel_with_which_it_shares_most_bytes() -> None:
    w = Writer()
    x, y = w.input("x", 4096), w.input("y", 8)
    a = w.pointwise("a", [4096], lambda i: apply("exp", load(x, i)))
    b = w.pointwise("b", [8], lambda i: apply("exp", load(y, i)))
    c = w.pointwise("c", [8], lambda i: apply("add", load(b, i), load(a, i)))
    program = w.program(a, b, c)
    groups = [start(operation, program) for operation in program.operations[:2]]
    shared = [_shared_bytes(program.operations[2], group, program) for group in groups]
    assert shared == [4096 * 4, 8 * 4]
    made = schedule_of(program)  # the larger one cannot take it: its points are others
    assert kernel_of(made, "c") is kernel_of(made, "b")


@pytest.mark.row("S:M3")
def test_of_equal_candidates_the_latest_is_taken() -> None:
    made = schedule_of(two_readers(64, 48))
    assert kernel_of(made, "z") is kernel_of(made, "b")


@pytest.mark.row("S:T8", "S:M5")
@pytest.mark.parametrize(("dtype", "size"), [(BF16, 2), (None, 4)])
def test_shared_traffic_is_in_bytes(dtype: object, size: int) -> None:
    w = Writer((Var("b", 1, 64),))
    x = w.input("x", Var("b", 1, 64), 4, **({"dtype": dtype} if dtype else {}))  # type: ignore[arg-type]
    y = w.pointwise("y", x.shape, lambda i, j: apply("exp", load(x, i, j)))
    z = w.pointwise("z", x.shape, lambda i, j: apply("neg", load(x, i, j)))
    program = w.program(y, z)
    group = start(program.operations[0], program)
    assert _shared_bytes(program.operations[1], group, program) == 8 * 4 * size  # b is about 8


@pytest.mark.row("S:T7", "S:inv19", "S:M4")
def test_a_refused_operation_leaves_the_kernel_as_it_was() -> None:
    w = Writer()
    x = w.input("x", 4, 8)
    t = w.pointwise("t", [4, 8], lambda i, j: apply("exp", load(x, i, j)))
    # its rows are t's columns: accepting it would renumber t, which its second read forbids
    y = w.reduction("y", [8], [4], lambda j, r: apply("add", load(t, r, j), load(t, 3 - r, j)))
    program = w.program(t, y)
    group = start(program.operations[0], program)
    before = str(group)
    assert join(group, program.operations[1], program) is None
    assert str(group) == before


@pytest.mark.row("S:T4", "S:M11")
def test_several_reads_of_one_buffer_all_count() -> None:
    def made(last: int) -> int:
        w = Writer()
        x = w.input("x", 8, 8)
        t = w.pointwise("t", [8, 8], lambda i, j: apply("exp", load(x, i, j)))

        def value(i: Int, j: Int) -> nodes.Value:
            same = apply("add", load(t, i, j), load(t, i, j))
            other = load(t, i, j) if last == 0 else load(t, i, 7 - j)
            return apply("mul", same, apply("add", other, load(t, i, j)))

        return len(schedule_of(w.program(t, w.pointwise("y", [8, 8], value))).kernels)

    assert (made(0), made(1)) == (1, 2)


@pytest.mark.row("S:L15", "S:O7", "S:K8", "C:inv14")
def test_the_result_nobody_reads_of_several_is_not_stored() -> None:
    made = scheduled(Function(lambda x: x.var(1), 1), torch.zeros(8, 64)).schedule
    (kernel,) = made.kernels
    names = [name for member in kernel.members for name in targets(member.operation)]
    assert len(names) == 3 and kernel.stored == made.program.outputs and not made.lifetimes
    made = scheduled(Function(lambda x: x.max(1).values, 1), torch.zeros(8, 64)).schedule
    assert not [k for k in made.kernels if any("argmax" in str(m.operation) for m in k.members)]


@pytest.mark.row("S:B13")
def test_the_first_stage_takes_in_the_arithmetic_before_it() -> None:
    made = scheduled(Function(lambda x: (x.exp() * 2).sum(), 1), torch.empty(2**21)).schedule
    first, second = made.kernels
    assert first.reads == ("x",) and [life.buffer for life in made.lifetimes] == [*first.stored]
    assert second.reads == first.stored


@pytest.mark.row("S:A5", "S:T17", "S:T12", "C:C6", "C:B13")
@pytest.mark.parametrize("module", [nodes, integers, schedule], ids=lambda m: m.__name__)
def test_everything_that_is_scheduled_is_a_frozen_value(module: object) -> None:
    """So no question can change a layout or an order, and equal values need no identity."""
    classes = [
        found
        for _, found in inspect.getmembers(module, inspect.isclass)
        if found.__module__ == module.__name__ and dataclasses.is_dataclass(found)  # type: ignore[attr-defined]
    ]
    assert len(classes) >= 4
    for found in classes:
        assert found.__dataclass_params__.frozen, found


@pytest.mark.row("S:T14")
@pytest.mark.parametrize("folder", ["ir", "lower", "schedule", "render"])
def test_no_stage_swallows_errors(folder: str) -> None:
    """A defect inside shows itself; it is never taken for a decision."""
    for path in (ROOT / "aotpack" / folder).glob("*.py"):
        for handler in ast.walk(ast.parse(path.read_text())):
            if isinstance(handler, ast.ExceptHandler):
                assert handler.type is not None, path
                caught = {node.id for node in ast.walk(handler.type) if isinstance(node, ast.Name)}
                assert not caught & {"Exception", "BaseException"}, path


@pytest.mark.row("S:T13")
def test_sizes_that_might_differ_are_never_taken_for_equal() -> None:
    """Two sizes are one only where the export proved it; else the model is refused."""
    from torch.export import Dim

    from aotpack.errors import TraceError

    shapes = {"x": {0: Dim("a", min=1, max=9)}, "y": {0: Dim("b", min=1, max=9)}}
    with pytest.raises(TraceError, match="a = b|b = a|must always be equal|specialized"):
        scheduled(
            Function(lambda x, y: x + y, 2), torch.ones(5), torch.ones(5), dynamic_shapes=shapes
        )
