import sys
import threading
from types import FrameType

from aotpack.runtime.memory.ownership import Owned, frames_below, is_running


def _ended() -> FrameType:
    return sys._getframe()


def _claims(owned: Owned) -> bool:
    return owned.claim(sys._getframe())


def test_one_frame_owns_until_it_releases() -> None:
    owned = Owned()
    assert owned.owner() is None
    assert owned.claim(sys._getframe())
    assert owned.owner() is sys._getframe() and not _claims(owned)
    owned.release()
    assert owned.owner() is None and owned.claim(sys._getframe())


def test_a_frame_that_has_ended_owns_nothing() -> None:
    owned = Owned()
    for _ in range(3):
        assert _claims(owned)  # and ends without a release
        assert owned.owner() is None
    assert owned.claim(sys._getframe())


def test_a_frame_runs_until_it_returns() -> None:
    assert is_running(sys._getframe())
    assert not is_running(_ended())
    assert sys._getframe() in frames_below(sys._getframe())
    assert frames_below(None) == set()


def test_an_abandoned_turn_is_free_for_the_next() -> None:
    owned = Owned()
    owned.claim(sys._getframe())
    owned.abandon()
    assert owned.owner() is None and _claims(owned)


def test_of_all_threads_that_claim_one_at_a_time_succeeds() -> None:
    owned, held, worst = Owned(), list[int](), list[int]()

    def work(number: int) -> None:
        for turn in range(300):
            if owned.claim(sys._getframe()):
                held.append(number)
                worst.append(len(held))
                held.pop()
                if turn % 3:
                    owned.release()
                else:
                    _hand_over(owned)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert set(worst) == {1}


def _hand_over(owned: Owned) -> None:
    """Release, and leave a dead owner behind."""
    owned.release()
    owned.claim(sys._getframe())
