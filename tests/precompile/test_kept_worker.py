"""A compiling process goes on to the next build where nothing tells it from a new one."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from aotpack.precompile import pool
from aotpack.precompile.request import Request
from aotpack.stages import Binary
from aotpack.target import Target
from tests.kept_worker import keeping
from tests.precompile.kernels import ADD, kernel

TELLS = "import os\n\nraise ValueError(f'process {{os.getpid()}}')\n"
COMPLAINS = f"import os\n\nos.write(2, b'wrong')\n{TELLS}"


@pytest.fixture(autouse=True)
def _kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers_of_builds: None
) -> Iterator[None]:
    worker, end_all = keeping(tmp_path)
    monkeypatch.setattr(pool, "_Worker", worker)
    yield
    end_all()
    assert [*tmp_path.iterdir()] == []


def asked(text: str) -> int:
    """The process that is asked to compile a text which tells it."""
    ((_, answer),) = pool.compile_all([Request.of(kernel("a", text), Target("cuda", 90))], 1)
    assert isinstance(answer, str)
    return int(answer.rpartition("process ")[2])


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_the_next_build_has_the_process_of_the_last_one() -> None:
    assert asked(TELLS) == asked(TELLS)


def test_nothing_of_a_build_is_left_for_the_next_one(tmp_path: Path) -> None:
    ((_, answer),) = pool.compile_all([Request.of(kernel("a", ADD), Target("cuda", 90))], 1)
    assert isinstance(answer, Binary)
    (folder,) = tmp_path.iterdir()
    assert [path.name for path in folder.iterdir()] == ["errors.txt"]


def test_two_workers_have_processes_of_their_own() -> None:
    requests = [Request.of(kernel(name, TELLS), Target("cuda", 90)) for name in "abcdef"]
    for _ in range(2):
        answers = {str(answer) for _, answer in pool.compile_all(requests, 2)}
        assert len(answers) <= 2
    assert asked(TELLS) in [int(one.rpartition("process ")[2]) for one in answers]


def another_environment(patch: pytest.MonkeyPatch, _: int) -> None:
    patch.setenv("SOMETHING_ELSE", "1")


def an_end(_: pytest.MonkeyPatch, process: int) -> None:
    os.killpg(process, signal.SIGKILL)
    os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT)


@pytest.mark.parametrize("change", [another_environment, an_end])
def test_another_process_takes_its_place(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[pytest.MonkeyPatch, int], None]
) -> None:
    first = asked(TELLS)
    change(monkeypatch, first)
    assert asked(TELLS) != first
    assert not is_alive(first)


def test_a_process_that_has_complained_ends_with_its_build() -> None:
    first = asked(COMPLAINS)
    assert not is_alive(first) and asked(TELLS) != first


def test_a_process_that_owes_an_answer_ends_with_its_build(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    started = tmp_path_factory.mktemp("owing") / "started"
    sleeps = f"import pathlib, time\n\npathlib.Path({str(started)!r}).touch()\ntime.sleep(600)\n"
    texts = {"a": TELLS, "b": sleeps}
    requests = [Request.of(kernel(name, texts[name]), Target("cuda", 90)) for name in texts]
    answers = pool.compile_all(requests, 1)
    _, answer = next(answers)
    while not started.exists():
        time.sleep(0.01)
    answers.close()
    assert not is_alive(int(str(answer).rpartition("process ")[2]))
