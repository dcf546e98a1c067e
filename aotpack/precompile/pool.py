"""Compiling processes, each in a session so that an interrupt also ends its assembler.

Not multiprocessing: a spawned worker would run the user's main script again.
"""

import contextlib
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import TypeAlias

from aotpack.errors import CompileError
from aotpack.knobs import read_knobs
from aotpack.precompile.messages import read_answer, write_request
from aotpack.precompile.request import Request
from aotpack.precompile.tool import end_session, ending_of, too_long
from aotpack.stages import Binary
from aotpack.temporary import temporary_folder

_COMPILER_SETTINGS = ("TRITON_", "MLIR_", "LLVM_", "NVPTX_", "PTXAS_", "DISABLE_")
Answered: TypeAlias = tuple[Request, Binary | str]


def compile_all(requests: Sequence[Request], jobs: int) -> Generator[Answered, None, None]:
    """Each request with its binary or the compiler's error, as soon as it is ready."""
    waiting: queue.SimpleQueue[Request] = queue.SimpleQueue()
    for request in requests:
        waiting.put(request)
    done: queue.SimpleQueue[Answered] = queue.SimpleQueue()
    if not requests:
        return
    with temporary_folder("compiling kernels") as folder:
        workers: list[_Worker] = []
        try:
            for number in range(min(jobs, len(requests))):
                workers.append(_Worker(folder / str(number), waiting, done))
            for _ in requests:
                yield done.get()
        finally:
            for worker in workers:
                worker.kill()
            for worker in workers:
                worker.join()


class _Worker:
    """One process and the thread that feeds it."""

    def __init__(
        self,
        folder: Path,
        waiting: "queue.SimpleQueue[Request]",
        done: "queue.SimpleQueue[Answered]",
    ) -> None:
        folder.mkdir()
        self.folder, self.waiting, self.done = folder, waiting, done
        self.stopped = False
        self.errors = folder / "errors.txt"
        self.limit = read_knobs().timeout
        self.lock = threading.Lock()  # between a new process and the end of all
        self.process: subprocess.Popen[str] = self._launch()
        self.thread = threading.Thread(target=self._feed, daemon=True)
        self.thread.start()

    def kill(self) -> None:
        """End the process with its children, and its compilation."""
        with self.lock:
            self.stopped = True
            self._end()

    def join(self) -> None:
        """Wait for the end of process and thread."""
        self.thread.join()
        self._close()

    def _close(self) -> None:
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()

    def _launch(self) -> "subprocess.Popen[str]":
        with self.errors.open("w") as errors:
            try:
                return subprocess.Popen(
                    [sys.executable, "-m", "aotpack.precompile.worker", "--serve"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    text=True,
                    env=worker_environment(self.folder),
                    start_new_session=True,
                )
            except OSError as error:
                raise CompileError(
                    f"compiling kernels: a compiling process could not be started: {error}"
                ) from error

    def _launch_again(self) -> None:
        """Another process in place of one that ended."""
        with self.lock:
            if not self.stopped:
                self._close()
                self.process = self._launch()

    def _feed(self) -> None:
        while not self.stopped:
            try:
                request = self.waiting.get_nowait()
            except queue.Empty:
                return
            try:
                if self.process.poll() is not None:
                    self._launch_again()
                answer = self._ask(request)
            except Exception as error:  # a thread that ended without an answer would be waited for
                if self.stopped:  # the stop closed its pipes
                    return
                answer = f"the compiling process gave no answer: {type(error).__name__}: {error}"
                self._end()
                self.process.wait()
            self.done.put((request, answer))

    def _ask(self, request: Request) -> Binary | str:
        """One request; if the process dies or takes too long, that is its answer."""
        stdin, stdout = self.process.stdin, self.process.stdout
        if stdin is None or stdout is None:
            raise ValueError("the worker was started without pipes")
        late = threading.Event()
        clock = threading.Timer(self.limit, self._end, (late,))
        clock.start()
        try:
            with contextlib.suppress(BrokenPipeError):
                stdin.write(write_request(request) + "\n")
                stdin.flush()
            line = stdout.readline()
        finally:
            clock.cancel()
        if line:
            return read_answer(line)
        status = self.process.wait()
        if late.is_set():
            return f"the compiling process {too_long(self.limit)}"
        words = self.errors.read_text(errors="replace").strip()
        return f"the compiling process ended with {ending_of(status)}\n{words}"

    def _end(self, late: threading.Event | None = None) -> None:
        """End the processes of its session, ``late`` because of the time."""
        if late is not None:
            late.set()
        if self.process.poll() is None:
            end_session(self.process.pid)


def worker_environment(folder: Path) -> dict[str, str]:
    """The parent's environment without compiler settings (tool paths stay), with fixed ones."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(_COMPILER_SETTINGS) or name.endswith("_PATH")
    }
    return kept | {
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "PYTHONHASHSEED": "0",
        "TMPDIR": str(folder),
        "TRITON_CACHE_DIR": str(folder / "triton"),
        "TRITON_DISABLE_LINE_INFO": "1",
        "TRITON_DEFAULT_FP_FUSION": "1",
    }
