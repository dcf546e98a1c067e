import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aotpack.precompile.pool import compile_all, worker_environment
from aotpack.precompile.request import Request
from aotpack.stages import Binary
from aotpack.target import Target
from tests.precompile.kernels import ADD, BROKEN, kernel

pytestmark = pytest.mark.usefixtures("workers_of_builds")
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
    assert isinstance(answer, str) and "ended with exit code 7" in answer


def test_a_process_that_dies_takes_no_other_kernel_with_it() -> None:
    texts = [kernel("dies", DIES), kernel("a"), kernel("b", BROKEN)]
    requests = [Request.of(text, Target("cuda", 90)) for text in texts]
    answers = dict(compile_all(requests, 1))
    assert isinstance(answers[requests[1]], Binary)
    assert "no_such_name" in str(answers[requests[2]])


TALKS = """import os
import stat

for number in range(3, 20):
    try:
        if stat.S_ISFIFO(os.fstat(number).st_mode):
            os.write(number, b"junk \\xff\\n")
    except OSError:
        pass
"""


def test_junk_is_no_answer_and_is_not_taken_for_the_next_one() -> None:
    requests = [Request.of(kernel(n, t), Target("cuda", 90)) for n, t in (("t", TALKS), ("a", ADD))]
    answers = dict(compile_all(requests, 1))
    assert "gave no answer: UnicodeDecodeError" in str(answers[requests[0]])
    made = answers[requests[1]]
    assert isinstance(made, Binary)
    requests[1].check(made)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"kernel": "b"}, "it is the kernel b for sm_90"),
        ({"target": "sm_80"}, "it is the kernel a for sm_80"),
        ({"symbol": "b"}, "it is the kernel"),
        ({"registers": 8}, "takes other resources than it says"),
        ({"num_warps": 8}, "has 8 warps in place of 4"),
        ({"shared": 10**6}, "takes 1000000 bytes of shared memory"),
        ({"code": b"junk"}, "not a little-endian ELF64"),
    ],
)
def test_a_binary_of_something_else_is_found(
    made: Binary, changed: dict[str, Any], message: str
) -> None:
    request = Request.of(kernel("a"), Target("cuda", 90))
    request.check(made)
    with pytest.raises(ValueError, match=message):
        request.check(replace(made, **changed))
    with pytest.raises(ValueError, match="its code is for sm_90"):
        Request.of(kernel("a"), Target("cuda", 80)).check(replace(made, target="sm_80"))


@pytest.fixture(scope="module")
def made() -> Binary:
    ((_, answer),) = compile_all([Request.of(kernel("a"), Target("cuda", 90))], 1)
    assert isinstance(answer, Binary)
    return answer


def test_a_process_that_hangs_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AOTPACK_TIMEOUT", "1")
    slow = "import time\ntime.sleep(600)\n"
    ((_, answer),) = compile_all([Request.of(kernel("slow", slow), Target("cuda", 90))], 1)
    assert "did not end within 1 seconds and was stopped; AOTPACK_TIMEOUT" in str(answer)


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
