"""Which kernel an operation joins and why not another; what a fused kernel reads and stores."""

import ast
import dataclasses
import inspect
from pathlib import Path

import pytest
import torch

from aotpack.ir import operations, program, values
from aotpack.ir.dtypes import DType
from aotpack.ir.kernels import kernel as kernels
from aotpack.ir.kernels import tiles
from aotpack.ir.kernels.kernel import Kernel, Schedule, launches
from aotpack.ir.kernels.traffic import work_of
from aotpack.ir.program import Program, targets
from aotpack.ir.symbolic import integers
from aotpack.ir.symbolic.integers import Int
from aotpack.schedule.fusion.group import join, start
from aotpack.schedule.fusion.refusal import Refusal
from tests.e2e.models import Function
from tests.schedule.programs import BF16, F32, Writer, apply, load, schedule_of, scheduled

ROOT = Path(__file__).parents[2]
LONG = 12_000  # elements of a row


def kernel_of(made: Schedule, name: str) -> Kernel:
    """The kernel that makes a buffer, stored or not."""
    for kernel in made.kernels:
        if any(name in targets(member.operation) for member in kernel.members):
            return kernel
    raise KeyError(name)


def two_candidates(x_type: DType, t_type: DType, *, whole: bool) -> Program:
    """``y`` reads what the kernel of ``a`` reads, and what the kernel of ``b`` makes of ``z``.

    Registers do not hold rows of both, so the two kernels are not merged afterwards.
    """
    w = Writer()
    x, z = w.input("x", 8, LONG, dtype=x_type), w.input("z", 8, LONG)
    a = w.reduction("a", [8], [LONG], lambda i, r: load(x, i, r), kind="max")
    t = w.pointwise("t", [8, LONG], lambda i, j: apply("exp", load(z, i, j)), dtype=t_type)
    b = w.reduction("b", [8], [LONG], lambda i, r: load(t, i, r))
    second = (lambda i, j: load(t, i, j)) if whole else (lambda i, j: load(b, i))
    y = w.pointwise("y", [8, LONG], lambda i, j: apply("add", load(x, i, j), second(i, j)))
    return w.program(a, t, b, y)


@pytest.mark.row("S:M2", "S:M3", "S:M5", "S:N5", "S:T5", "S:T8")
@pytest.mark.parametrize(
    ("x_type", "t_type", "whole", "partner"),
    [
        (F32, F32, False, "a"),  # 96000 elements are more than 8
        (F32, F32, True, "b"),  # as many: the latest
        (F32, BF16, True, "a"),  # as many elements, but more bytes
        (BF16, F32, True, "b"),
    ],
)
def test_an_operation_joins_the_kernel_with_which_it_shares_most_bytes(
    x_type: DType, t_type: DType, whole: bool, partner: str
) -> None:
    made = schedule_of(two_candidates(x_type, t_type, whole=whole))
    assert kernel_of(made, "y") is kernel_of(made, partner)
    assert kernel_of(made, "a") is not kernel_of(made, "b")


@pytest.mark.row("S:T7", "S:inv19", "S:M4")
def test_a_refused_operation_leaves_the_kernel_as_it_was() -> None:
    w = Writer()
    x = w.input("x", 4, 8)
    t = w.pointwise("t", [4, 8], lambda i, j: apply("exp", load(x, i, j)))
    # its rows are t's columns: accepting it would renumber t, which its second read forbids
    y = w.reduction("y", [8], [4], lambda j, r: apply("add", load(t, r, j), load(t, 3 - r, j)))
    program = w.program(t, y)
    group = start(program.operations[0])
    before = str(group)
    assert join(group, program.operations[1], program) is Refusal.OTHER_PROGRAM
    assert str(group) == before


@pytest.mark.row("S:T4", "S:M11")
def test_several_reads_of_one_buffer_all_count() -> None:
    def made(last: int) -> int:
        w = Writer()
        x = w.input("x", 8, 8)
        t = w.pointwise("t", [8, 8], lambda i, j: apply("exp", load(x, i, j)))

        def value(i: Int, j: Int) -> values.Value:
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


def test_the_first_stage_takes_in_the_arithmetic_before_it() -> None:
    made = scheduled(Function(lambda x: (x.exp() * 2).sum(), 1), torch.empty(2**21)).schedule
    first, second = made.kernels
    assert first.reads == ("x",) and [life.buffer for life in made.lifetimes] == [*first.stored]
    assert second.reads == first.stored


@pytest.mark.row("S:A5", "S:T17", "S:T12", "C:C6", "C:B13")
@pytest.mark.parametrize(
    "module", [values, operations, program, integers, kernels, tiles], ids=lambda m: m.__name__
)
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
    for path in (ROOT / "aotpack" / folder).rglob("*.py"):
        for handler in ast.walk(ast.parse(path.read_text())):
            if isinstance(handler, ast.ExceptHandler) and not raises_again(handler):
                assert handler.type is not None, path
                caught = {node.id for node in ast.walk(handler.type) if isinstance(node, ast.Name)}
                assert not caught & {"Exception", "BaseException"}, path


def raises_again(handler: ast.ExceptHandler) -> bool:
    """True for a handler that adds to what is raised."""
    last = handler.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None


@pytest.mark.row("S:T13")
def test_sizes_that_might_differ_are_never_taken_for_equal() -> None:
    """Two sizes are one only where the export proved it; else the model is refused."""
    from torch.export import Dim

    from aotpack.errors import TraceError

    shapes = {"x": {0: Dim("a", min=1, max=9)}, "y": {0: Dim("b", min=1, max=9)}}
    with pytest.raises(TraceError, match="Declare one Dim for b and a"):
        scheduled(
            Function(lambda x, y: x + y, 2), torch.ones(5), torch.ones(5), dynamic_shapes=shapes
        )


def both_ways(rows: int, columns: int) -> Program:
    """Sums of x along its rows and along its columns."""
    w = Writer()
    x = w.input("x", rows, columns)
    along = w.reduction("along", [rows], [columns], lambda i, r: load(x, i, r))
    down = w.reduction("down", [columns], [rows], lambda j, r: load(x, r, j))
    return w.program(along, down)


@pytest.mark.row("S:Q1", "S:Q2")
@pytest.mark.parametrize(
    ("rows", "columns", "groups"),
    [
        (64, 100, [("along", "down")]),
        (512, 520, [("along",), ("down",)]),
        (4096, 2048, [("along",), ("down_part", "down")]),
    ],
)
def test_rows_and_columns_are_read_once_each(
    rows: int, columns: int, groups: list[tuple[str, ...]]
) -> None:
    made = schedule_of(both_ways(rows, columns))
    found = [
        tuple(n for kernel in group for n in kernel.stored) for group in launches(made.kernels)
    ]
    assert found == groups
    size = 4 * rows * columns
    for kernel in made.kernels:
        moved = int(work_of(kernel, made.program).moved)
        assert size <= moved <= 1.05 * size if "x" in kernel.reads else moved <= 0.05 * size
    assert kernel_of(made, groups[-1][-1]).not_fused  # `aotpack show --why` has a reason
