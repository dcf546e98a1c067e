"""What pointers and offsets become: wide accesses in every layout, and addresses that only advance.

Block pointers would drop checks of borders, hoist addresses and advance them in loops; here the
compiler's output is read to show that these kernels have all of that.
"""

import re
from collections.abc import Sequence
from itertools import permutations

import pytest

from aotpack.ir.program import Program
from aotpack.ir.symbolic.integers import Int
from aotpack.ir.values import Value
from aotpack.render import render
from aotpack.schedule import schedule
from aotpack.stages import KernelSource
from aotpack.target import Target
from tests.ptx import access_bytes, ptx
from tests.schedule.programs import BF16, Writer, apply, load, lowered

LOOP = re.compile(r"^(\$L__BB\d+_\d+):(.*?)\bbra(?:\.uni)?\s+\1;", re.MULTILINE | re.DOTALL)
COMPUTED = re.compile(r"^\s*(?:@\S+ )?(mul|mad|div|rem|shl)\S*", re.MULTILINE)


def kernel_of(program: Program) -> KernelSource:
    (kernel,) = render(schedule(lowered(program)), (Target("cuda", 90),)).kernels
    return kernel


def permuted(shape: Sequence[int], order: Sequence[int]) -> Program:
    w = Writer()
    x = w.input("x", *shape, dtype=BF16)
    place = {dim: axis for axis, dim in enumerate(order)}
    return w.program(
        w.pointwise(
            "y",
            [shape[dim] for dim in order],
            lambda *at: apply("neg", load(x, *(at[place[dim]] for dim in range(len(shape))))),
            dtype=BF16,
        )
    )


@pytest.mark.row("C:C5", "C:F20", "C:L4")
@pytest.mark.parametrize("order", [order for order in permutations(range(3)) if order != (0, 1, 2)])
@pytest.mark.parametrize("shape", [(64, 128, 256), (48, 80, 272)], ids=str)
def test_a_permutation_reads_and_writes_16_bytes_at_a_time(
    shape: tuple[int, ...], order: tuple[int, ...]
) -> None:
    """Digits of a flat axis stay contiguous, though blocks cross their ends."""
    found = access_bytes(kernel_of(permuted(shape, order)))
    assert set(found["ld"]) == set(found["st"]) == {16}


def rows(count: int, length: int, *, down: bool) -> Program:
    """Sums of long rows, or down columns."""
    w = Writer()
    x = w.input("x", *((length, count) if down else (count, length)), dtype=BF16)

    def value(i: Int, r: Int) -> Value:
        return load(x, r, i) if down else load(x, i, r)

    return w.program(w.reduction("y", [count], [length], value))


@pytest.mark.row("C:F22")
@pytest.mark.parametrize("down", [False, True])
def test_in_a_loop_addresses_are_advanced_and_not_computed(down: bool) -> None:
    kernel = kernel_of(rows(65536, 32768, down=down))
    assert "for r_start" in kernel.text
    ((_, body),) = LOOP.findall(ptx(kernel))
    assert "ld.global" in body and not COMPUTED.search(body)
    assert set(access_bytes(kernel)["ld"]) == {16}


@pytest.mark.row("C:F21", "C:F23")
@pytest.mark.parametrize(("columns", "checked"), [(4096, False), (4096 + 64, True)])
def test_a_block_is_cast_once_and_stored_16_bytes_at_a_time(columns: int, checked: bool) -> None:
    """A value of the row is stretched over the block; a border is checked where one is reached."""
    w = Writer()
    x, bias = w.input("x", 4096, columns, dtype=BF16), w.input("bias", 4096, dtype=BF16)
    made = w.pointwise(
        "y",
        (4096, columns),
        lambda i, j: apply("add", load(x, i, j), load(bias, i)),
        dtype=BF16,
    )
    kernel = kernel_of(w.program(made))
    assert set(access_bytes(kernel)["st"]) == {16}
    assert ("mask=" in kernel.text) is False  # the grid divides both: nothing is checked
    narrow = kernel_of(permuted((64, columns + 8 * checked), (1, 0)))
    assert ("mask=" in narrow.text) is checked
    assert set(access_bytes(narrow)["st"]) == {16}
    assert kernel.text.count(".to(tl.bfloat16)") == 1


def normalised(count: int, length: int, columns: int, *, transposed: bool) -> Program:
    """Each column of each matrix less its mean, as a column again or as a row."""
    w = Writer()
    x = w.input("x", count, length, columns, dtype=BF16)
    total = w.reduction("s", [count, columns], [length], lambda n, c, r: load(x, n, r, c))

    def value(n: Int, r: Int, c: Int) -> Value:
        return apply("sub", load(x, n, r, c), apply("mul", load(total, n, c), 1 / length))

    if transposed:
        shape = (count, columns, length)
        return w.program(w.pointwise("y", shape, lambda n, c, r: value(n, r, c), dtype=BF16))
    return w.program(w.pointwise("y", (count, length, columns), value, dtype=BF16))


@pytest.mark.row("C:C7", "C:C1", "C:L1")
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("length", [64, 256, 512, 1000])
def test_columns_are_read_once_across_and_written_along(length: int, transposed: bool) -> None:
    """Reading and writing walk in different directions, in one tile that stays in registers."""
    kernel = kernel_of(normalised(32, length, 2048, transposed=transposed))
    found = access_bytes(kernel)
    assert set(found["ld"]) == set(found["st"]) == {16}
    assert kernel.text.count("tl.load(") == 1 and "for " not in kernel.text
