"""An exception at any line or instruction of a call leaves a model that answers and closes."""

import itertools
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aotpack.runtime import Model, load

from .fake_device import FakeDevice
from .fake_library import FakeGpu
from .interrupting import Interrupted, Interrupter
from .packages import DIAMOND, write_demo, write_stateful

X = np.arange(6, dtype=np.float32).reshape(2, 3)
BIG = np.ones((8, 32), np.float32)
DEVICES: dict[str, Callable[[], Any]] = {"host": lambda: FakeDevice((1, 0)), "gpu": FakeGpu}


@pytest.fixture(params=[*DEVICES])
def device(request: pytest.FixtureRequest) -> Any:
    return DEVICES[request.param]()


@pytest.fixture(params=["plain", "stateful"])
def package(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param == "stateful":
        return write_stateful(tmp_path / "demo")
    return write_demo(tmp_path / "demo", wrapper=DIAMOND, factor=11)


def check(model: Model) -> None:
    """The model answers, and no arena is lost: a thread gets each of them."""
    if model.state:
        model.bind_weights({"scale": np.full(1, 2, np.float32)})
        np.testing.assert_array_equal(model(X, X + 1), (2 * X + 1) * 4)
        assert model.state["scale"].numpy().tolist() == [4.0]
    else:
        np.testing.assert_array_equal(model(X, X + 1), 5 * (2 * X + 1) + X + 1)
    pool = model._pool
    assert len(pool._arenas) <= pool._limit and not pool._line and not pool._idlers
    assert [arena.owned.owner() for arena in pool._all()] == [None] * len(pool._all())


def interruptions(
    work: Callable[[], Any], *, step: int = 1, instructions: bool = False
) -> Iterator[Interrupted | None]:
    """``work`` is run again and again, and dies one event later each time, until it ends."""
    for number in itertools.count(0, step):
        interrupter = Interrupter(number, instructions=instructions)
        error = interrupter.run(work)
        if not interrupter.has_raised:
            assert number > 50
            return
        yield error  # None where Python drops it: in a generator that is closed


def test_a_steady_call_may_die_at_any_instruction(package: Path, device: Any) -> None:
    with load(package, device) as model:
        for _ in range(3):
            check(model)
        step = 13 if isinstance(device, FakeGpu) else 1
        for _kept in interruptions(lambda: model(X, X + 1), step=step, instructions=True):
            check(model)


def test_a_call_that_grows_its_memory_may_die_at_any_line(package: Path, device: Any) -> None:
    with load(package, device) as model:
        for _kept in interruptions(lambda: model(BIG, BIG), step=17):
            check(model)  # what the dead call left is freed: its successor grows again


def test_a_first_call_may_die_at_any_line(package: Path, device: Any) -> None:
    def first() -> None:
        models.append(load(package, device))
        models[-1](X, X + 1)

    models: list[Model] = []
    for _kept in interruptions(first, step=67):
        if models:
            check(models.pop())


@pytest.mark.parametrize(
    "ask",
    [
        lambda model: model.state,
        lambda model: model.synchronize(),
        lambda model: model.bind_weights({"scale": np.full(1, 2, np.float32)}),
    ],
)
def test_work_between_calls_may_die_at_any_line(
    package: Path, device: Any, ask: Callable[[Model], Any]
) -> None:
    with load(package, device) as model:
        for _kept in interruptions(lambda: ask(model), step=5):
            model.bind_weights({"scale": np.full(1, 2, np.float32)})
            check(model)


def test_a_close_may_die_at_any_line_and_be_repeated(package: Path, device: Any) -> None:
    models: list[Model] = []

    def close() -> None:
        models[-1].close()

    models.append(load(package, device))
    for _kept in interruptions(close, step=7):
        models[-1].close()
        assert device.blocks == {} and device.is_closed
        models.append(load(package, device))
        check(models[-1])


def test_calls_of_other_threads_go_on_while_one_dies(package: Path, device: Any) -> None:
    with load(package, device, concurrency=2) as model:
        ended, answers = threading.Event(), list[np.ndarray[Any, Any]]()

        def work() -> None:
            while not ended.is_set():
                answers.append(model(X, X + 1))

        thread = threading.Thread(target=work)
        thread.start()
        for _kept in interruptions(lambda: model(X, X + 1), step=11):
            pass
        ended.set()
        thread.join(10)
        assert answers and not thread.is_alive()
        check(model)
