"""What GPUs offer, what a launch moves, and the time that should take."""

import pytest

from aotpack.devices import GPUS
from aotpack.ir.kernels.traffic import Work, work_of
from aotpack.ir.symbolic.integers import Int, Var
from aotpack.tune import estimate
from aotpack.tune.estimate import FIXED_MICROSECONDS
from tests.schedule.programs import BF16, F32, Writer, apply, load, schedule_of

B = Var("b", 1, 64)


def work(writer: Writer, name: str) -> Work:
    """The work of the one kernel of a program."""
    schedule = schedule_of(writer.program(writer.buffers[name]))
    (kernel,) = schedule.kernels
    return work_of(kernel, schedule.program)


@pytest.mark.row("S:N5")
def test_a_product_moves_its_factors_and_its_result_once() -> None:
    w = Writer()
    x, weight = w.input("x", 8, 96, dtype=BF16), w.weight("w", 50, 96, dtype=BF16)
    w.matmul("y", 8, 50, 96, x, weight, by_rows=True)
    found = work(w, "y")
    assert found.flops == Int.of(2 * 8 * 50 * 96)
    assert found.moved == Int.of(2 * (8 * 96 + 50 * 96) + F32.itemsize * 8 * 50)


@pytest.mark.row("S:N5")
def test_a_tensor_counts_once_and_in_the_model_s_sizes() -> None:
    w = Writer((B,))
    x = w.input("x", B, 10)
    w.pointwise("y", (B, 10), lambda i, j: apply("mul", load(x, i, j), load(x, i, 9 - j)))
    assert work(w, "y").moved == 80 * Int.of(B)


@pytest.mark.row("S:N5")
def test_of_a_table_only_the_rows_that_are_read_count() -> None:
    w = Writer()
    table, x = w.weight("t", 1000, 8), w.input("x", 4, 8)
    w.pointwise("y", (4, 8), lambda i, j: apply("add", load(table, i, j), load(x, i, j)))
    assert work(w, "y").moved == Int.of(3 * 4 * 8 * F32.itemsize)


@pytest.mark.row("S:N6")
def test_the_longer_of_memory_and_products_decides() -> None:
    gpu = GPUS[90]
    assert estimate(0, 0, gpu) == FIXED_MICROSECONDS
    memory, products = estimate(10**9, 1, gpu), estimate(1, 10**12, gpu)
    assert estimate(10**9, 10**12, gpu) == max(memory, products)
    assert estimate(2 * 10**9, 1, gpu) - memory == pytest.approx(1e15 / gpu.bandwidth / 0.9)
    assert estimate(10**9, 0, GPUS[86]) > estimate(10**9, 0, gpu)
