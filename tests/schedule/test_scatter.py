"""Scatters: kernels of their own, in their base's memory or in a copy's (S:B2, K11)."""

from collections.abc import Callable
from dataclasses import replace
from itertools import starmap

import pytest

from aotpack.ir.kernels.kernel import Schedule
from aotpack.ir.kernels.tiles import PointwiseTile
from aotpack.ir.program import Buffer, Program, Update
from aotpack.ir.symbolic.integers import Indirect, Int
from aotpack.ir.verify.schedule import InvalidSchedule, verify_schedule
from aotpack.schedule import PASSES, schedule
from aotpack.schedule.program.insert_copies import insert_copies

from .programs import (
    I64,
    Writer,
    apply,
    assert_same,
    load,
    lowered,
    names,
    replayed,
    schedule_of,
)

ROWS, COLUMNS, POINTS = 6, 8, 5


def into(w: Writer, name: str, base: Buffer, factor: float = 1.0) -> Buffer:
    """Rows of the input ``v`` times a factor, added to those rows of ``base`` that ``n`` names."""
    if "v" not in w.buffers:
        w.input("v", POINTS, COLUMNS)
        w.input("n", POINTS, dtype=I64)
    v, n = w.buffers["v"], w.buffers["n"]

    def place(i: Int, j: Int) -> tuple[Int, Int]:
        return Int.of(Indirect(load(n, i), Int.of(ROWS))), j

    return w.scatter(
        name, base, (POINTS, COLUMNS), place, lambda i, j: apply("mul", load(v, i, j), factor)
    )


def doubled(w: Writer, name: str, source: Buffer) -> Buffer:
    return w.pointwise(
        name, (ROWS, COLUMNS), lambda i, j: apply("mul", load(source, i, j), 2.0), op="mul"
    )


def squared(w: Writer, source: Buffer) -> Buffer:
    """A product that reads ``source``: no kernel takes it in, nor does it take in others."""
    return w.matmul("z", ROWS, ROWS, COLUMNS, source, source)


def dying(w: Writer) -> Program:
    """``y`` is made for the scatter alone, and so is what it becomes."""
    y = doubled(w, "y", w.input("x", ROWS, COLUMNS))
    return w.program(squared(w, into(w, "s", into(w, "t", y), 3.0)))


def returned(w: Writer) -> Program:
    """The last of two scatters is an output: all lie there from the start."""
    y = doubled(w, "y", w.input("x", ROWS, COLUMNS))
    return w.program(into(w, "s", into(w, "t", y), 3.0))


def given(w: Writer) -> Program:
    """An input must stay as it is."""
    return w.program(squared(w, into(w, "t", w.input("x", ROWS, COLUMNS))))


def weight(w: Writer) -> Program:
    return w.program(squared(w, into(w, "t", w.weight("x", ROWS, COLUMNS))))


def output(w: Writer) -> Program:
    """``y`` is returned as it is, too."""
    y = doubled(w, "y", w.input("x", ROWS, COLUMNS))
    return w.program(y, squared(w, into(w, "t", y)))


def read_later(w: Writer) -> Program:
    y = doubled(w, "y", w.input("x", ROWS, COLUMNS))
    t = into(w, "t", y)
    return w.program(
        squared(w, t), w.reduction("r", (ROWS,), (COLUMNS,), lambda i, r: load(y, i, r))
    )


def twice_a_base(w: Writer) -> Program:
    y = doubled(w, "y", w.input("x", ROWS, COLUMNS))
    return w.program(into(w, "t", y), into(w, "s", y, 3.0))


def read_by_its_value(w: Writer) -> Program:
    """Elements are read that other points write."""
    x = w.input("x", ROWS, COLUMNS)
    y = w.pointwise("y", (ROWS, COLUMNS), lambda i, j: apply("exp", load(x, i, j)), op="exp")
    n = w.input("n", POINTS, dtype=I64)
    return w.program(
        w.scatter(
            "t",
            y,
            (POINTS, COLUMNS),
            lambda i, j: (Int.of(Indirect(load(n, i), Int.of(ROWS))), j),
            lambda i, j: load(y, ROWS - 1 - i, j),
        )
    )


def updating(program: Program, **updates: str) -> Program:
    return replace(program, updates=tuple(starmap(Update, updates.items())))


def state(w: Writer) -> Program:
    """A cache takes rows in, twice, and is read."""
    t = into(w, "t", into(w, "s", w.weight("x", ROWS, COLUMNS)), 3.0)
    return updating(w.program(squared(w, t)), x="t")


def state_read_before(w: Writer) -> Program:
    """What the cache was is needed, too."""
    x = w.weight("x", ROWS, COLUMNS)
    into(w, "t", x)
    return updating(w.program(squared(w, x)), x="t")


def state_made_anew(w: Writer) -> Program:
    """The new value is not made from the old one alone."""
    x = w.weight("x", ROWS, COLUMNS)
    into(w, "t", doubled(w, "y", x))
    return updating(w.program(into(w, "o", x)), x="t")


MAKERS = [dying, returned, given, weight, output, read_later, twice_a_base, read_by_its_value]
MAKERS += [state, state_read_before, state_made_anew]


@pytest.mark.row("S:B2", "S:K11")
@pytest.mark.parametrize("make", MAKERS, ids=lambda f: f.__name__)
def test_computes_the_same(make: Callable[[Writer], Program]) -> None:
    program = make(Writer())
    schedule = schedule_of(program)
    verify_schedule(schedule)
    assert_same(program, replayed(schedule))


def storages(schedule: Schedule) -> dict[str, str]:
    return {life.buffer: life.storage for life in schedule.lifetimes}


@pytest.mark.row("S:B2", "S:H17")
def test_works_in_place_where_the_base_dies() -> None:
    schedule = schedule_of(dying(Writer()))
    assert names(schedule) == ["mul", "scatter", "scatter", "linear"]
    assert storages(schedule) == {"y": "y", "t": "y", "s": "y"}


def test_works_in_the_output_it_becomes() -> None:
    schedule = schedule_of(returned(Writer()))
    assert names(schedule) == ["mul", "scatter", "scatter"]
    assert storages(schedule) == {"y": "s", "t": "s"}


@pytest.mark.parametrize("make", [given, weight], ids=lambda f: f.__name__)
def test_copies_what_is_not_its_own(make: Callable[[Writer], Program]) -> None:
    schedule = schedule_of(make(Writer()))
    assert names(schedule) == ["copy", "scatter", "linear"]
    assert storages(schedule) == {"t_base": "t_base", "t": "t_base"}


@pytest.mark.parametrize(
    ("make", "copies"),
    [(output, 1), (read_later, 1), (twice_a_base, 2), (read_by_its_value, 1)],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_copy_is_made_with_the_base(make: Callable[[Writer], Program], copies: int) -> None:
    """No kernel does nothing but copy: the producer stores twice, or computes the copy alone."""
    program = make(Writer())
    copied = [operation.origin.ops for operation in insert_copies(program).operations]
    assert copied.count(("copy",)) == copies
    assert "copy" not in names(schedule_of(program))


def test_works_in_the_tensor_that_it_updates() -> None:
    schedule = schedule_of(state(Writer()))
    assert names(schedule) == ["scatter", "scatter", "linear"]
    assert storages(schedule) == {"s": "x"}


@pytest.mark.parametrize(
    ("make", "kernels"),
    [
        (state_read_before, ["copy", "scatter", "linear", "copy"]),
        (state_made_anew, ["mul_copy", "scatter", "scatter", "copy"]),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_copies_back_what_is_made_elsewhere(
    make: Callable[[Writer], Program], kernels: list[str]
) -> None:
    schedule = schedule_of(make(Writer()))
    assert sorted(names(schedule)) == sorted(kernels)
    (update,) = schedule.program.updates
    assert update.value == "t_new"


def test_without_a_base_to_copy_the_program_is_the_same_object() -> None:
    program = dying(Writer())
    assert insert_copies(program) is program


def test_a_copy_takes_no_name_that_is_taken() -> None:
    w = Writer()
    x, taken = w.input("x", ROWS, COLUMNS), w.input("t_base", ROWS, COLUMNS)
    program = w.program(into(w, "t", x), doubled(w, "d", taken))
    assert "t_base_1" in schedule_of(program).program.buffers


@pytest.mark.row("S:K11", "S:inv23")
def test_is_a_flat_kernel_of_its_own_that_inlines_its_value() -> None:
    w = Writer()
    y = doubled(w, "y", w.input("x", ROWS, COLUMNS))
    v = w.input("v0", POINTS, COLUMNS)
    w.pointwise("v", (POINTS, COLUMNS), lambda i, j: apply("exp", load(v, i, j)), op="exp")
    w.input("n", POINTS, dtype=I64)
    t = into(w, "t", y)
    schedule = schedule_of(w.program(t, doubled(w, "after", t)))
    kernel = next(kernel for kernel in schedule.kernels if kernel.scatter is not None)
    assert "v" not in schedule.program.buffers and len(kernel.members) == 1
    assert [axis.extent for axis in kernel.axes] == [Int.of(POINTS * COLUMNS)]
    tiles = [variant.tile for variant in kernel.variants[1:]]
    assert tiles and all(isinstance(tile, PointwiseTile) for tile in tiles)


# --- what the verifier refuses ------------------------------------------------------------------


def with_lives(schedule: Schedule, **storage: str) -> Schedule:
    lives = tuple(
        replace(life, storage=storage.get(life.buffer, life.storage)) for life in schedule.lifetimes
    )
    return replace(schedule, lifetimes=lives)


def elsewhere() -> Schedule:
    return with_lives(schedule_of(dying(Writer())), s="s")


def not_in_its_output() -> Schedule:
    return with_lives(schedule_of(returned(Writer())), y="y", t="y")


def intruder() -> Schedule:
    schedule = schedule_of(read_later(Writer()))
    return with_lives(schedule, t="z", t_base="z")


def turned() -> Schedule:
    schedule = schedule_of(dying(Writer()))
    strides = {**schedule.strides, "t": (Int.of(1), Int.of(ROWS))}
    return replace(schedule, strides=strides)


@pytest.mark.row("S:inv23")
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (elsewhere, "s does not lie where t does"),
        (not_in_its_output, "s does not lie where t does"),
        (turned, "t does not lie where y does"),
        (intruder, "does not fit z"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_refuses(make: Callable[[], Schedule], message: str) -> None:
    with pytest.raises(InvalidSchedule, match=message):
        verify_schedule(make())


@pytest.mark.parametrize("make", [read_by_its_value, twice_a_base])
def test_refuses_a_base_that_is_still_read(make: Callable[[Writer], Program]) -> None:
    without = PASSES.replaced("insert_copies", lambda program: program)
    made = schedule(lowered(make(Writer())), passes=without).schedule
    with pytest.raises(InvalidSchedule, match="y is read beside what overwrites it"):
        verify_schedule(made)
