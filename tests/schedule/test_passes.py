"""The passes as data: their order, what they may say of themselves, and what runs them."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aotpack.ir.kernels.kernel import Kernel
from aotpack.ir.kernels.tiles import ReductionTile
from aotpack.ir.passes import PassRun, verify_each
from aotpack.ir.program import Program
from aotpack.ir.verify.invalid import InvalidProgram
from aotpack.ir.verify.tiles import InvalidSchedule
from aotpack.schedule import PASSES, schedule
from aotpack.schedule.draft import Draft, draft_pass
from aotpack.schedule.launches.last_block import run_in_last_block
from aotpack.schedule.program.dead_code import remove_dead_code
from aotpack.schedule.tiles.choose import choose_tiles
from tools.passes import text

from .program.test_fixed_order import by_element
from .programs import Writer, apply, load, lowered, numbered

ROOT = Path(__file__).parents[2]


def two_steps(*, read: bool = True) -> Program:
    w = Writer()
    x = w.input("x", 8)
    t = w.pointwise("t", [8], lambda i: apply("exp", load(x, i)))
    return w.program(w.pointwise("y", [8], lambda i: apply("neg", load(t if read else x, i))))


def runs(program: Program, **options: bool) -> list[PassRun]:
    found: list[PassRun] = []
    schedule(lowered(program), after=found.append, **options)  # type: ignore[arg-type]
    return found


def test_every_pass_runs_in_the_order_of_the_tuples() -> None:
    found = runs(two_steps())
    assert [run.name for run in found] == [one.name for one in PASSES]
    assert [run.number for run in found] == [*range(1, len(found) + 1)]


def test_a_draft_prints_as_far_as_it_is_made() -> None:
    texts = {run.name: run.state.as_text() for run in runs(two_steps())}
    assert "kernel " not in texts["realize"] and "exp" in texts["realize"]
    assert "kernel " in texts["fuse"] and "tile " not in texts["fuse"]
    assert "strides y" in texts["choose_strides"] and "tile " in texts["choose_tiles"]


@pytest.mark.parametrize("deterministic", [False, True])
def test_a_pass_runs_with_its_option_alone(deterministic: bool) -> None:
    found = runs(by_element("sum"), deterministic=deterministic)
    assert [run.is_changed for run in found if run.name == "fix_order"] == [deterministic]


def halved(draft: Draft) -> Program:
    """All operations but the first."""
    return replace(draft.program, operations=draft.program.operations[1:])


def test_a_pass_gets_what_its_parameters_name() -> None:
    program = two_steps(read=False)
    draft = Draft(program)
    assert draft_pass(remove_dead_code, "program")(draft).program is not program
    assert len(draft_pass(halved, "program")(draft).program.operations) == 1
    still = Draft(two_steps())
    assert draft_pass(remove_dead_code, "program")(still) is still


def wants_more(program: Program, mood: str) -> Program:
    return program


def test_what_no_draft_has_is_refused() -> None:
    with pytest.raises(TypeError, match="pass wants_more: a draft has no mood"):
        draft_pass(wants_more, "program")
    with pytest.raises(TypeError, match="pass remove_dead_code: a draft has no speed, wishes"):
        draft_pass(remove_dead_code, "wishes", only_with="speed")


def test_a_pass_keeps_its_name_and_place_when_it_is_replaced() -> None:
    changed = PASSES.replaced("realize", lambda program: program)
    assert [one.name for one in changed] == [one.name for one in PASSES]
    made = schedule(lowered(two_steps()), passes=changed).schedule
    assert len(made.program.operations) == 2
    with pytest.raises(KeyError, match="realise"):
        PASSES.replaced("realise", lambda program: program)


def undeclared(program: Program) -> Program:
    return replace(program, buffers={})


def without_the_last(kernels: tuple[Kernel, ...]) -> tuple[Kernel, ...]:
    return kernels[:-1]


@pytest.mark.row("S:Q6")
@pytest.mark.parametrize(
    ("name", "function", "error"),
    [
        ("recognise_gelu", undeclared, InvalidProgram),
        ("attach_parts", without_the_last, InvalidSchedule),
    ],
)
def test_verification_names_the_pass(
    name: str, function: Callable[..., Any], error: type[Exception]
) -> None:
    w = Writer()
    x = w.input("x", 8)
    outputs = (w.pointwise(f"y{n}", [8 + n], lambda i: load(x, i - i)) for n in range(2))
    given = lowered(w.program(*outputs))
    schedule(given, after=verify_each)
    with pytest.raises(error) as found:
        schedule(given, passes=PASSES.replaced(name, function), after=verify_each)
    assert found.value.__notes__ == [f"found after pass {numbered(name)}"]


def backwards(kernels: tuple[Kernel, ...]) -> tuple[Kernel, ...]:
    return kernels[::-1]


def in_clusters(draft: Draft) -> tuple[Kernel, ...]:
    """Three programs share each row, of a length that is no multiple of three."""
    kernels = choose_tiles(draft.program, draft.kernels, draft.strides, draft.options.gpu)
    return tuple(with_tiles(kernel, cluster_size=3) for kernel in kernels)


def with_tiles(kernel: Kernel, **changes: int) -> Kernel:
    variants = tuple(
        replace(one, tile=replace(one.tile, **changes))
        if isinstance(one.tile, ReductionTile)
        else one
        for one in kernel.variants
    )
    return replace(kernel, variants=variants)


def uncounted(draft: Draft) -> tuple[Kernel, ...]:
    """Nobody counts who has arrived."""
    kernels = run_in_last_block(draft.program, draft.kernels, draft.options.gpu)
    return tuple(replace(kernel, counters=()) for kernel in kernels)


def all_at_once(kernels: tuple[Kernel, ...]) -> tuple[Kernel, ...]:
    first, *others = kernels
    return (first, *(replace(kernel, shares_launch=True) for kernel in others))


def long_sum() -> Program:
    """A sum of sums: the last programs of the first kernel run the second."""
    w = Writer()
    x = w.input("x", 512, 8192)
    first = w.reduction("first", [512], [8192], lambda i, r: load(x, i, r))
    return w.program(w.reduction("y", [4], [128], lambda i, r: load(first, r * 4 + i)))


def scaled() -> Program:
    """Two launches: a sum of all, by which each is then scaled."""
    w = Writer()
    x = w.input("x", 8, 64)
    total = w.reduction("total", [], [8, 64], lambda i, j: load(x, i, j))
    w.buffers["total"] = replace(w.buffers["total"], unfusable=True)
    scale = lambda i, j: apply("div", load(x, i, j), load(total))  # noqa: E731
    return w.program(w.pointwise("y", [8, 64], scale))


@pytest.mark.row("S:M20")
@pytest.mark.parametrize(
    ("name", "function", "program", "words"),
    [
        ("order_kernels", backwards, scaled, "total is read before it is stored"),
        ("choose_tiles", in_clusters, long_sum, "3 programs cannot share its rows"),
        ("run_in_last_block", uncounted, long_sum, "cannot run in last blocks"),
        ("fuse_horizontally", all_at_once, scaled, "total is read before it is stored"),
    ],
)
def test_a_fault_is_found_after_the_pass_that_made_it(
    name: str, function: Callable[..., Any], program: Callable[[], Program], words: str
) -> None:
    given = lowered(program())
    schedule(given, after=verify_each)
    with pytest.raises(InvalidSchedule, match=words) as found:
        schedule(given, passes=PASSES.replaced(name, function), after=verify_each)
    assert found.value.__notes__ == [f"found after pass {numbered(name)}"]


def test_lifetimes_are_verified_where_there_are_none() -> None:
    assert schedule(lowered(two_steps()), after=verify_each).schedule.lifetimes == ()
    none = PASSES.replaced("plan_memory", lambda: ())
    with pytest.raises(InvalidSchedule, match="where it does not begin to live") as found:
        schedule(lowered(long_sum()), passes=none, after=verify_each)
    assert found.value.__notes__ == [f"found after pass {numbered('plan_memory')}"]


def failing(program: Program) -> Program:
    raise ValueError("no idea")


@pytest.mark.row("S:T14")
def test_what_a_pass_raises_names_it() -> None:
    with pytest.raises(ValueError, match="no idea") as found:
        schedule(lowered(two_steps()), passes=PASSES.replaced("realize", failing))
    assert found.value.__notes__ == [f"in pass {numbered('realize')}"]


def test_the_document_is_what_the_tuples_say() -> None:
    assert (ROOT / "docs/passes.md").read_text() == text()


def test_every_pass_says_what_it_does() -> None:
    for one in PASSES:
        assert one.function.__doc__, one.name
