"""Calls that become graphs, on a library whose graphs run as late as their edges admit."""

from pathlib import Path

import numpy as np
import pytest

from aotpack.runtime import AotpackError, load, verify
from aotpack.runtime.memory.arena import PLANS_KEPT
from tests.runtime.fake_library import FakeGpu
from tests.runtime.packages import LOOPED, call_diamond, write_demo


@pytest.mark.row("S:P7")
def test_only_nodes_with_new_addresses_are_set(diamond: Path, gpu: FakeGpu) -> None:
    x = np.ones((2, 3), np.float32)
    with load(diamond, gpu) as model:
        for _ in range(4):
            model(x, x)  # staged, so every address is that of the call before
        assert "cuGraphExecKernelNodeSetParams_v2" not in gpu.library.log
        prepared = next(iter(model._pool._known[0]._plans.values()))
        ours = np.full((2, 3), 4, np.float32)
        addresses = list(prepared.cells[1:4])
        prepared.store([addresses[0], ours.ctypes.data, addresses[2]])
        prepared.issue(0)
        assert gpu.library.log.count("cuGraphExecKernelNodeSetParams_v2") == 2  # y has two readers


def test_growth_of_the_arena_and_new_weights_rebuild_graphs(diamond: Path, gpu: FakeGpu) -> None:
    with load(diamond, gpu) as model:
        for rows in (1, 1, 1, 8, 8, 8, 1, 1, 1):
            call_diamond(model, rows)
        assert gpu.library.log.count("cuGraphInstantiateWithFlags") == 3
        assert gpu.library.alive == 4
        model.bind_weights({"scale": np.float32([2])})
        assert gpu.library.alive == 0
        call_diamond(model)
    assert gpu.library.alive == 0


def test_graphs_are_bounded(diamond: Path, gpu: FakeGpu) -> None:
    with load(diamond, gpu) as model:
        model(*[np.zeros((8, 32), np.float32)] * 2)
        shapes = [(b, s) for b in range(1, 9) for s in range(1, 10)]
        for shape in shapes:
            for _ in range(2):
                model(*[np.zeros(shape, np.float32)] * 2)
        assert len(shapes) > PLANS_KEPT
        assert gpu.library.alive == 2 * PLANS_KEPT


def test_calls_that_are_captured_are_launches_in_memory_of_their_own(
    diamond: Path, gpu: FakeGpu
) -> None:
    with load(diamond, gpu) as model:
        for _ in range(3):
            call_diamond(model)
        blocks = len(gpu.blocks)
        gpu.captures[0] = 77
        before = gpu.library.log.count("cuLaunchKernelEx")
        for _ in range(3):
            call_diamond(model)
        assert gpu.library.log.count("cuLaunchKernelEx") == before + 15
        assert len(gpu.blocks) == blocks + 4  # an arena, and staging for two arguments and a result
        gpu.captures.clear()
        launches = gpu.library.log.count("cuGraphLaunch")
        call_diamond(model)
        assert gpu.library.log.count("cuGraphLaunch") == launches + 1
        gpu.captures[0] = 78
        call_diamond(model)
        assert len(gpu.blocks) == blocks + 8


def test_a_graph_that_fails_is_an_error(diamond: Path, gpu: FakeGpu) -> None:
    with load(diamond, gpu) as model:
        for _ in range(2):
            call_diamond(model)
        gpu.library.fails["cuGraphLaunch"] = 719
        with pytest.raises(AotpackError, match="launching a graph on fake:0: a kernel failed"):
            call_diamond(model)


def test_verify_checks_what_runs_as_a_graph(diamond: Path, gpu: FakeGpu) -> None:
    assert verify(diamond, gpu).is_passed
    assert gpu.library.log.count("cuGraphLaunch") == 1


def test_verify_finds_a_graph_that_lacks_an_edge(diamond: Path, gpu: FakeGpu) -> None:
    gpu.library.forgets_edges = True
    report = verify(diamond, gpu)
    assert not report.is_passed and "WRONG" in str(report)


@pytest.mark.row("S:P5", "S:P6")
@pytest.mark.parametrize("debug", [None, "nan"])
def test_runs_around_loops_and_inside_them_are_graphs(
    tmp_path: Path, gpu: FakeGpu, debug: str | None
) -> None:
    x, y = np.float32([[1, 2, 3]]), np.float32([[5, 7, 11]])
    with load(write_demo(tmp_path / "demo", wrapper=LOOPED), gpu, debug=debug) as model:
        for value in range(4):
            given = x + np.float32(value)
            np.testing.assert_array_equal(model(given, y), 10 * (given + y) + 7 * y)
    launches = gpu.library.log.count("cuGraphLaunch")
    assert launches == (0 if debug else 2 + 1 + 3 * 3)  # before the loop; inside it, from turn 3 on


def test_a_plan_with_a_loop_is_watched_too(tmp_path: Path, gpu: FakeGpu) -> None:
    x = np.ones((1, 3), np.float32)
    with load(write_demo(tmp_path / "demo", wrapper=LOOPED), gpu, debug="nan") as model:
        model.bind_weights({"scale": np.float32([np.nan])})
        with pytest.raises(AotpackError, match="wrote NaN into 'b': 3 of 3"):
            model(x, x)
