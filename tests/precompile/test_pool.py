import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from aotpack.precompile.pool import compile_all, worker_environment
from aotpack.precompile.request import Request
from aotpack.target import Target
from tests.precompile.kernels import kernel

DIES = """import os

os._exit(7)
"""

INTERRUPTED = """
import sys
from aotpack.precompile.pool import compile_all
from aotpack.precompile.request import Request
from aotpack.target import Target
from tests.precompile.kernels import kernel

sleeping = "import os, pathlib, time\\n"
sleeping += "pathlib.Path(os.environ['TMPDIR'], 'started').touch()\\ntime.sleep(600)\\n"
print("ready", flush=True)
for answer in compile_all([Request.of(kernel("slow", sleeping), Target("cuda", 90))], 1):
    print(answer)
"""


def test_a_process_that_dies_is_an_answer() -> None:
    request = Request.of(kernel("dies", DIES), Target("cuda", 90))
    ((asked, answer),) = compile_all([request], 2)
    assert asked == request
    assert isinstance(answer, str) and "ended with status 7" in answer


def test_nothing_to_do_starts_nothing() -> None:
    assert list(compile_all([], 4)) == []


def interrupted_build(folder: Path) -> "subprocess.Popen[str]":
    """A build in the middle of a kernel that takes minutes."""
    environment = os.environ | {"TMPDIR": str(folder), "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    while not list(folder.glob("aotpack-*/0/started")):
        time.sleep(0.05)
    return process


@pytest.mark.usefixtures("heeds_interrupts")
def test_an_interrupt_ends_everything_at_once(tmp_path: Path) -> None:
    process = interrupted_build(tmp_path)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)  # the kernel takes ten minutes
    assert process.returncode != 0
    assert list(tmp_path.iterdir()) == []


def test_workers_end_with_a_killed_build(tmp_path: Path) -> None:
    process = interrupted_build(tmp_path)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    (worker,) = children.read_text().split()
    process.kill()
    process.wait()
    deadline = time.monotonic() + 20
    while is_running(worker) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not is_running(worker)


def is_running(process: str) -> bool:
    """True for a process that is neither gone nor a zombie."""
    try:
        return Path(f"/proc/{process}/stat").read_text().split()[2] != "Z"
    except FileNotFoundError:
        return False


def test_compiler_settings_of_the_user_do_not_reach_the_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")
    monkeypatch.setenv("TRITON_PTXAS_PATH", "/opt/ptxas")
    environment = worker_environment(tmp_path)
    assert "TRITON_ALWAYS_COMPILE" not in environment
    assert environment["TRITON_PTXAS_PATH"] == "/opt/ptxas"
    assert environment["TRITON_DISABLE_LINE_INFO"] == "1"
