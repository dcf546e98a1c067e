"""One loaded model and many threads, wrong calls, processes that fork or end: target cpu."""

import ctypes
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.export import Dim

from aotpack import pipeline
from aotpack.emit import write_package
from aotpack.pipeline import Source
from aotpack.runtime import Model, load
from aotpack.runtime.devices.cpu import CpuDevice
from aotpack.runtime.errors import AotpackError, ArgumentError
from aotpack.runtime.manifest import read_manifest
from aotpack.target import CPU
from tests.e2e.models import Block

THREADS, CALLS = 32, 1000
WIDTH, MOST_ROWS, MOST_COLUMNS = 16, 4, 24


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Attention, products, norms: every template, with two dynamic sizes."""
    torch.manual_seed(0)
    b, s = Dim("b", min=1, max=MOST_ROWS), Dim("s", min=1, max=MOST_COLUMNS)
    source = Source(
        Block(WIDTH).eval(), (torch.randn(2, 3, WIDTH),), None, {"x": {0: b, 1: s}}, name="block"
    )
    folder = tmp_path_factory.mktemp("block")
    write_package(pipeline.Build(source, pipeline.BuildOptions((CPU,))).precompiled, folder)
    return folder


@pytest.fixture
def model(package: Path) -> Iterator[Model]:
    with load(package, CpuDevice(read_manifest(package), threads=3), concurrency=3) as loaded:
        yield loaded


def inputs(number: int, count: int = 4) -> list[Any]:
    """Arrays of a thread's own, in sizes that are met in another order by each."""
    random = np.random.default_rng(number)
    sizes = random.integers((1, 1), (MOST_ROWS + 1, MOST_COLUMNS + 1), (count, 2))
    return [random.normal(size=(b, s, WIDTH)).astype(np.float32) for b, s in sizes]


GOOD = np.zeros((1, 1, WIDTH), np.float32)
WRONG: tuple[tuple[Callable[[Model], Any], str], ...] = (
    (lambda m: m(GOOD.astype(np.float64)), "'x' has dtype float64; accepted: float32"),
    (lambda m: m(GOOD[0]), "'x' has 2 dimensions, shape .1, 16.; accepted: 3"),
    (
        lambda m: m(np.zeros((MOST_ROWS + 1, 1, WIDTH), np.float32)),
        "makes b 5 by its dimension 0; accepted: b in 1 to 4",
    ),
    (lambda m: m(np.zeros((0, 1, WIDTH), np.float32)), "makes b 0 by its dimension 0"),
    (
        lambda m: m(np.zeros((1, 1, WIDTH + 1), np.float32)),
        "has size 17 in dimension 2; accepted: 16, the example's. .* --dynamic, or dynamic_shapes",
    ),
    (lambda m: m(), "argument 'x' is missing"),
    (lambda m: m(GOOD, GOOD), "got 2 positional arguments"),
    (lambda m: m([1.0]), "argument 'x'"),
)


@pytest.mark.parametrize(("call", "words"), WRONG)
def test_a_wrong_call_is_refused_in_words(
    model: Model, call: Callable[[Model], Any], words: str
) -> None:
    with pytest.raises(ArgumentError, match=f"calling block: .*{words}"):
        call(model)


def test_calls_from_many_threads_are_right_beside_wrong_ones(model: Model) -> None:
    given = [inputs(number) for number in range(THREADS)]
    wanted = [[model(x) for x in own] for own in given]
    faults: list[str] = []

    def work(number: int) -> None:
        for call in range(CALLS):
            pick = (number + call) % len(given[number])
            if not np.array_equal(model(given[number][pick]), wanted[number][pick]):
                faults.append(f"thread {number}, call {call}")
            if call % 10 == number % 10:
                wrong, words = WRONG[call // 10 % len(WRONG)]
                with pytest.raises(ArgumentError, match=words):
                    wrong(model)

    in_threads(work, range(THREADS))
    assert faults == []


def in_threads(work: Callable[[int], None], numbers: range) -> None:
    """Run ``work`` in one thread for each number; what one raises is raised here."""
    errors: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in numbers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads), "a thread hangs"
    if errors:
        raise errors[0]


def test_a_fault_in_a_thread_is_noticed() -> None:
    with pytest.raises(ZeroDivisionError):
        in_threads(lambda number: print(1 // number), range(2))


def test_two_models_of_one_package_and_one_of_another_do_not_meet(
    package: Path, tmp_path: Path
) -> None:
    torch.manual_seed(1)
    other = pipeline.compile(Block(WIDTH).eval(), (torch.randn(2, 3, WIDTH),), target="cpu")
    with load(package, "cpu") as first, load(package, "cpu") as second, other:
        own, fixed = inputs(1), np.ones((2, 3, WIDTH), np.float32)
        wanted, others = [first(x) for x in own], other(fixed)

        def work(number: int) -> None:
            for call in range(100):
                one = (first, second)[call % 2]
                assert np.array_equal(one(own[call % len(own)]), wanted[call % len(own)])
                assert np.array_equal(other(fixed), others)

        in_threads(work, range(4))
        first.close()
        assert np.array_equal(second(own[0]), wanted[0])


def test_closing_waits_for_calls_and_refuses_later_ones(package: Path) -> None:
    model = load(package, CpuDevice(read_manifest(package), threads=3))
    (x,) = inputs(0, 1)
    wanted, begun = model(x), threading.Barrier(9)

    def work(number: int) -> None:
        begun.wait()
        if number == 0:
            model.close()
            return
        with pytest.raises(AotpackError, match="calling block: the model was closed"):
            while True:
                assert np.array_equal(model(x), wanted)

    in_threads(work, range(9))


def test_binding_weights_between_calls_is_all_or_nothing(model: Model) -> None:
    (x,) = inputs(0, 1)
    old = model(x)
    name = next(weight.name for weight in model.manifest.weights if "norm2" in weight.name)
    weights = [np.full(WIDTH, value, np.float32) for value in (1, 2)]
    model.bind_weights({name: weights[1]}, strict=False)
    new = model(x)
    assert not np.array_equal(old, new)

    def work(number: int) -> None:
        for call in range(60):
            if number == 0:
                model.bind_weights({name: weights[call % 2]}, strict=False)
            result = model(x)
            assert np.array_equal(result, new) or np.array_equal(result, old)

    in_threads(work, range(4))


CHILD = """
import os, sys, threading, numpy as np
from aotpack.runtime import load
model = load({package!r}, 'cpu', concurrency=2)
x, y = (np.random.default_rng(n).normal(size=(4, 24, 16)).astype('f') for n in (0, 1))
wanted, others = model(x), model(y)
going = True
def work():
    while going:
        model(x)
threads = [threading.Thread(target=work, daemon=True) for _ in range(2)]
for thread in threads:
    thread.start()
{then}
"""
FORK = """
for _ in range(4):
    child = os.fork()
    given, answer = (y, others) if child == 0 else (x, wanted)
    same = all(np.array_equal(model(given), answer) for _ in range(20))
    if child == 0:
        model.close()
        os._exit(0 if same else 3)
    _, status = os.waitpid(child, 0)
    if status or not same:
        os._exit(4)
going = False
"""


def run(package: Path, then: str) -> "subprocess.CompletedProcess[str]":
    """A process with two threads that call the model for ever, and something else."""
    program = CHILD.format(package=str(package), then=then)
    command = [sys.executable, "-W", "ignore", "-c", program]
    return subprocess.run(command, timeout=60, check=False, capture_output=True, text=True)


def test_children_forked_between_calls_compute_alone(package: Path) -> None:
    """Parent and child compute different things at once, in memory of their own."""
    done = run(package, FORK)
    assert done.returncode == 0, done.stderr


def test_a_child_has_memory_of_its_own(package: Path) -> None:
    address = (device := CpuDevice(read_manifest(package), threads=1)).alloc(8)
    child = os.fork()
    if child == 0:
        ctypes.memset(address, 1, 8)
        os._exit(0)
    os.waitpid(child, 0)
    assert ctypes.string_at(address, 8) == bytes(8)
    device.free(address)


@pytest.mark.parametrize("end", ["", "sys.exit(0)", "del model"])
def test_a_process_ends_while_threads_call(package: Path, end: str) -> None:
    done = run(package, end)
    assert done.returncode == 0 and done.stderr == "", done.stderr
