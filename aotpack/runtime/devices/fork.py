"""Repairs state in a forked child, which has the memory of its parent but not its threads."""

import os
import weakref
from typing import Protocol


class Forked(Protocol):
    """An object that other threads may have been using when the process was forked."""

    def forked(self) -> None:
        """Forget them. Called in the child, before anything else runs there."""


_objects: "weakref.WeakSet[Forked]" = weakref.WeakSet()


def tell_of_forks(one: Forked) -> None:
    """Have ``one.forked()`` called in every child, as long as the object lives."""
    _objects.add(one)


def _tell() -> None:
    for one in list(_objects):
        one.forked()


if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(after_in_child=_tell)
