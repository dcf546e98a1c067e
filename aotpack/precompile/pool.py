"""Compiling processes, each in a session so that an interrupt also ends its assembler.

Not multiprocessing: a spawned worker would run the user's main script again.
"""

import contextlib
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import TypeAlias

from aotpack.precompile.messages import read_answer, write_request
from aotpack.precompile.request import Request
from aotpack.stages import Binary

_COMPILER_SETTINGS = ("TRITON_", "MLIR_", "LLVM_", "NVPTX_", "PTXAS_", "DISABLE_")
Answered: TypeAlias = tuple[Request, Binary | str]


def compile_all(requests: Sequence[Request], jobs: int) -> Generator[Answered, None, None]:
    """Each request with its binary or the compiler's error, as soon as it is ready."""
    waiting: queue.SimpleQueue[Request] = queue.SimpleQueue()
    for request in requests:
        waiting.put(request)
    done: queue.SimpleQueue[Answered] = queue.SimpleQueue()
    with tempfile.TemporaryDirectory(prefix="aotpack-", ignore_cleanup_errors=True) as folder:
        workers: list[_Worker] = []
        try:
            for number in range(min(jobs, len(requests))):
                workers.append(_Worker(Path(folder, str(number)), waiting, done))
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
        self.process: subprocess.Popen[str] = self._launch()
        self.thread = threading.Thread(target=self._feed, daemon=True)
        self.thread.start()

    def kill(self) -> None:
        """End the process with its children, and its compilation."""
        self.stopped = True
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def join(self) -> None:
        """Wait for the end of process and thread."""
        self.thread.join()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()

    def _launch(self) -> "subprocess.Popen[str]":
        with self.errors.open("w") as errors:
            return subprocess.Popen(
                [sys.executable, "-m", "aotpack.precompile.worker", "--serve"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=worker_environment(self.folder),
                start_new_session=True,
            )

    def _feed(self) -> None:
        while not self.stopped:
            try:
                request = self.waiting.get_nowait()
            except queue.Empty:
                return
            try:
                answer = self._ask(request)
            except (OSError, ValueError):
                if self.stopped:  # the stop closed its pipes
                    return
                raise
            self.done.put((request, answer))

    def _ask(self, request: Request) -> Binary | str:
        """One request; if the process dies, that is its answer."""
        stdin, stdout = self.process.stdin, self.process.stdout
        if stdin is None or stdout is None:
            raise ValueError("the worker was started without pipes")
        with contextlib.suppress(BrokenPipeError):
            stdin.write(write_request(request) + "\n")
            stdin.flush()
        line = stdout.readline()
        if line:
            return read_answer(line)
        status = self.process.wait()
        words = self.errors.read_text(errors="replace").strip()
        return f"the compiling process ended with status {status}\n{words}"


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
