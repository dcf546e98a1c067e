"""The builds of a process take turns: each changes functions and settings of torch for a while.

A build that ended within another one would put back what that one has changed, or leave it. A
process that is forked while another thread builds keeps the changes, and nothing ends that turn.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from aotpack.errors import TraceError

_TURN = threading.RLock()


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Inside the block, no other thread traces a model."""
    if _Forked.in_a_build:
        raise TraceError(
            "tracing a model: this process was forked while another thread traced one, and has "
            "torch as that thread left it. Fork where no build runs, or start processes by "
            "multiprocessing.set_start_method('spawn')"
        )
    with _TURN:
        yield


class _Forked:
    """How this process began."""

    in_a_build = False

    @classmethod
    def look(cls) -> None:
        """See whether a thread that is not here has the turn."""
        cls.in_a_build = not _TURN.acquire(blocking=False)
        if not cls.in_a_build:
            _TURN.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Forked.look)
