"""Assertions on a GPU: nobody waits for them, and none is lost."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

import aotpack
from aotpack import pipeline
from aotpack.emit import write_package
from aotpack.pipeline import Source
from aotpack.runtime import AssertionFailed, Model, load
from aotpack.target import device_arch, parse_targets

from .test_assertions import (
    CASES,
    GOOD,
    Asserting,
    Case,
    Places,
    failing,
    looked_up,
    of_a_wide_number,
    of_all,
    several,
)

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(device_arch() is None, reason="needs an NVIDIA GPU"),
]
AS_GRAPH = 4  # calls of the same sizes; the last is a graph


def built(module: nn.Module, folder: Path) -> Path:
    source = Source(module, (GOOD,), None, None)
    write_package(
        pipeline.Build(source, pipeline.BuildOptions(parse_targets("native"))).precompiled, folder
    )
    return folder


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(Asserting(several), tmp_path_factory.mktemp("gpu") / "m")


@pytest.fixture
def model(package: Path) -> Iterator[Model]:
    with load(package) as loaded:
        yield loaded


@pytest.mark.row("S:H26", "S:Q5")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_launches_and_graphs_leave_word(case: Case, tmp_path: Path) -> None:
    if case.step in (of_a_wide_number, of_all) and torch.__version__ < "2.13":
        pytest.skip("this torch does not export it")
    good, wanted = GOOD.cuda(), case.step(GOOD).cuda()
    folder = built(Asserting(case.step), tmp_path / "m")
    for options in ({"graphs": False}, {"graphs": True}, {"debug": "sync"}):
        with load(folder, **options) as model:
            for _ in range(AS_GRAPH):
                torch.testing.assert_close(model(good), wanted)
                model.synchronize()
                for x, words in case.fails:
                    with failing(*words):
                        model(x.cuda())
                        assert "debug" not in options
                        model.synchronize()
                    with failing(*words):
                        model(x.numpy())  # numpy results are waited for
            torch.testing.assert_close(model(good), wanted)


@pytest.mark.row("S:H26")
def test_the_next_call_tells_and_the_one_after_is_good(model: Model) -> None:
    good = GOOD.cuda()
    for _ in range(AS_GRAPH):
        model(-good)
        torch.cuda.synchronize()
        with failing("first"):
            model(good)
        torch.testing.assert_close(model(good), good.softmax(1))


@pytest.mark.row("S:H26")
def test_no_call_waits_and_all_that_fails_is_told(model: Model) -> None:
    good, high, low = GOOD.cuda(), GOOD.cuda() + 100, -GOOD.cuda()
    for _ in range(AS_GRAPH):
        model(good)
        model.synchronize()
        torch.cuda._sleep(2_000_000_000)  # about a second
        start = time.perf_counter()
        for x in (low, good, high, good):
            model(x)
        assert time.perf_counter() - start < 0.5
        with failing("first", "second"):
            model.synchronize()
        model.synchronize()


@pytest.mark.row("S:H26")
def test_streams_have_words_of_their_own(model: Model) -> None:
    good, high = GOOD.cuda(), GOOD.cuda() + 100
    streams = [torch.cuda.Stream(), torch.cuda.Stream()]

    def calls(*given: torch.Tensor) -> None:
        """A call on each stream and a good one behind it, none of which has run at the end."""
        for stream, x in zip(streams, given, strict=True):
            with torch.cuda.stream(stream):
                torch.cuda._sleep(100_000_000)
                model(x)
                model(good)

    for _ in range(AS_GRAPH):
        calls(good, good)
        model.synchronize()
    for first in (-good, good):
        calls(first, high)
        with pytest.raises(AssertionFailed) as caught:
            model.synchronize()
        assert "second" in str(caught.value) and ("first" in str(caught.value)) == (
            first is not good
        )


@pytest.mark.row("S:H26")
def test_in_the_users_own_graph(model: Model) -> None:
    x = GOOD.cuda()
    model(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = model(x)
    graph.replay()
    model.synchronize()
    torch.testing.assert_close(y, x.softmax(1))
    x.neg_()
    graph.replay()
    with failing("first"):
        model.synchronize()
    x.neg_()
    graph.replay()
    model.synchronize()


@pytest.mark.row("C:inv5")
def test_a_position_out_of_range_is_told_and_harms_nothing() -> None:
    x, i = GOOD.cuda(), torch.tensor([1, 0, 2], device="cuda")
    model = aotpack.compile(Places(looked_up), (GOOD, i.cpu()), check_indices=True)
    for _ in range(AS_GRAPH):
        for found, wanted in zip(model(x, i), looked_up(x, i), strict=True):
            torch.testing.assert_close(found, wanted)
        model(x, i - 1)
        with failing("positions must be at least 0 and less than 4"):
            model.synchronize()


@pytest.mark.row("S:H26")
def test_what_no_call_has_told_is_told_at_the_end(package: Path) -> None:
    with failing("first"), load(package) as model:
        model(-GOOD.cuda())
    with pytest.raises(KeyError), load(package) as model:
        model(-GOOD.cuda())
        raise KeyError  # an error of the user's is not hidden
