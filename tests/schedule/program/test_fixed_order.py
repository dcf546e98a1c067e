"""Scatters without atomics give what scatters give, whatever points meet; the rest is kept."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim

import aotpack
from aotpack.ir.operations import Scatter
from aotpack.ir.program import Program
from aotpack.ir.symbolic.integers import Indirect, Int
from aotpack.ir.values import IndexValue, Load, Value
from aotpack.ir.verify.program import verify
from aotpack.pipeline import Build, BuildOptions, Source
from aotpack.schedule.program.fixed_order import fix_order
from aotpack.target import device_arch, parse_targets
from tests.render.test_wrapper import plan_of
from tests.schedule.programs import I64, Writer, load, run

POINTS, ELEMENTS, COLUMNS = 37, 5, 3
HOPPER = parse_targets("sm_90")


def position(buffer: object, *index: Int) -> Int:
    """A loaded position; nothing keeps it inside."""
    found = Load(buffer.name, index, I64)  # type: ignore[attr-defined]
    return Int.of(Indirect(found, Int.of(2**31 - 1)))


def by_element(kind: str) -> Program:
    w = Writer()
    i, x = w.input("i", POINTS, dtype=I64), w.input("x", POINTS)
    base = w.input("base", ELEMENTS)
    made = w.scatter(
        "y", base, (POINTS,), lambda p: (position(i, p),), lambda p: load(x, p), kind=kind
    )
    return w.program(made)


def by_row(kind: str) -> Program:
    """All columns of a row go to one place; the target has more columns than there are."""
    w = Writer()
    i, x = w.input("i", POINTS, dtype=I64), w.input("x", POINTS, COLUMNS)
    base = w.input("base", ELEMENTS, COLUMNS + 1)
    made = w.scatter(
        "y",
        base,
        (POINTS, COLUMNS),
        lambda p, d: (position(i, p), d),
        lambda p, d: load(x, p, d),
        kind=kind,
    )
    return w.program(made)


def by_column(kind: str) -> Program:
    """Each column has places of its own."""
    w = Writer()
    i, x = w.input("i", POINTS, COLUMNS, dtype=I64), w.input("x", POINTS, COLUMNS)
    base = w.input("base", ELEMENTS, COLUMNS)
    made = w.scatter(
        "y",
        base,
        (POINTS, COLUMNS),
        lambda p, d: (position(i, p, d), d),
        lambda p, d: load(x, p, d),
        kind=kind,
    )
    return w.program(made)


def by_pair(kind: str) -> Program:
    """Two loaded positions, of points that two axes count."""
    w = Writer()
    i, j = (w.input(name, POINTS, 2, dtype=I64) for name in "ij")
    x, base = w.input("x", POINTS, 2), w.input("base", ELEMENTS, COLUMNS)
    made = w.scatter(
        "y",
        base,
        (POINTS, 2),
        lambda p, q: (position(i, p, q), position(j, p, q)),
        lambda p, q: load(x, p, q),
        kind=kind,
    )
    return w.program(made)


FORMS = [by_element, by_row, by_column, by_pair]


def arrays(program: Program) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    found = {}
    for name in program.inputs:
        shape = [int(size) for size in program.buffers[name].shape]
        is_place = program.buffers[name].dtype is I64
        # whole numbers: float sums of them are exact in any order
        low, high = (0, ELEMENTS + 2) if is_place else (-9, 9)
        found[name] = rng.integers(low, high, shape).astype(np.int64 if is_place else np.float32)
    return found


@pytest.mark.row("C:L7")
@pytest.mark.parametrize("kind", ["sum", "max", "set"])
@pytest.mark.parametrize("form", FORMS)
def test_the_sorted_form_gives_the_same(form: Callable[[str], Program], kind: str) -> None:
    program = form(kind)
    fixed = fix_order(program)
    verify(fixed)
    assert not any(isinstance(operation, Scatter) for operation in fixed.operations)
    given = arrays(program)
    (name,) = program.outputs
    np.testing.assert_array_equal(run(program, given, {})[name], run(fixed, given, {})[name])


def test_what_cannot_meet_stays() -> None:
    w = Writer()
    i, x, base = w.input("i", COLUMNS, dtype=I64), w.input("x", COLUMNS), w.input("b", 9, COLUMNS)
    once = w.scatter("y", base, (COLUMNS,), lambda d: (position(i, d), d), lambda d: load(x, d))
    program = w.program(once)
    assert fix_order(program) is program


def test_integers_stay_atomic() -> None:
    w = Writer()
    i, base = w.input("i", POINTS, dtype=I64), w.input("base", ELEMENTS, dtype=I64)

    def value(p: Int) -> Value:
        return IndexValue(p, I64)

    made = w.scatter("y", base, (POINTS,), lambda p: (position(i, p),), value)
    program = w.program(made)
    assert fix_order(program) is program


# --- models


class Gather(nn.Module):
    """Sums of rows, sums of elements, and writes of which the last must stay."""

    def forward(
        self, x: torch.Tensor, rows: torch.Tensor, places: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        zeros = torch.zeros(4, x.shape[1])
        return (
            zeros.index_add(0, rows, x),
            zeros.scatter_add(0, places, x),
            zeros.index_put((rows,), x),
            torch.softmax(x, -1),
        )


def call(points: int) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(points)
    return torch.randn(points, 6), torch.randint(0, 4, (points,)), torch.randint(0, 4, (points, 6))


ROWS = {name: {0: Dim("n", min=2, max=16)} for name in ("x", "rows", "places")}


@pytest.mark.row("C:L7")
@pytest.mark.parametrize("target", ["interpreter", "cpu"])
def test_a_deterministic_model_answers_as_eager(target: str) -> None:
    module = Gather()
    model = aotpack.compile(module, call(9), dynamic_shapes=ROWS, target=target, deterministic=True)
    for points in (9, 2, 16):
        for ours, theirs in zip(model(*call(points)), module(*call(points)), strict=True):
            torch.testing.assert_close(ours, theirs)


@pytest.mark.row("C:L7")
def test_no_kernel_is_atomic_and_each_launch_has_one_form() -> None:
    def texts(deterministic: bool) -> tuple[str, int]:
        source = Source(Gather(), call(9), dynamic_shapes=ROWS)
        product = Build(source, BuildOptions(HOPPER, deterministic=deterministic)).rendered
        plan = plan_of(product)
        forms = {tuple(launch.kernel for launch in plan(90, n).launches) for n in range(2, 17)}
        return "".join(kernel.text for kernel in product.kernels), len(forms)

    fixed, forms = texts(deterministic=True)
    assert "atomic" not in fixed and forms == 1
    assert "atomic" in texts(deterministic=False)[0]


@pytest.mark.row("C:L7")
def test_a_product_has_one_tile_for_all_batches() -> None:
    x, module = torch.zeros(4, 512), nn.Linear(512, 512)
    batch = {"input": {0: Dim("b", min=1, max=8192)}}
    counts = []
    for deterministic in (False, True):
        source = Source(module, (x,), dynamic_shapes=batch)
        product = Build(source, BuildOptions(HOPPER, deterministic=deterministic)).rendered
        counts.append(len(product.kernels))
    assert counts[1] == 1 < counts[0]


@pytest.mark.gpu
@pytest.mark.skipif(device_arch() is None, reason="needs an NVIDIA GPU")
@pytest.mark.row("C:L7")
def test_two_runs_are_equal_bit_for_bit() -> None:
    torch.manual_seed(0)
    points = 20_000
    args = (
        torch.randn(points, 6, device="cuda"),
        torch.randint(0, 4, (points,), device="cuda"),
        torch.randint(0, 4, (points, 6), device="cuda"),
    )
    given = tuple(arg.cpu() for arg in args)
    model = aotpack.compile(Gather(), given, target="native", deterministic=True)
    first = [result.clone() for result in model(*args)]
    for _ in range(20):
        for again, once in zip(model(*args), first, strict=True):
            assert torch.equal(again.view(torch.int32), once.view(torch.int32))
    for ours, theirs in zip(first, Gather()(*given), strict=True):
        torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-4, atol=1e-3)
