"""Programs of thousands of operators: no stage recurses, and no kernel grows without bound."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import aotpack
from aotpack.ir.interpret.evaluate import evaluate
from aotpack.ir.ops.reference import Array
from aotpack.ir.program import Program
from aotpack.ir.uses import operator_count
from aotpack.ir.verify.schedule import verify_schedule
from aotpack.render import render
from aotpack.schedule import schedule
from aotpack.schedule.fusion.groups import MAX_KERNEL_OPERATORS
from aotpack.target import parse_targets
from tests.schedule.programs import Writer, apply, load, lowered
from tools import bench_scaling

OPERATORS = ("mul", "add", "minimum", "maximum")


def chain(length: int) -> Program:
    """Elementwise operators, one behind the other."""
    w = Writer()
    value = w.input("x", 8)
    for number in range(length):
        op = OPERATORS[number % len(OPERATORS)]
        value = w.pointwise(
            f"y{number}", [8], lambda i, x=value, op=op: apply(op, load(x, i), 1 / 8)
        )
    return w.program(value)


def expected(x: Array, length: int) -> Array:
    functions = [getattr(np, {"mul": "multiply"}.get(op, op)) for op in OPERATORS]
    for number in range(length):
        x = functions[number % len(functions)](x, np.float32(1 / 8))
    return x


def test_5000_operators_pass_every_stage() -> None:
    program = chain(5000)
    scheduled = schedule(lowered(program))
    verify_schedule(scheduled.schedule)
    sizes = [
        sum(operator_count(member.operation) for member in kernel.members)
        for kernel in scheduled.schedule.kernels
    ]
    assert sum(sizes) == 5000
    assert max(sizes) <= MAX_KERNEL_OPERATORS
    assert str(scheduled.schedule.program).count("minimum(") == 1250
    for target in ("sm_90", "cpu", "interpreter"):
        rendered = render(scheduled, parse_targets(target))
        assert len(rendered.kernels) == len(sizes)
    x = np.linspace(-2, 2, 8, dtype=np.float32)
    made = evaluate(scheduled.schedule.program, {"x": x}, {}, {})["y4999"]
    np.testing.assert_array_equal(made, expected(x, 5000))


class Chain(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        for number in range(360):
            x = x * 0.99 if number % 2 else (x + 0.01).abs()
        return x


@pytest.mark.parametrize("model", bench_scaling.MODELS)
def test_the_benchmark_measures_each_model(model: str) -> None:
    row = bench_scaling.measure(model, 3)
    assert row.kernels >= 1 and row.own >= 0


def test_a_long_chain_runs() -> None:
    x = torch.linspace(-2, 2, 8)
    torch.testing.assert_close(aotpack.compile(Chain(), (x,), target="cpu")(x), Chain()(x))
