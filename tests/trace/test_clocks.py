"""The time that forward reads: refused where results follow it."""

import datetime
import gc
import sys
import time
from collections.abc import Callable, Iterator
from time import perf_counter_ns
from typing import Any

import pytest
import torch
from torch import nn

from aotpack.errors import TraceError
from aotpack.trace import trace


class Timed(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


def bodies(x: torch.Tensor) -> torch.Tensor:
    return torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x * 3, (x,))


X = torch.tensor([1e9, 1.7e9], dtype=torch.float64)
CLOCK, BEGIN = time.time, datetime.datetime(2020, 1, 1)
FOLLOWED: dict[str, tuple[Callable[..., torch.Tensor], str]] = {
    "age": (lambda x: time.time() - x, "time.time at test_clocks.py"),
    "counter": (lambda x: x + time.perf_counter() // 1e5, "time.perf_counter at"),
    "imported": (lambda x: x + perf_counter_ns() // 10**15, "time.perf_counter_ns at"),
    "hour": (lambda x: x * (1 + datetime.datetime.now().hour), "datetime.datetime.now at"),
    "evening": (lambda x: x * (2 + (datetime.datetime.now().hour >= 18)), "datetime.datetime.now"),
    "day": (lambda x: x * datetime.date.today().day, "datetime.date.today at"),
    "year": (lambda x: x * time.localtime().tm_year, "time.localtime at"),
    "text": (lambda x: x * int(time.strftime("%j")), "time.strftime at"),
    "held": (lambda x, clock=CLOCK: x * (clock() // 86400), "time.time at.*given another time"),
    "beside": (lambda x: bodies(x + time.monotonic() // 1e5), "time.monotonic at"),
    "after": (lambda x: bodies(x) + time.monotonic() // 1e5, "time.monotonic at"),
    "other": (lambda x: x * (time.clock_gettime(0) // 86400), "time.clock_gettime at"),
}


@pytest.mark.parametrize("name", FOLLOWED)
def test_results_that_follow_a_clock_are_refused(name: str) -> None:
    function, words = FOLLOWED[name]
    with pytest.raises(TraceError, match=f"forward reads {words}"):
        trace(Timed(function), (X,), name="m", version="1")


def test_a_branch_that_a_clock_decides_is_refused() -> None:
    model = Timed(lambda x: x * 2 if time.time_ns() % 2 else x * 3)
    with pytest.raises(TraceError, match=r"another function|time.time_ns at"):
        trace(model, (X,), name="m", version="1")


def test_a_time_that_is_measured_is_accepted() -> None:
    took: list[float] = []

    def measured(x: torch.Tensor) -> torch.Tensor:
        begin = time.perf_counter()
        y = x * 2
        took[:] = [time.perf_counter() - begin]
        return y

    def budget(x: torch.Tensor) -> torch.Tensor:
        end = time.perf_counter() + 0.001
        while time.perf_counter() < end:
            pass
        assert isinstance(BEGIN, datetime.datetime)
        return x * 2

    profile, now, seconds = sys.getprofile(), datetime.datetime, time.time
    assert trace(Timed(measured), (X,), name="m", version="1")
    assert trace(Timed(budget), (X,), name="m", version="1")
    assert sys.getprofile() is profile
    assert datetime.datetime is now
    assert time.time is seconds
    assert perf_counter_ns is time.perf_counter_ns


class Collector:
    """A function of ``gc.callbacks`` that keeps a clock, so that none can be put in its place."""

    def __init__(self) -> None:
        self._clock = time.perf_counter
        self.read: list[float] = []

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        self.read.append(self._clock())


@pytest.fixture(params=[lambda one: one, lambda one: one.__call__])
def collector(request: pytest.FixtureRequest) -> Iterator[Collector]:
    one = Collector()
    gc.callbacks.append(request.param(one))
    yield one
    gc.callbacks.pop()


def test_a_time_that_is_read_while_cycles_are_searched_is_not_the_models(collector) -> None:
    def collecting(x: torch.Tensor) -> torch.Tensor:
        gc.collect()
        return x * 2

    assert trace(Timed(collecting), (X,), name="m", version="1")
    assert collector.read


def test_a_time_that_the_model_reads_beside_is_refused(collector) -> None:
    def collecting(x: torch.Tensor) -> torch.Tensor:
        gc.collect()
        return x + time.perf_counter() // 1e5

    with pytest.raises(TraceError, match=r"reads time.perf_counter at test_clocks.py:\d+, and a"):
        trace(Timed(collecting), (X,), name="m", version="1")
