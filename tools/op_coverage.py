"""Coverage of PyTorch's operator database: python -m tools.op_coverage --out FOLDER

Every sample of every operator (forward; float32, bfloat16, float16, int64 and bool where the
operator has them) is compiled and called, and compared with eager under the accuracy law. Results
are lines of JSON below ``--out``, one for each operator and type; a second run goes on where the
first ended. ``--merge`` writes docs/op_coverage.md from them.

    python -m tools.op_coverage --jobs 16 --samples 12 --out coverage
    python -m tools.op_coverage --out coverage --shard 2/4 --ops '^nn\\.functional'
    python -m tools.op_coverage --out coverage --target native   # on a GPU
    python -m tools.op_coverage --out coverage --merge
"""

from __future__ import annotations

import argparse
import json
import os
import re
import selectors
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import IO

import torch

from tools.op_report import write_report
from tools.op_samples import DTYPES, Task, Verdict, chosen_numbers, sample_inputs, tasks
from tools.op_verdicts import examine, load_everything

PATIENCE = 60.0  # seconds for one attempt
POLL = 1.0


@dataclass(slots=True)
class Run:
    """A process that examines samples of one task; ``trying`` are its current ones."""

    task: Task
    pid: int
    pipe: IO[bytes]
    started: float
    deadline: float
    numbers: list[int] = field(
        default_factory=list
    )  # all of its samples, once it has reported them
    trying: list[int] = field(default_factory=list)
    verdicts: dict[int, Verdict] = field(default_factory=dict)
    rest: bytes = b""


class Pool:
    """Runs tasks in separate processes, forked from this one."""

    def __init__(self, options: argparse.Namespace, out: IO[str]) -> None:
        self._options = options
        self._out = out
        self._selector = selectors.DefaultSelector()
        self._runs: dict[int, Run] = {}
        self._looked = time.monotonic()

    def run(self, waiting: Sequence[Task]) -> None:
        """Examine all tasks, in as many processes as there are jobs."""
        queue, total = list(reversed(waiting)), len(waiting)
        while queue or self._runs:
            while queue and len(self._runs) < self._options.jobs:
                self._start(queue.pop(), None, {})
            for key, _ in self._selector.select(timeout=POLL):
                self._read(key.fd)
            self._stop_late()
            done = total - len(queue) - len(self._runs)
            if sys.stderr.isatty():
                print(f"\r{done} of {total} ", end="", file=sys.stderr)

    def _start(self, task: Task, numbers: list[int] | None, known: dict[int, Verdict]) -> None:
        """Fork; without ``numbers``, all samples are examined, else each of these alone."""
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            os.setpgrp()
            _work(task, numbers, self._options, writer)
        os.close(writer)
        now = time.monotonic()
        pipe = os.fdopen(reader, "rb", buffering=0)
        run = Run(task, pid, pipe, now, now + PATIENCE, numbers or [], [], known)
        self._runs[reader] = run
        self._selector.register(reader, selectors.EVENT_READ)

    def _read(self, fd: int) -> None:
        run = self._runs[fd]
        data = run.pipe.read(1 << 16)
        if not data:
            self._finish(fd, f"the process ended by {_ending(run.pid)}", "crash")
            return
        *lines, run.rest = (run.rest + data).split(b"\n")
        for line in lines:
            self._note(run, json.loads(line))
        run.deadline = time.monotonic() + PATIENCE

    @staticmethod
    def _note(run: Run, said: dict[str, list[int]]) -> None:
        if "numbers" in said:
            run.numbers = said["numbers"]
        elif "trying" in said:
            run.trying = said["trying"]
        else:
            verdict = Verdict(**said)  # type: ignore[arg-type]
            run.verdicts[verdict.sample] = verdict

    def _stop_late(self) -> None:
        """Kill late processes; time in which this process was stopped does not count."""
        now = time.monotonic()
        paused = now - self._looked if now - self._looked > 10 * POLL else 0.0
        self._looked = now
        for run in self._runs.values():
            run.deadline += paused
        for fd, run in list(self._runs.items()):
            if now > run.deadline:
                os.killpg(run.pid, signal.SIGKILL)
                _ending(run.pid)
                self._finish(fd, f"longer than {PATIENCE:.0f} s", "hang")

    def _finish(self, fd: int, words: str, outcome: str) -> None:
        """Record a complete task; else blame the current sample and go on with the rest."""
        run = self._runs.pop(fd)
        self._selector.unregister(fd)
        run.pipe.close()
        left = [number for number in run.numbers if number not in run.verdicts]
        if not run.numbers and not run.verdicts and words != "the process ended by itself":
            run.verdicts[0] = Verdict(0, outcome, f"making the samples: {words}")
        elif left:
            if len(run.trying) == 1 and run.trying[0] in left:
                blamed = run.trying[0]
                run.verdicts[blamed] = Verdict(blamed, outcome, words)
                left.remove(blamed)
            if left:
                self._start(run.task, left, run.verdicts)
                return
        self._write(run)

    def _write(self, run: Run) -> None:
        counts: dict[str, int] = {}
        for verdict in run.verdicts.values():
            counts[verdict.outcome] = counts.get(verdict.outcome, 0) + 1
        redrawn = [v for v in run.verdicts.values() if v.outcome == "passed" and v.words]
        if redrawn:
            counts["redrawn"] = len(redrawn)
        failures = [
            asdict(verdict)
            for _, verdict in sorted(run.verdicts.items())
            if verdict.outcome != "passed"
        ]
        seconds = round(time.monotonic() - run.started, 1)
        line = {**asdict(run.task), "counts": counts, "failures": failures, "seconds": seconds}
        print(json.dumps(line), file=self._out, flush=True)


def _ending(pid: int) -> str:
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    code = os.waitstatus_to_exitcode(status)
    return f"exit code {code}" if code else "itself"


def _work(task: Task, numbers: list[int] | None, options: argparse.Namespace, pipe: int) -> None:
    """The forked process: report each attempt and its result, then end."""

    def say(**words: object) -> None:
        os.write(pipe, json.dumps(words).encode() + b"\n")

    def tell(samples: Sequence[int]) -> None:
        say(trying=list(samples))

    silent = os.open(os.devnull, os.O_WRONLY)
    if not options.verbose:
        os.dup2(silent, 1)
        os.dup2(silent, 2)
    code = 0
    try:
        if numbers is None:
            all_numbers = chosen_numbers(len(sample_inputs(task)), options.samples)
            groups = [all_numbers]
            say(numbers=all_numbers)
        else:
            groups = [[number] for number in numbers]
            say(numbers=numbers)
        for group in groups:
            for verdict in examine(task, group, options.target, tell):
                say(**asdict(verdict))
    except BaseException:
        traceback.print_exc()
        code = 1
    os._exit(code)


def _loaded(target: str) -> list[Task]:
    """All tasks; except for a GPU, also import the modules of a build, so that forks have them.

    Importing torch's test code asks the driver for GPUs, and a process that has done so cannot be
    forked to use one: then another process lists the tasks.
    """
    if target != "native":
        load_everything()
        return tasks()
    with ProcessPoolExecutor(1, get_context("spawn")) as other:
        return other.submit(tasks).result()


def _selected(options: argparse.Namespace, known: Sequence[Task]) -> list[Task]:
    """The tasks of this shard that have no line yet."""
    pattern = re.compile(options.ops)
    chosen = [
        task
        for task in known
        if pattern.search(task.op) and task.dtype in options.dtypes.split(",")
    ]
    part, parts = map(int, options.shard.split("/"))
    done = set()
    for file in sorted(options.out.glob("*.jsonl")):
        lines = map(json.loads, file.read_text().splitlines())
        done |= {Task(line["op"], line["dtype"]) for line in lines}
    return [task for k, task in enumerate(chosen) if k % parts == part - 1 and task not in done]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of the results")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--shard", default="1/1", help="I/N: every Nth task, from the Ith")
    parser.add_argument("--ops", default="", help="a regular expression for operators' names")
    parser.add_argument("--dtypes", default=",".join(DTYPES), help="with commas")
    parser.add_argument("--samples", type=int, default=0, help="at most so many each; 0: all")
    parser.add_argument("--target", default="cpu", choices=("cpu", "interpreter", "native"))
    parser.add_argument("--verbose", action="store_true", help="let the processes print")
    parser.add_argument("--merge", action="store_true", help="write docs/op_coverage.md")
    return parser.parse_args()


def main() -> int:
    """Examine, or merge; 1 when a sample is wrong or crashes."""
    options = _options()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.merge:
        return write_report(options.out, Path(__file__).parents[1] / "docs" / "op_coverage.md")
    os.environ.setdefault("AOTPACK_JOBS", "1")
    os.environ.setdefault("AOTPACK_CACHE", str(options.out / "cache"))
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    known = _loaded(options.target)
    name = f"results-{options.shard.replace('/', '-of-')}.jsonl"
    with (options.out / name).open("a") as out:
        Pool(options, out).run(_selected(options, known))
    return 0


if __name__ == "__main__":
    sys.exit(main())
