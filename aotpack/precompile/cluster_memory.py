"""The shared memory of clusters, for Triton's interpreter: what ``render/sharing.py`` calls.

A stand-in for distributed shared memory. It is stricter than the hardware about places: whoever
reads one before all have written to it, or writes to one that was not read since, gets an error.
Counts of bytes and parities of turns, by which the hardware waits, are not looked at here.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter as triton_interpreter

from aotpack.precompile.ring_memory import at_work

Program = tuple[int, ...]


class ClusterMemory:
    """The rooms of the programs that run together: words by program, place and sender."""

    def __init__(self) -> None:
        self.programs: Sequence[Program] = ()
        self.words: dict[tuple[Program, int, Program], Any] = {}

    def enter(self, programs: Sequence[Program]) -> None:
        """These programs run together from now on, with empty rooms."""
        self.programs, self.words = programs, {}

    def functions(self) -> dict[str, Callable[..., Any]]:
        """What stands for a text's functions in assembly, by their names there."""
        return {
            "open_room": lambda: 0,
            "again": lambda elements: elements,
            "all_open": lambda: None,
            "expect": lambda ready, count: None,
            "send_32": self._send,
            "send_64": self._send,
            "received_32": lambda place: self._received(place, tl.int32),
            "received_64": lambda place: self._received(place, tl.int64),
        }

    def _send(self, place: Any, ready: Any, word: Any) -> None:
        sender = at_work()
        for program in self.programs:
            key = (program, int(place), sender)
            if key in self.words:
                raise RuntimeError(f"{sender} overwrites what {program} has not read")
            self.words[key] = word.handle.data.reshape(-1)[0]

    def _received(self, place: Any, kind: Any) -> Any:
        program = at_work()
        keys = [(program, int(place), sender) for sender in self.programs]
        missing = [sender for *_, sender in keys if (program, int(place), sender) not in self.words]
        if missing:
            raise RuntimeError(f"{program} reads what {missing} have not sent")
        words = np.array([self.words.pop(key) for key in keys])
        return tl.tensor(
            triton_interpreter.TensorHandle(words, kind), tl.block_type(kind, [len(words)])
        )
