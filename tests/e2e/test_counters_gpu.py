"""Launches whose programs count each other, on a GPU: the same bits, whatever runs beside them."""

import os
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch

import aotpack
from aotpack.runtime import Model
from aotpack.target import device_arch

from .test_long_rows import Rows, numbers

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(device_arch() is None, reason="needs an NVIDIA GPU"),
]
REPEATS = int(os.environ.get("AOTPACK_TEST_LAUNCHES", "2000"))  # fewer under a sanitizer
CASES: dict[str, tuple[Callable[..., Any], tuple[int, int]]] = {
    "rows": (lambda x: (x.sum(1), x.argmax(1)), (4, 2**20)),
    "columns": (lambda x: x.sum(0), (16_411, 512)),
    "scan": (lambda x: x.cumsum(1), (3, 2**20 + 77)),
    "scan of one row": (lambda x: x.cummax(1), (1, 2**22)),
}


def loaded(case: str, **options: Any) -> tuple[Model, torch.Tensor, list[torch.Tensor]]:
    """A model, what it is called with, and what it gives when nothing runs beside it."""
    function, shape = CASES[case]
    x = numbers(*shape)
    model = aotpack.compile(Rows(function), (x,), **options)
    x = x.cuda()
    return model, x, results(model, x)


def results(model: Callable[..., Any], x: torch.Tensor) -> list[torch.Tensor]:
    found = model(x)
    return [found] if isinstance(found, torch.Tensor) else list(found)


def differing(found: list[torch.Tensor], expected: list[torch.Tensor]) -> torch.Tensor:
    counts = [(a != b).sum() for a, b in zip(found, expected, strict=True)]
    return torch.stack(counts).sum()


@pytest.mark.row("C:G19", "C:G20")
@pytest.mark.parametrize("graphs", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_many_launches_beside_other_work(case: str, graphs: bool) -> None:
    model, x, expected = loaded(case, graphs=graphs)
    exact = [torch.as_tensor(one) for one in results(CASES[case][0], x.double())]
    for one, reference in zip(expected, exact, strict=True):
        torch.testing.assert_close(one.double(), reference.double(), rtol=1e-4, atol=2e-2)
    other, beside = torch.randn(1024, 1024, device="cuda"), torch.cuda.Stream()
    wrong = torch.zeros((), device="cuda", dtype=torch.int64)
    for number in range(REPEATS):
        if number % 16 == 0:
            with torch.cuda.stream(beside):
                other = other @ other * 1e-3
        wrong += differing(results(model, x), expected)
    assert wrong.item() == 0


@pytest.mark.row("C:G19", "C:G20")
@pytest.mark.parametrize("case", ["rows", "scan"])
def test_streams_at_once(case: str) -> None:
    """Calls in flight have arenas, and so counters, of their own."""
    model, x, expected = loaded(case)
    wrong: list[int] = []

    def work() -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            found = [differing(results(model, x), expected) for _ in range(REPEATS // 4)]
            wrong.append(int(torch.stack(found).sum()))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == [0] * 4


@pytest.mark.row("C:G19", "C:G20")
@pytest.mark.parametrize("case", ["rows", "scan"])
def test_a_capture_of_the_caller(case: str) -> None:
    """Its counters are zeroed in the recording; calls beside it have others."""
    model, x, expected = loaded(case)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        first, second = results(model, x), results(model, x)
    wrong = torch.zeros((), device="cuda", dtype=torch.int64)
    for _ in range(REPEATS // 10):
        graph.replay()
        wrong += differing(first, expected) + differing(second, expected)
        wrong += differing(results(model, x), expected)
    assert wrong.item() == 0
