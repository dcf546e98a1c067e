import threading
import time

from aotpack.runtime.memory.waiting import Bell, Line


def test_a_ring_before_the_wait_is_heard() -> None:
    bell = Bell()
    bell.ring()
    bell.ring()
    start = time.monotonic()
    bell.wait()
    assert time.monotonic() - start < 0.04
    bell.wait()  # returns without a ring, a little later
    assert time.monotonic() - start >= 0.04


def test_threads_are_served_in_the_order_of_their_arrival() -> None:
    line, served, is_open = Line(), list[int](), threading.Event()

    def work(number: int) -> None:
        line.wait(lambda: is_open.is_set() or None)
        served.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for waiting, thread in enumerate(threads, 1):
        thread.start()
        while len(line) < waiting:
            time.sleep(0.001)
    assert line and served == []
    is_open.set()
    line.ring()
    for thread in threads:
        thread.join(10)
    assert served == [0, 1, 2, 3] and not line


def test_a_thread_that_died_in_the_line_is_passed_over() -> None:
    line, bell = Line(), Bell()
    line.bells[-1] = bell  # as an exception at the worst moment leaves it
    bell.looked -= 2
    assert line.wait(lambda: 7) == 7
    assert not line


def test_who_does_not_care_for_the_order_is_served_at_once() -> None:
    line = Line()
    line.bells[-1] = Bell()
    assert line.wait(lambda: 7, in_order=False) == 7
    line.ring_all()
    line.clear()
    assert not line
