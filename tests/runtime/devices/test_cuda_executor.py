"""Steps are launches at first and a graph when they come again."""

import json
from pathlib import Path

import numpy as np
import pytest

from aotpack.runtime import load
from tests.runtime.fake_library import FakeGpu
from tests.runtime.packages import DIAMOND, WRAPPER, call_diamond, rewrite, write_demo

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.row("S:T9", "S:P6", "S:P7")
def test_sizes_seen_twice_become_a_graph_with_the_plans_edges(diamond: Path, gpu: FakeGpu) -> None:
    with load(diamond, gpu) as model:
        library = gpu.library
        for value in range(2):
            call_diamond(model, value=value)
        assert library.log.count("cuLaunchKernelEx") == 10 and "cuGraphLaunch" not in library.log
        assert [before for _, _, before in library.nodes] == [(), (1,), (1,), (2, 3), (4,)]
        for value in range(3):
            call_diamond(model, value=value)
        assert library.log.count("cuLaunchKernelEx") == 10
        assert library.log.count("cuGraphLaunch") == 3
        assert library.early_launches == (10 if gpu.starts_early else 0)
        assert library.log.count("cuGraphAddDependencies_v2") == (4 if gpu.starts_early else 0)


def test_where_a_launch_reads_early_the_first_one_waits(tmp_path: Path, gpu: FakeGpu) -> None:
    package = write_demo(tmp_path / "demo", wrapper=DIAMOND, factor=11)
    manifest = json.loads((package / "manifest.json").read_text())
    manifest["kernels"]["scale"]["reads_early"] = True
    rewrite(package, manifest)
    with load(package, gpu, graphs=False) as model:
        call_diamond(model)
    assert gpu.library.early_launches == (4 if gpu.starts_early else 0)


def test_without_graphs_everything_is_a_launch(diamond: Path, gpu: FakeGpu) -> None:
    with load(diamond, gpu, graphs=False) as model:
        for value in range(4):
            call_diamond(model, value=value)
    assert gpu.library.log.count("cuLaunchKernelEx") == 20 and not gpu.library.nodes


def test_a_single_launch_stays_a_launch(tmp_path: Path, gpu: FakeGpu) -> None:
    add = '            Launch("add", (b*s, 1, 1), ("x", "y", "total", b*s)),\n'
    wrapper = WRAPPER.replace(add, "").replace('("total", "scale"', '("x", "scale"')
    x = np.ones((2, 3), np.float32)
    with load(write_demo(tmp_path / "one", wrapper=wrapper), gpu) as model:
        for _ in range(4):
            np.testing.assert_array_equal(model(x, x), x * 2)
    assert gpu.library.log.count("cuLaunchKernelEx") == 4 and not gpu.library.nodes


def test_where_no_graph_can_be_built_launches_go_on(diamond: Path, gpu: FakeGpu) -> None:
    with load(diamond, gpu) as model:
        call_diamond(model)
        gpu.library.fails["cuGraphInstantiateWithFlags"] = 2
        with pytest.warns(
            RuntimeWarning, match="instantiating a graph on fake:0: the GPU has no mem"
        ):
            call_diamond(model)
        for _ in range(3):
            call_diamond(model)
    assert gpu.library.log.count("cuLaunchKernelEx") == 25 and gpu.library.alive == 0
