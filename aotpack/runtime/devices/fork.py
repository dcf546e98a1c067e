"""Repairs state in a forked child, which has its parent's memory but not its threads."""

import os
import weakref
from typing import Protocol


class ForkAware(Protocol):
    """An object that other threads may have used at the time of the fork."""

    def after_fork(self) -> None:
        """Drop those threads; called in the child before other code runs."""


_objects: "weakref.WeakSet[ForkAware]" = weakref.WeakSet()


def register_after_fork(one: ForkAware) -> None:
    """Call ``one.after_fork()`` in every forked child while the object is alive."""
    _objects.add(one)


def _after_fork() -> None:
    for one in list(_objects):
        one.after_fork()


if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(after_in_child=_after_fork)
