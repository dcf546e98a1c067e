"""Launch order: topological, and otherwise the user's."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aotpack.ir.kernels.kernel import Kernel
from aotpack.ir.program import Buffer, Program
from aotpack.schedule.fusion.fuse import fuse
from aotpack.schedule.launches.order import order_kernels
from tests.schedule.programs import Writer, apply, load


def assert_topological(kernels: tuple[Kernel, ...], program: Program) -> None:
    ready = {*program.inputs, *program.weights}
    for kernel in kernels:
        assert set(kernel.reads) <= ready, kernel.name
        ready.update(kernel.stored)
    assert set(program.outputs) <= ready


@pytest.mark.row("S:K4", "S:L1", "S:L4", "S:L10", "S:L14", "S:inv2")
@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30), st.integers(0, 3)), max_size=12))
def test_order_is_topological(steps: list[tuple[int, int, int]]) -> None:
    """Random graphs of sums, shifts, transposes and row sums over 4 x 4 matrices."""
    w = Writer()
    known: list[Buffer] = [w.input("x", 4, 4)]
    for number, (a, b, kind) in enumerate(steps):
        left, right = known[a % len(known)], known[b % len(known)]
        known.append(_step(w, f"t{number}", left, right, kind))
    program = w.program(*known[-3:])
    kernels = order_kernels(program, fuse(program))
    assert_topological(kernels, program)
    assert sorted(map(id, kernels)) == sorted(set(map(id, kernels)))


def _step(w: Writer, name: str, a: Buffer, b: Buffer, kind: int) -> Buffer:
    if kind == 0:
        return w.pointwise(name, [4, 4], lambda i, j: apply("add", load(a, i, j), load(b, j, i)))
    if kind == 1:
        return w.pointwise(
            name, [4, 4], lambda i, j: apply("add", load(a, 3 - i, j), load(b, i, j))
        )
    sums = w.reduction(f"{name}_sums", [4], [4], lambda i, r: load(a, i, r))
    if kind == 2:
        return w.pointwise(name, [4, 4], lambda i, j: apply("add", load(sums, i), load(b, i, j)))
    return w.pointwise(name, [4, 4], lambda i, j: apply("add", load(sums, j), load(b, i, j)))


@pytest.mark.row("S:L14")
def test_independent_kernels_keep_the_users_order() -> None:
    w = Writer()
    xs = [w.input(f"x{n}", 8 + n) for n in range(3)]
    ys = [
        w.pointwise(f"y{n}", [8 + n], lambda i, x=x: apply("exp", load(x, i)))
        for n, x in enumerate(xs)
    ]
    program = w.program(*ys)
    kernels = fuse(program)
    placed = order_kernels(program, kernels)
    assert [kernel.stored for kernel in placed] == [("y0",), ("y1",), ("y2",)]
    assert order_kernels(program, tuple(reversed(kernels))) == placed
