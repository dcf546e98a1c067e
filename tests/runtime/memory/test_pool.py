import sys
import threading
import time
from types import FrameType

import pytest

from aotpack.runtime.errors import AotpackError, ClosedError
from aotpack.runtime.memory.arena import Arena
from aotpack.runtime.memory.pool import ArenaPool
from tests.runtime.fake_device import FakeDevice


def _used(pool: "ArenaPool[str]", stream: int) -> "Arena[str]":
    arena = pool.take(sys._getframe(), stream)
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
    arena, taken = pool.take(sys._getframe(), 0), threading.Event()

    def take() -> None:
        pool.give(pool.take(sys._getframe(), 0))
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
    served, arena = list[int](), pool.take(sys._getframe(), 0)

    def take(number: int) -> None:
        held = pool.take(sys._getframe(), 0)
        served.append(number)
        pool.give(held)

    threads = [threading.Thread(target=take, args=(number,)) for number in range(3)]
    for waiting, thread in enumerate(threads, 1):
        thread.start()
        while len(pool._line) < waiting:
            time.sleep(0.001)
    pool.give(arena)
    take(3)
    for thread in threads:
        thread.join(10)
    assert served == [0, 1, 2, 3]


def test_waiting_calls_learn_that_the_pool_was_closed() -> None:
    pool: ArenaPool[str] = ArenaPool("demo", FakeDevice(), 1)
    arena, words = pool.take(sys._getframe(), 0), list[str]()

    def take() -> None:
        try:
            pool.give(pool.take(sys._getframe(), 0))
        except AotpackError as error:
            words.append(str(error))

    threads = [threading.Thread(target=take) for _ in range(2)]
    closing = threading.Thread(target=pool.close)
    for thread in threads:
        thread.start()
    while len(pool._line) < 2:
        time.sleep(0.001)
    closing.start()
    while pool._idler is None:
        time.sleep(0.001)
    pool.give(arena)
    for thread in (*threads, closing):
        thread.join(10)
    assert words == ["calling demo: the model was closed. Load it again."] * 2


def test_a_closed_pool_refuses() -> None:
    pool: ArenaPool[str] = ArenaPool("demo", FakeDevice(), 1)
    pool.close()
    pool.close()
    with pytest.raises(ClosedError, match="calling demo: the model was closed"):
        pool.take(sys._getframe(), 0)


def _dies_in_a_call(pool: "ArenaPool[str]") -> BaseException:
    """An error whose traceback keeps the frame of a call that never gave its arena back."""
    try:
        pool.take(sys._getframe(), 0).reserve(100)
        raise KeyboardInterrupt
    except KeyboardInterrupt as error:
        return error


def test_the_arena_of_a_dead_call_is_found_though_a_traceback_keeps_its_frame() -> None:
    device = FakeDevice()
    pool: ArenaPool[str] = ArenaPool("demo", device, 1)
    for _ in range(3):
        kept = _dies_in_a_call(pool)
        assert len(device.blocks) == 1
        arena = pool.take(sys._getframe(), 0)
        assert device.blocks == {} and kept.__traceback__ is not None
        pool.give(arena)


def test_work_that_wants_no_calls_does_not_wait_for_dead_ones() -> None:
    pool: ArenaPool[str] = ArenaPool("demo", FakeDevice(), 2)
    kept = _dies_in_a_call(pool)
    assert pool.exclusively("testing", lambda: 3) == 3
    pool.close()
    assert kept.__traceback__ is not None


def test_calls_wait_for_work_that_wants_none_and_that_work_for_calls() -> None:
    pool: ArenaPool[str] = ArenaPool("demo", FakeDevice(), 2)
    said, arena = list[str](), pool.take(sys._getframe(), 0)
    entered, leave = threading.Event(), threading.Event()

    def work() -> None:
        entered.set()
        leave.wait(10)
        said.append("work")

    def call() -> None:
        held = pool.take(sys._getframe(), 0)
        said.append("call")
        pool.give(held)

    exclusive = threading.Thread(target=pool.exclusively, args=("testing", work))
    exclusive.start()
    assert not entered.wait(0.05)
    pool.give(arena)
    assert entered.wait(10)
    calling = threading.Thread(target=call)
    calling.start()
    calling.join(0.1)
    leave.set()
    for thread in (exclusive, calling):
        thread.join(10)
    assert said == ["work", "call"]


def test_a_call_inside_a_call_of_its_thread_is_refused_where_it_would_wait_for_itself() -> None:
    pool: ArenaPool[str] = ArenaPool("demo", FakeDevice(), 1)
    arena = pool.take(sys._getframe(), 0)

    def inside() -> None:
        with pytest.raises(AotpackError, match="calling demo: this thread is inside a call"):
            pool.take(sys._getframe(), 0)
        with pytest.raises(AotpackError, match="closing demo: this thread is inside a call"):
            pool.close()

    inside()
    pool.give(arena)
    pool.give(pool.take(sys._getframe(), 0))

    def nested() -> None:
        with pytest.raises(AotpackError, match="testing demo: this thread is inside a call"):
            pool.exclusively("testing", lambda: None)

    pool.exclusively("testing", nested)
    pool.close()


def test_a_forked_child_has_the_arenas_of_the_parents_other_threads() -> None:
    pool: ArenaPool[str] = ArenaPool("demo", FakeDevice(), 2)
    taken, end = threading.Event(), threading.Event()

    def call() -> None:
        pool.take(sys._getframe(), 0)
        taken.set()
        end.wait(10)

    thread = threading.Thread(target=call)
    thread.start()
    taken.wait(10)
    own = pool.take(sys._getframe(), 0)
    pool.after_fork()

    def in_the_child(frame: FrameType) -> None:
        other = pool.take(frame, 0)
        assert other is not own
        pool.give(other)

    in_the_child(sys._getframe())
    end.set()
    thread.join(10)
    pool.give(own)
