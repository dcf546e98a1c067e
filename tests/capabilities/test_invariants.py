"""Invariants of scheduling over random programs; those named check_ hold in every build as well."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from aotpack.ir.kernels.access import accesses
from aotpack.ir.kernels.kernel import Kernel
from aotpack.ir.program import Program, Update, reads, targets
from aotpack.ir.verify.program import verify
from aotpack.ir.verify.schedule import verify_schedule
from aotpack.runtime.memory.packing import ALIGNMENT, live_bytes, pack
from aotpack.schedule.fusion.fuse import fuse
from aotpack.schedule.launches.order import order_kernels
from aotpack.schedule.program.dead_code import remove_dead_code
from aotpack.schedule.program.realize import realize
from tests.render.models import rendered_program
from tests.render.test_wrapper import plan_of
from tests.schedule.programs import Writer, apply, load, schedule_of

from .random_programs import Machine, arrays_of, programs, results_of

SIZES = {"s": 5}
some = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)


@pytest.mark.row("S:inv1", "S:inv2", "S:inv3", "S:inv4", "S:inv5", "S:inv22", "S:inv32", "S:A4")
@some
@given(programs())
def test_every_stage_of_a_program_is_legal(program: Program) -> None:
    for stage in (program, remove_dead_code(program), realize(program)):
        verify(stage)
    verify_schedule(schedule_of(program))


@pytest.mark.row("S:inv6", "S:inv7", "S:inv21", "S:inv26", "S:M14", "S:T3", "S:L16", "S:L20")
@some
@given(programs())
def test_the_graph_of_kernels_has_no_cycle(program: Program) -> None:
    program = realize(program)
    kernels = fuse(program)
    assert len(kernels) <= len(program.operations)
    members = [targets(member.operation) for kernel in kernels for member in kernel.members]
    assert sorted(members) == sorted(map(targets, program.operations))
    assert is_acyclic(kernels)
    placed = order_kernels(program, kernels)
    assert sorted(kernel.stored for kernel in placed) == sorted(k.stored for k in kernels)
    known = {*program.inputs, *program.weights}
    for kernel in placed:
        assert known.issuperset(kernel.reads)
        known.update(kernel.stored)


def is_acyclic(kernels: tuple[Kernel, ...]) -> bool:
    """By taking away, again and again, the kernels that wait for nothing that is left."""
    made = {name: n for n, kernel in enumerate(kernels) for name in kernel.stored}
    left = {n: {made[name] for name in k.reads if name in made} for n, k in enumerate(kernels)}
    while free := [n for n, waits in left.items() if not waits & left.keys()]:
        for n in free:
            del left[n]
    return not left


@pytest.mark.row("S:inv8", "S:inv19", "S:T7", "S:L14", "C:inv24")
@some
@given(programs())
def test_asking_twice_gives_the_same_and_changes_nothing(program: Program) -> None:
    before = str(program)
    assert str(schedule_of(program)) == str(schedule_of(program))
    assert fuse(realize(program)) == fuse(realize(program))
    assert str(program) == before


@pytest.mark.row("S:inv9", "S:inv10", "S:F6", "S:K1", "C:inv3")
@some
@given(programs())
def test_stores_touch_every_element_once_and_loads_stay_inside(program: Program) -> None:
    made = schedule_of(program)
    for kernel in made.kernels:
        if kernel.template_op is not None:
            continue
        points = [range(int(axis.extent.evaluate(SIZES))) for axis in kernel.axes]
        for access in accesses(kernel):
            walked = points[:1] if access.member.outer or is_row(access, kernel) else points
            offset = access.offset(made.strides)
            found = [
                offset.evaluate(SIZES | dict(zip(("x", "r"), point, strict=False)))
                for point in itertools.product(*walked)
            ]
            numel = np.prod([n.evaluate(SIZES) for n in program_shape(made.program, access.buffer)])
            assert min(found) >= 0 and max(found) < numel
            if access.is_store:
                assert sorted(found) == list(range(int(numel)))


def is_row(access: object, kernel: Kernel) -> bool:
    """True for the one store a row of a reduction's result."""
    operation = access.member.operation  # type: ignore[attr-defined]
    return access.is_store and hasattr(operation, "inner")  # type: ignore[attr-defined]


def program_shape(program: Program, name: str) -> tuple[object, ...]:
    return program.buffers[name].shape


@pytest.mark.row(
    "S:inv11", "S:inv12", "S:inv13", "S:inv15", "S:inv20", "S:inv37", "S:inv38", "S:L7", "S:L10",
    "S:T6", "S:T15", "S:T16", "S:O2", "S:O3", "S:O6", "C:inv8",
)  # fmt: skip
@some
@given(programs())
def test_launches_in_their_memory_leave_what_the_program_says(program: Program) -> None:
    """Fused, in order, in place: outputs and changed tensors, for a size that divides nothing."""
    given_arrays = arrays_of(program, SIZES)
    wanted = results_of(program, given_arrays, SIZES)
    made = schedule_of(program)
    found = Machine(made, SIZES).run(given_arrays)
    ours = dict(zip(program.outputs, made.program.outputs, strict=True))
    ours |= {
        old.value: new.value for old, new in zip(program.updates, made.program.updates, strict=True)
    }
    for name, array in wanted.items():
        np.testing.assert_allclose(found[ours[name]], array, rtol=1e-4, atol=1e-5)


def test_the_machine_notices_memory_that_was_taken() -> None:
    """The twin: a buffer that is read after another one moved in."""
    w = Writer()
    x, a = w.input("x", 4, 4), w.weight("a", 4, 4)
    y = w.matmul("y", 4, 4, 4, x, a)
    z = w.matmul("z", 4, 4, 4, y, a)
    v = w.matmul("v", 4, 4, 4, z, y)
    made = schedule_of(w.program(v))
    wrong = replace(made, lifetimes=tuple(replace(life, storage="y") for life in made.lifetimes))
    arrays = arrays_of(made.program, {})
    assert Machine(made, {}).run(arrays)
    with pytest.raises(AssertionError, match="y is read where z lies"):
        Machine(wrong, {}).run(arrays)


@pytest.mark.row("S:inv17", "S:inv18", "S:L15", "C:inv14")
@some
@given(programs())
def test_dead_code_is_gone_for_good_and_leaves_no_trace(program: Program) -> None:
    alive = remove_dead_code(program)
    assert remove_dead_code(alive) is alive
    kept = {name for operation in alive.operations for name in targets(operation)}
    needed = {name for operation in alive.operations for name in reads(operation)}
    assert kept <= needed | set(program.results) | paired(alive)
    shown = str(schedule_of(program))
    for name in program.buffers:
        if name not in kept and name.startswith("t"):
            assert f"{name}:" not in shown and f"{name}[" not in shown


def paired(program: Program) -> set[str]:
    """Results of operations of which another result is needed."""
    return {n for o in program.operations if len(targets(o)) > 1 for n in targets(o)}


@pytest.mark.row("S:inv16", "S:L12", "S:K12")
def test_a_change_that_no_output_shows_is_kept() -> None:
    w = Writer()
    x, s = w.input("x", 4), w.weight("s", 4)
    y = w.pointwise("y", [4], lambda i: apply("exp", load(x, i)))
    w.pointwise("t", [4], lambda i: apply("add", load(s, i), load(x, i)))
    program = replace(w.program(y), updates=(Update("s", "t"),))
    made = schedule_of(program)
    assert any("t" in kernel.stored for kernel in made.kernels)
    assert [update.name for update in made.program.updates] == ["s"]


@pytest.mark.row("S:inv39", "S:O5", "S:inv40")
@settings(max_examples=15, deadline=None, derandomize=True)
@given(programs())
def test_the_planned_peak_is_what_lives_at_once_at_the_largest_sizes(program: Program) -> None:
    product = rendered_program(program)
    plan = plan_of(product)(90, *(size.high for size in program.sizes))
    assert product.peak_bytes == live_bytes(plan.buffers)
    offsets, total = pack(plan.buffers)
    assert live_bytes(plan.buffers) <= total and all(n % ALIGNMENT == 0 for n in offsets)
