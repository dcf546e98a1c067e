import threading
import time

import pytest

from aotpack.runtime.errors import AotpackError
from aotpack.runtime.memory.arena import PLANS_KEPT, Arena, ArenaPool
from tests.runtime.fake_device import FakeDevice


def _used(pool: "ArenaPool[str]", stream: int) -> "Arena[str]":
    arena = pool.take(stream)
    arena.begin(stream)
    arena.end(stream)
    pool.give(arena)
    return arena


def test_one_stream_uses_one_arena_and_never_waits() -> None:
    device = FakeDevice()
    pool: ArenaPool[str] = ArenaPool("demo", device, 2)
    assert _used(pool, 3) is _used(pool, 3)
    assert device.waits == []


def test_two_streams_use_two_arenas_and_a_third_waits_for_an_event() -> None:
    device = FakeDevice()
    pool: ArenaPool[str] = ArenaPool("demo", device, 2)
    first, second = _used(pool, 3), _used(pool, 4)
    assert first is not second and _used(pool, 3) is first and device.waits == []
    assert _used(pool, 5) in (first, second) and device.waits == [(7, 5)]


def test_a_call_waits_for_a_free_arena() -> None:
    pool: ArenaPool[str] = ArenaPool("demo", FakeDevice(), 1)
    arena, taken = pool.take(0), threading.Event()

    def take() -> None:
        pool.give(pool.take(0))
        taken.set()

    thread = threading.Thread(target=take)
    thread.start()
    assert not taken.wait(0.05)
    pool.give(arena)
    thread.join(10)
    assert taken.is_set()


def test_who_comes_first_is_served_first() -> None:
    """A thread that calls again and again leaves the others their turns."""
    pool: ArenaPool[str] = ArenaPool("demo", FakeDevice(), 1)
    served, arena = list[int](), pool.take(0)

    def take(number: int) -> None:
        held = pool.take(0)
        served.append(number)
        pool.give(held)

    threads = [threading.Thread(target=take, args=(number,)) for number in range(3)]
    for waiting, thread in enumerate(threads, 1):
        thread.start()
        while len(pool._queue) < waiting:
            time.sleep(0.001)
    pool.give(arena)
    take(3)
    for thread in threads:
        thread.join(10)
    assert served == [0, 1, 2, 3]


def test_waiting_calls_learn_that_the_pool_was_closed() -> None:
    pool: ArenaPool[str] = ArenaPool("demo", FakeDevice(), 1)
    arena, words = pool.take(0), list[str]()

    def take() -> None:
        try:
            pool.give(pool.take(0))
        except AotpackError as error:
            words.append(str(error))

    threads = [threading.Thread(target=take) for _ in range(2)]
    closing = threading.Thread(target=pool.close)
    for thread in threads:
        thread.start()
    while len(pool._queue) < 2:
        time.sleep(0.001)
    closing.start()
    while not pool._idlers:
        time.sleep(0.001)
    pool.give(arena)
    for thread in (*threads, closing):
        thread.join(10)
    assert words == ["calling demo: the model was closed. Load it again."] * 2


def test_a_closed_pool_refuses() -> None:
    pool: ArenaPool[str] = ArenaPool("demo", FakeDevice(), 1)
    pool.close()
    pool.close()
    with pytest.raises(AotpackError, match="calling demo: the model was closed"):
        pool.take(0)


def test_growing_drops_plans_that_point_to_the_old_memory() -> None:
    device = FakeDevice()
    arena: Arena[str] = Arena(device)
    arena.reserve(100)
    arena.keep((1,), "plan")
    arena.reserve(50)
    assert arena.plan((1,)) == "plan"
    arena.reserve(1000)
    assert arena.plan((1,)) is None and len(device.blocks) == 1


def test_the_plan_unused_for_longest_goes() -> None:
    arena: Arena[str] = Arena(FakeDevice())
    for size in range(PLANS_KEPT):
        arena.keep((size,), "plan")
    assert arena.plan((0,)) == "plan"
    arena.keep((PLANS_KEPT,), "plan")
    assert arena.plan((0,)) == "plan" and arena.plan((1,)) is None


def test_what_grows_is_zeroed_and_drops_plans() -> None:
    device = FakeDevice()
    arena: Arena[str] = Arena(device)
    first = arena.counters(256, 0)
    device.blocks[first][:] = 255
    arena.keep((1,), "plan")
    assert arena.counters(128, 0) == first and arena.plan((1,)) == "plan"
    grown = arena.counters(512, 0)
    assert first not in device.blocks and arena.plan((1,)) is None
    assert not device.blocks[grown][:512].any()
    arena.free()
    assert not device.blocks
