"""The shared memory of clusters, for Triton's interpreter: of reductions and of attention.

A model of distributed shared memory, stricter than the hardware. These are errors: to read a place
before all have written to it; to write to one that was not read since; to wait for the wrong parity
of a counter, or for other bytes than arrive in that phase of it. What is sent between the arrivals
at a barrier is there for the others once all have arrived.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter as triton_interpreter

from aotpack.precompile.interpreter.ring_memory import at_work

Program = tuple[int, ...]


class ClusterMemory:
    """The mailboxes of the programs of a cluster: words by program, place and sender.

    A counter's phase ends when the bytes that its program expects have arrived. ``phases`` counts
    the ended phases by program and counter; ``expected`` and ``sent`` are bytes by program, counter
    and phase. ``parts`` are the numbers that the first program has been sent, by byte, with the
    arrivals at the barrier that each program had made before.
    """

    def __init__(self) -> None:
        self.enter(())

    def enter(self, programs: Sequence[Program]) -> None:
        """Run these programs together from now on, with empty mailboxes."""
        self.programs = programs
        self.words: dict[tuple[Program, int, Program], Any] = {}
        self.phases: Counter[tuple[Program, int]] = Counter()
        self.expected: dict[tuple[Program, int, int], int] = {}
        self.sent: Counter[tuple[Program, int, int]] = Counter()
        self.parts: dict[int, tuple[Any, int]] = {}
        self.arrivals: Counter[Program] = Counter()
        self.waits: Counter[Program] = Counter()

    def functions(self) -> dict[str, Callable[..., Any]]:
        """The interpreted functions, by the names of those in assembly."""
        return {
            "open_mailbox": lambda: 0,
            "opaque": lambda elements: elements,
            "widened_int8": lambda codes: codes.to(tl.float32),
            "widened_low_code": lambda codes: ((codes << 4) >> 4).to(tl.float32),
            "widened_high_code": lambda codes: (codes >> 4).to(tl.float32),
            "cluster_wait": lambda: None,
            "programs_arrive": self._arrive,
            "programs_wait": self._pass,
            "open_parts": lambda: 0,
            "send_part": self._send_part,
            "receive_part": self._received_part,
            "mbarrier_expect": self._expect,
            "send_32": partial(self._send, 32 // 8),
            "send_64": partial(self._send, 64 // 8),
            "mbarrier_wait": self._wait,
            "receive_32": lambda place: self._received(place, tl.int32),
            "receive_64": lambda place: self._received(place, tl.int64),
        }

    def _arrive(self) -> None:
        self.arrivals[at_work()] += 1

    def _pass(self) -> None:
        """The end of a wait: a program arrives once for each, and so do all others."""
        program = at_work()
        self.waits[program] += 1
        if min(self.arrivals[one] for one in self.programs) < self.waits[program]:
            raise RuntimeError(f"{program} waits for programs that have not arrived")

    def _send_part(self, place: Any, value: Any, is_part: Any) -> None:
        """Keep numbers for the first program, which runs for certain once all have arrived."""
        program = at_work()
        if not self.waits[program]:
            raise RuntimeError(f"{program} sends before it has waited for {self.programs[0]}")
        arrays = (one.handle.data for one in (place, value, is_part))
        for at, number, sent in zip(
            *(one.flat for one in np.broadcast_arrays(*arrays)), strict=True
        ):
            if not sent:
                continue
            if int(at) in self.parts:
                raise RuntimeError(f"{program} overwrites what {self.programs[0]} has not read")
            self.parts[int(at)] = number, self.arrivals[program]

    def _received_part(self, place: Any) -> Any:
        """Numbers that were sent before a barrier that all programs have passed."""
        program, places = at_work(), place.handle.data
        passed = min(self.arrivals[one] for one in self.programs)
        if program != self.programs[0]:
            raise RuntimeError(f"{program} reads what was sent to {self.programs[0]}")
        found = [self.parts.pop(int(at), None) for at in places.flat]
        if any(one is None or one[1] >= passed for one in found):
            raise RuntimeError(f"{program} reads parts that have not been sent, or too early")
        numbers = np.array([one[0] for one in found if one], np.float32).reshape(places.shape)
        shape = list(places.shape)
        return tl.tensor(
            triton_interpreter.TensorHandle(numbers, tl.float32), tl.block_type(tl.float32, shape)
        )

    def _expect(self, ready: Any, count: Any) -> None:
        program, counter = at_work(), int(ready)
        key = (program, counter, self.phases[program, counter])
        if key in self.expected:
            raise RuntimeError(f"{program} expects bytes twice in a phase of the counter {counter}")
        self.expected[key] = int(count)

    def _send(self, size: int, place: Any, ready: Any, word: Any) -> None:
        sender, counter = at_work(), int(ready)
        for program in self.programs:
            key = (program, int(place), sender)
            if key in self.words:
                raise RuntimeError(f"{sender} overwrites what {program} has not read")
            self.words[key] = word.handle.data.reshape(-1)[0]
            self.sent[program, counter, self.phases[sender, counter]] += size

    def _wait(self, ready: Any, parity: Any) -> None:
        """The end of a wait: all programs have arrived at theirs, so all bytes are sent."""
        program, counter, parity = at_work(), int(ready), int(parity)
        phase = self.phases[program, counter]
        if parity != phase % 2:
            raise RuntimeError(
                f"{program} waits for parity {parity} of the counter {counter} in phase {phase}"
            )
        expected = self.expected.pop((program, counter, phase), 0)
        sent = self.sent.pop((program, counter, phase), 0)
        if expected != sent:
            raise RuntimeError(f"{program} expects {expected} bytes at {counter}, {sent} come")
        self.phases[program, counter] += 1

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
