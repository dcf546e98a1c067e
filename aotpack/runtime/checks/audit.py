"""Audits a call: records processes started, files written and sockets opened."""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_STARTS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.startfile")
_WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

_lock = threading.Lock()
_watchers: list[list[str]] = []
_installed: list[bool] = []  # an audit hook cannot be removed, so one is shared


@contextmanager
def watch() -> Iterator[list[str]]:
    """Inside the block, collect the forbidden actions of the whole process as text."""
    actions: list[str] = []
    with _lock:
        if not _installed:
            sys.addaudithook(_notice)
            _installed.append(True)
        _watchers.append(actions)
    try:
        yield actions
    finally:
        with _lock:
            _watchers[:] = [watcher for watcher in _watchers if watcher is not actions]


def _notice(event: str, args: tuple[Any, ...]) -> None:
    if not _watchers:
        return
    action = _action(event, args)
    if action is not None:
        for watcher in _watchers:
            watcher.append(action)


def _action(event: str, args: tuple[Any, ...]) -> str | None:
    if event in _STARTS:
        return f"{event} {args[0] if args else ''}".strip()
    if event.startswith("socket."):
        return event
    if event == "open":
        path, mode, flags = args
        if (isinstance(mode, str) and set(mode) & set("wax+")) or (flags or 0) & _WRITE_FLAGS:
            return f"open for writing: {path}"
    return None
