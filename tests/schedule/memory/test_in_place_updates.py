"""New values are written in place where nobody misses the old one, else copied at the end."""

from dataclasses import replace

import pytest

from aotpack.ir.kernels.kernel import Schedule
from aotpack.ir.program import Buffer, Program, Update, targets
from aotpack.ir.symbolic.integers import Var
from aotpack.ir.values import Apply, Const
from aotpack.ir.verify.program import InvalidProgram, verify
from aotpack.ir.verify.schedule import InvalidSchedule, verify_schedule
from tests.schedule.programs import BOOL, F32, I64, Writer, apply, load, schedule_of

B = Var("b", 1, 64)


def updating(w: Writer, updates: dict[str, Buffer], *outputs: Buffer) -> Program:
    program = w.program(*outputs)
    verify(program)
    pairs = tuple(Update(name, value.name) for name, value in updates.items())
    changed = replace(program, updates=pairs)
    verify(changed)
    return changed


def scheduled(program: Program) -> Schedule:
    schedule = schedule_of(program)
    verify_schedule(schedule)
    return schedule


def values(schedule: Schedule) -> list[str]:
    return [update.value for update in schedule.program.updates]


@pytest.mark.row("S:D8", "S:M10")
def test_pointwise_change_is_written_in_place() -> None:
    w = Writer((B,))
    x, s = w.input("x", B, 8), w.weight("s", B, 8)
    t = w.pointwise("t", [B, 8], lambda i, j: apply("add", load(s, i, j), load(x, i, j)))
    schedule = scheduled(updating(w, {"s": t}))
    assert values(schedule) == ["t"] and len(schedule.kernels) == 1 and not schedule.lifetimes


@pytest.mark.row("S:A1", "S:D9", "S:L9", "S:T16")
def test_readers_of_the_old_value_go_first() -> None:
    """The product reads s, and is written after the change in the program."""
    w = Writer((B,))
    x, s = w.input("x", B, 8), w.input("s", 8, 8)
    t = w.pointwise("t", [8, 8], lambda i, j: apply("exp", load(s, i, j)))
    y = w.matmul("y", B, 8, 8, x, s)
    schedule = scheduled(updating(w, {"s": t}, y))
    assert values(schedule) == ["t"]
    order = [name for kernel in schedule.kernels for name in kernel.stored]
    assert order == ["y", "t"]


@pytest.mark.row("S:D9", "S:K10")
def test_shifted_reads_need_a_copy() -> None:
    w = Writer()
    s = w.input("s", 8)
    t = w.pointwise("t", [8], lambda i: apply("exp", load(s, 7 - i)))
    schedule = scheduled(updating(w, {"s": t}))
    assert values(schedule) == ["t_copy"]
    assert [kernel.stored for kernel in schedule.kernels] == [("t",), ("t_copy",)]
    assert [life.buffer for life in schedule.lifetimes] == ["t"]


@pytest.mark.row("S:L9")
def test_tensors_that_change_places_need_a_copy() -> None:
    w = Writer()
    a, b = w.input("a", 8), w.input("b", 8)
    t = w.pointwise("t", [8], lambda i: apply("exp", load(b, i)))
    u = w.pointwise("u", [8], lambda i: apply("exp", load(a, i)))
    schedule = scheduled(updating(w, {"a": t, "b": u}))
    assert any(value.endswith("_copy") for value in values(schedule))


def test_changed_weights_are_not_packed() -> None:
    w = Writer((B,))
    x, w1, w2 = w.input("x", B, 8), w.weight("w1", 8, 8), w.weight("w2", 8, 8)
    products = [w.matmul(f"p{k}", B, 8, 8, x, weight) for k, weight in enumerate((w1, w2))]
    outs = [
        w.pointwise(f"o{k}", [B, 8], lambda i, j, p=p: apply("exp", load(p, i, j)))
        for k, p in enumerate(products)
    ]
    t = w.pointwise("t", [8, 8], lambda i, j: apply("exp", load(w1, i, j)))
    assert not schedule_of(updating(w, {"w1": t}, *outs)).program.packed


def in_place() -> Schedule:
    w = Writer((B,))
    x, s = w.input("x", B, 8), w.input("s", 8, 8)
    t = w.pointwise("t", [8, 8], lambda i, j: apply("exp", load(s, i, j)))
    y = w.matmul("y", B, 8, 8, x, s)
    return scheduled(updating(w, {"s": t}, y))


@pytest.mark.row("S:L9", "S:inv37")
def test_refuses_a_read_of_what_was_overwritten() -> None:
    schedule = in_place()
    turned = replace(schedule, kernels=schedule.kernels[::-1])
    with pytest.raises(InvalidSchedule, match="s is read after t has overwritten it"):
        verify_schedule(turned)


@pytest.mark.row("S:D8")
@pytest.mark.parametrize(
    ("update", "message"),
    [
        (Update("y", "t"), "y cannot become t"),
        (Update("x", "x"), "x cannot become x"),
        (Update("x", "y"), "a buffer is two results"),
        (Update("n", "t"), r"n: int64\[8\] cannot become t: float32\[8\]"),
    ],
)
def test_refuses_an_update_of(update: Update, message: str) -> None:
    w = Writer()
    x, _ = w.input("x", 8), w.input("n", 8, dtype=I64)
    y = w.pointwise("y", [8], lambda i: apply("exp", load(x, i)))
    w.pointwise("t", [8], lambda i: apply("exp", load(y, i)))
    with pytest.raises(InvalidProgram, match=message):
        verify(replace(w.program(y), updates=(update,)))


def test_an_update_prints() -> None:
    schedule = in_place()
    assert "update s = t" in str(schedule) and "update s = t" in str(schedule.program)
    assert [name for k in schedule.kernels for m in k.members for name in targets(m.operation)]


# --- settled by whoever comes first --------------------------------------------------------------


def settling(form: str) -> Schedule:
    """A sum of everything decides what becomes of ``s``."""
    w = Writer((B,))
    x, s, other = w.input("x", B, 8), w.input("s"), w.input("other")
    total = w.reduction("total", [], [B, 8], lambda i, j: load(x, i, j))
    high = Apply("gt", (load(total), Const(0.0, F32)), BOOL)
    higher = Apply("gt", (load(total), load(s)), BOOL)
    forms = {
        "kept_or_set": apply("where", high, load(s), 1.0),
        "set_or_kept": apply("where", high, 1.0, load(s)),
        "counted": apply("add", load(s), load(total)),
        "decided_by_itself": apply("where", higher, load(s), 1.0),
        "set_to_what_is_read": apply("where", high, load(s), load(other)),
    }
    t = w.pointwise("t", [], lambda: forms[form])
    return scheduled(updating(w, {"s": t}, total))


@pytest.mark.row("S:Q5", "S:M10")
@pytest.mark.parametrize("form", ["kept_or_set", "set_or_kept"])
def test_a_constant_or_the_old_value_is_written_in_place_by_several_warps(form: str) -> None:
    schedule = settling(form)
    assert values(schedule) == ["t"] and len(schedule.kernels) == 1


@pytest.mark.row("S:M10")
@pytest.mark.parametrize("form", ["counted", "decided_by_itself", "set_to_what_is_read"])
def test_what_depends_on_who_comes_first_is_copied(form: str) -> None:
    assert values(settling(form)) == ["t_copy"]
