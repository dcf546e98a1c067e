"""Sizes are promised to be multiples where accesses of 16 bytes need it, and only then."""

from collections.abc import Callable
from itertools import product as pairs

import pytest
import torch
from torch.export import Dim

from aotpack.ir.program import Program
from aotpack.ir.symbolic.integers import Var
from aotpack.render import render
from aotpack.stages import Rendered
from aotpack.target import Target
from tests.ptx import access_bytes
from tests.render.test_wrapper import plan_of
from tests.schedule.programs import (
    BF16,
    F32,
    DType,
    Writer,
    apply,
    load,
    lowered,
    schedule,
    schedule_of,
    scheduled,
)

B, D = Var("b", 1, 4096), Var("d", 1, 4096)
BY_8, BY_16 = Var("d", 8, 4096, 8), Var("d", 16, 4096, 16)
HOPPER = (Target("cuda", 90),)


def rows(d: Var | int, dtype: DType = BF16) -> Program:
    """Each row by its maximum: rows begin at multiples of d."""
    w = Writer((B, d) if isinstance(d, Var) else (B,))
    x = w.input("x", B, d, dtype=dtype)
    top = w.reduction("top", [B], [d], lambda i, r: load(x, i, r), kind="max")
    made = w.pointwise(
        "y", (B, d), lambda i, j: apply("sub", load(x, i, j), load(top, i)), dtype=dtype
    )
    return w.program(made)


def points(d: Var | int, dtype: DType = BF16) -> Program:
    """A bias for each column: a flat kernel whose last digit has d values."""
    w = Writer((B, d) if isinstance(d, Var) else (B,))
    x, bias = w.input("x", B, d, dtype=dtype), w.input("bias", d, dtype=dtype)
    made = w.pointwise(
        "y", (B, d), lambda i, j: apply("add", load(x, i, j), load(bias, j)), dtype=dtype
    )
    return w.program(made)


def strided(d: Var) -> Program:
    """Every third element: no promise makes these neighbours."""
    w = Writer((d,))
    x = w.input("x", d, 3, dtype=BF16)
    return w.program(w.pointwise("y", (d,), lambda i: apply("neg", load(x, i, 0)), dtype=F32))


def made(program: Program) -> Rendered:
    return render(schedule(lowered(program)), HOPPER)


@pytest.mark.row("C:H7", "C:inv25")
@pytest.mark.parametrize("form", [rows, points])
@pytest.mark.parametrize(
    ("d", "dtype", "promised"),
    [
        (D, BF16, [8, 1]),
        (D, F32, [4, 1]),
        (BY_8, F32, [8]),
        (BY_8, BF16, [8]),
        (BY_16, BF16, [16]),
        (768, BF16, []),
        (100, BF16, []),
    ],
)
def test_a_promise_is_made_where_it_widens_accesses(
    form: Callable[..., Program], d: Var | int, dtype: DType, promised: list[int]
) -> None:
    found = [
        arg.multiple
        for kernel in made(form(d, dtype)).kernels
        for arg in kernel.args
        if arg.name == "d"
    ]
    assert sorted(set(found), reverse=True) == promised


@pytest.mark.row("C:H7")
@pytest.mark.parametrize("form", [rows, points])
def test_with_the_promise_a_dynamic_row_is_read_16_bytes_at_a_time(
    form: Callable[..., Program],
) -> None:
    widths: dict[int, set[int]] = {}
    for kernel in made(form(D)).kernels:
        (d,) = (arg for arg in kernel.args if arg.name == "d")
        found = access_bytes(kernel)
        widths.setdefault(d.multiple, set()).update(found["ld"], found["st"])
    assert max(widths[8]) == 16 and widths[1] == {2}


@pytest.mark.row("C:H7", "C:inv25")
@pytest.mark.parametrize("program", [rows(D), points(D), rows(BY_8), points(BY_16)])
def test_every_launch_keeps_its_promises(program: Program) -> None:
    product = made(program)
    plan, known = plan_of(product), {kernel.name: kernel for kernel in product.kernels}
    step = program.sizes[1].multiple
    taken = set()
    for b, d in pairs((1, 7, 4096), (1, 7, 8, 24, 48, 1000, 4095, 4096)):
        if d % step:
            continue
        for launch in plan(90, b, d).launches:
            taken.add(launch.kernel)
            for given, arg in zip(launch.args, known[launch.kernel].args, strict=True):
                assert isinstance(given, str) or given % arg.multiple == 0
    assert taken == set(known)


def test_a_stride_is_beyond_any_promise() -> None:
    for kernel in schedule_of(strided(D)).kernels:
        for variant in kernel.variants:
            assert all(size is not D or factor == 4 for size, factor in variant.divisibility)


@pytest.mark.row("C:H7")
def test_a_size_of_one_is_a_constant() -> None:
    module, x = torch.nn.Softmax(-1), torch.zeros(3, 1, 5)
    product = render(scheduled(module, x, dynamic_shapes={"input": {0: Dim("b", max=9)}}), HOPPER)
    for kernel in product.kernels:
        assert [arg.name for arg in kernel.args if not arg.is_pointer] == ["b"]
    for form in (rows, points):
        assert all(arg.name != "d" for k in made(form(1)).kernels for arg in k.args)
