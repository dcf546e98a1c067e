"""Plans with calls of bodies become plans with launches alone."""

from typing import Any

import pytest

from aotpack.runtime.errors import PackageError
from aotpack.runtime.graph.unrolled import unrolled
from aotpack.runtime.plan import (
    Body,
    Branch,
    Buffer,
    Call,
    Counters,
    Launch,
    Loop,
    Part,
    Plan,
    Repeat,
    SizeRead,
)


def launch(*args: Any) -> Launch:
    return Launch("k", (1, 1, 1), args)


TWICE = Body(
    ("x", "w", "y"),
    Part(
        (Buffer("t", 8, 0, 1),),
        (launch("x", "w", "t", "c", 3), launch("t", "y")),
        (Counters("c", 4),),
    ),
)


def plan(*places: Any, buffers: tuple[Buffer, ...] = ()) -> Plan:
    return Plan(buffers, ((4,),), places)


def test_a_call_is_the_launches_of_its_body() -> None:
    made = unrolled(
        plan(
            launch("x", "h0"),
            Repeat(TWICE, ("h0", "w0", "h1")),
            Repeat(TWICE, ("h1", "w1", "out")),
            buffers=(Buffer("h0", 8, 0, 1), Buffer("h1", 8, 1, 2)),
        )
    )
    assert made.launches == (
        launch("x", "h0"),
        launch("h0", "w0", "1/t", "1/c", 3),
        launch("1/t", "h1"),
        launch("h1", "w1", "2/t", "2/c", 3),
        launch("2/t", "out"),
    )
    assert made.buffers == (
        Buffer("h0", 8, 0, 2),
        Buffer("h1", 8, 1, 4),
        Buffer("1/t", 8, 1, 2),
        Buffer("2/t", 8, 3, 4),
    )
    assert made.counters == (Counters("1/c", 4), Counters("2/c", 4))


def test_a_plan_without_calls_stays() -> None:
    one = plan(launch("x", "t"), launch("t", "y"), buffers=(Buffer("t", 8, 0, 1),))
    assert unrolled(one) == one


def test_bodies_may_call_bodies() -> None:
    outer = Body(
        ("x", "w", "y"),
        Part(
            (Buffer("m", 8, 0, 1),),
            (Repeat(TWICE, ("x", "w", "m")), Repeat(TWICE, ("m", "w", "y"))),
        ),
    )
    made = unrolled(plan(Repeat(outer, ("a", "b", "c"))))
    assert [place.args for place in made.launches if isinstance(place, Launch)] == [
        ("a", "b", "0/0/t", "0/0/c", 3),
        ("0/0/t", "0/m"),
        ("0/m", "b", "0/1/t", "0/1/c", 3),
        ("0/1/t", "c"),
    ]
    assert made.buffers[0] == Buffer("0/m", 8, 0, 3)


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (Call("f", (("x", (2,)), 5)), Call("f", (("a", (2,)), 5))),
        ((launch("x"), launch("y")), (launch("a"), launch("b"))),
        (
            Branch("x", Part((), (launch("y"),)), Part((), ())),
            Branch("a", Part((), (launch("b"),)), Part((), ())),
        ),
        (
            Loop(3, "n", Part((), (launch("x"),)), Part((), (launch("x", "n"),))),
            Loop(3, "n", Part((), (launch("a"),)), Part((), (launch("a", "n"),))),
        ),
        (
            Loop("x", "", Part((), ()), Part((), ()), Part((), (launch("y"),))),
            Loop("a", "", Part((), ()), Part((), ()), Part((), (launch("b"),))),
        ),
    ],
)
def test_all_places_of_a_body_take_the_arguments(place: Any, expected: Any) -> None:
    body = Body(("x", "y"), Part((), (place,)))
    assert unrolled(plan(Repeat(body, ("a", "b")))).launches == (expected,)


def test_a_body_that_reads_sizes_is_refused() -> None:
    read = SizeRead(("n",), ("x",), (4,), lambda n: Part((), ()))
    with pytest.raises(PackageError, match="the body of a call has a SizeRead"):
        unrolled(plan(Repeat(Body(("x",), Part((), (read,))), ("a",))))


def test_a_plan_with_calls_has_no_steps() -> None:
    with pytest.raises(TypeError, match="no steps before it is unrolled"):
        [*plan(Repeat(TWICE, ("a", "b", "c"))).steps()]
