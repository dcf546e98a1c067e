"""Graphs on a GPU: the answers of launches, whatever changes between calls."""

import gc
import threading
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from aotpack.early_start import FIRST_ARCH
from aotpack.emit import write_package
from aotpack.precompile import precompile
from aotpack.runtime import Model, load
from aotpack.runtime.memory.arena import PLANS_KEPT
from aotpack.stages import KernelSource, Precompiled
from aotpack.target import device_arch, parse_targets

from .packages import DIAMOND, demo
from .test_gpu import HEAD, TEXTS

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(device_arch() is None, reason="needs an NVIDIA GPU"),
]
COUNTING = DIAMOND.replace(
    "        launches=(\n",
    '        launches=(\n            Launch("add", (1, 1, 1), ("scale", "scale", "scale", 1)),\n',
)


EARLY = "from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait\n"
START, WAIT = "    gdc_launch_dependents()\n", "    gdc_wait()\n"
BODY = "    i = tl.program_id(0)\n"
SLOWLY = """\
    turns = 0
    while turns < 20000:
        turns += 1 + tl.load(x + i, volatile=True).to(tl.int32) * 0
"""


def built(
    wrapper: str = DIAMOND, *, start: str = START + WAIT, slowly: str = "", **changes: object
) -> Precompiled:
    """The demo package with kernels for this GPU, which begin with ``start``."""
    made = demo(wrapper, **changes).rendered  # type: ignore[arg-type]
    kernels: tuple[KernelSource, ...] = tuple(
        replace(
            one,
            text=EARLY + HEAD + TEXTS[one.name].replace(BODY, start + BODY + slowly),
            starts_early=bool(start),
        )
        for one in made.kernels
    )
    return precompile(replace(made, kernels=kernels), parse_targets("native"))


@pytest.fixture(scope="module", params=["", START + WAIT], ids=["", "early"])
def package(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("graphs") / "demo"
    write_package(built(start=request.param), folder)
    return folder


@pytest.mark.parametrize("graphs", [True, False])
@pytest.mark.parametrize("start", [START, START + WAIT], ids=["careless", "waiting"])
def test_kernels_that_start_early_wait_for_what_they_read(
    tmp_path: Path, start: str, graphs: bool
) -> None:
    if (device_arch() or 0) < FIRST_ARCH:
        pytest.skip("this GPU starts no kernel early")
    write_package(built(start=start, slowly=SLOWLY), tmp_path / "demo")
    right = []
    with load(tmp_path / "demo", graphs=graphs) as model:
        for number in range(6):
            args = tensors(2, 3, number)
            right.append(torch.equal(model(*args), wanted(*args)))
    assert all(right) if WAIT in start else not all(right)


def tensors(rows: int = 2, columns: int = 3, value: float = 1.0) -> tuple[torch.Tensor, ...]:
    x = torch.arange(rows * columns, dtype=torch.float32, device="cuda").reshape(rows, columns)
    return x + value, x * 2 - value


def wanted(x: torch.Tensor, y: torch.Tensor, scale: float = 2.0) -> torch.Tensor:
    """What the diamond gives; small whole numbers, so every order of sums gives the same."""
    a = x + y
    return a + y + a * scale * scale


@pytest.mark.row("S:T9")
@pytest.mark.parametrize("graphs", [True, False])
def test_both_executors_answer_alike_with_new_addresses_and_sizes(
    package: Path, graphs: bool
) -> None:
    with load(package, graphs=graphs) as model:
        kept = []
        for number in range(60):
            args = tensors(1 + number % 3, 1 + number % 5, number)
            kept.append((args, model(*args)))
        for args, result in kept:  # none of them was overwritten by a later call
            torch.testing.assert_close(result, wanted(*args), rtol=0, atol=0)


def test_growth_of_the_arena_and_new_weights(package: Path) -> None:
    with load(package) as model:
        for rows in (1, 1, 1, 8, 8, 8, 1, 1, 1):
            args = tensors(rows, 32)
            torch.testing.assert_close(model(*args), wanted(*args), rtol=0, atol=0)
        model.bind_weights({"scale": torch.tensor([3.0])})
        for _ in range(4):
            torch.testing.assert_close(model(*args), wanted(*args, 3.0), rtol=0, atol=0)


def test_graphs_that_go_leave_no_memory_behind(package: Path) -> None:
    with load(package) as model:
        shapes = [(b, s) for b in range(1, 9) for s in range(1, 1 + PLANS_KEPT // 4)]

        def sweep() -> int:
            for shape in shapes:
                args = tensors(*shape)
                for _ in range(3):
                    result = model(*args)
                torch.testing.assert_close(result, wanted(*args), rtol=0, atol=0)
            gc.collect()
            torch.cuda.synchronize()
            return torch.cuda.mem_get_info()[0]

        model(*tensors(8, 32))
        free = [sweep() for _ in range(4)]
        # What others take of the GPU meanwhile counts, too; what we left behind would each time.
        left = [a - b for a, b in pairwise(free)]
        assert min(left) <= 4 << 20, left


def test_threads_and_streams(package: Path) -> None:
    wrong: list[int] = []

    def work(model: Model, value: int) -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            args = tensors(8, 32, value)
            right = wanted(*args)
            results = [model(*args) for _ in range(100)]
            wrong.append(sum(int((result != right).sum()) for result in results))

    with load(package, concurrency=3) as model:
        threads = [threading.Thread(target=work, args=(model, value)) for value in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == [0] * 5


def test_one_thread_that_changes_its_stream(package: Path) -> None:
    streams = [torch.cuda.default_stream(), *(torch.cuda.Stream() for _ in range(4))]
    with load(package) as model:
        checks = []
        for number in range(100):
            stream = streams[number % 3 if number % 2 else number % 5]
            with torch.cuda.stream(stream):
                args = tensors(8, 32, number)
                checks.append((model(*args) == wanted(*args)).all())
        torch.cuda.synchronize()
        assert all(bool(check) for check in checks)


def test_state_is_changed_in_place_by_every_call(tmp_path: Path) -> None:
    made = built(COUNTING, updates=("scale",))
    golden = replace(
        made.rendered.golden,
        updates=(("scale", made.rendered.weights[0].dtype, (1,), bytes(4)),),
        eager_errors=(0.0, 0.0),
    )
    write_package(replace(made, rendered=replace(made.rendered, golden=golden)), tmp_path / "m")
    with load(tmp_path / "m") as model:
        args = tensors()
        for number in range(8):
            result = model(*args)
            torch.testing.assert_close(result, wanted(*args, 2.0 ** (number + 2)), rtol=0, atol=0)
        assert model.state["scale"].numpy().tolist() == [2.0**9]


def test_calls_in_the_users_own_graph(package: Path) -> None:
    with load(package) as model:
        for _ in range(3):
            model(*tensors())
        x, y = tensors()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            first = model(x, y)
            second = model(first, y)
        for value in range(3):
            x.fill_(value)
            graph.replay()
            others = tensors(value=7.0)
            torch.testing.assert_close(model(*others), wanted(*others), rtol=0, atol=0)
            graph.replay()
            torch.testing.assert_close(first, wanted(x, y), rtol=0, atol=0)
            torch.testing.assert_close(second, wanted(first, y), rtol=0, atol=0)


def test_replays_beside_calls_on_another_stream(package: Path) -> None:
    with load(package) as model:
        x, y = tensors(8, 32)
        graph, other = torch.cuda.CUDAGraph(), torch.cuda.Stream()
        with torch.cuda.graph(graph):
            captured = model(x, y)
        right, wrong = wanted(x, y), torch.zeros((), dtype=torch.int64, device="cuda")
        args = tensors(8, 32, 9.0)
        torch.cuda.synchronize()
        for _ in range(200):
            with torch.cuda.stream(other):
                result = model(*args)
                wrong += (result != wanted(*args)).sum()
            graph.replay()
            assert captured.shape == right.shape
        torch.cuda.synchronize()
        assert int(wrong) == 0
        torch.testing.assert_close(captured, right, rtol=0, atol=0)
