"""Calls that fail in every way a caller can make them, between calls that answer, on a GPU."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from aotpack import pipeline
from aotpack.emit import write_package
from aotpack.pipeline import Source
from aotpack.runtime import AotpackError, Model, load
from aotpack.target import device_arch, parse_targets
from tools.interrupts import storm

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(device_arch() is None, reason="needs an NVIDIA GPU"),
]
ROWS, WIDTH, TURNS = 6, 8, 100


class Counting(nn.Module):
    """Looks rows up, asserts on numbers, and counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(ROWS, WIDTH)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, ids: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        torch._assert_async((x > -1).all(), "x is above -1")
        self.calls.add_(1)
        return (self.table(ids) * x).relu() + x


def arguments(number: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(number)
    ids = torch.randint(ROWS, (4,), generator=generator)
    return ids.cuda(), torch.rand(4, WIDTH, generator=generator).cuda()


def _interrupted(model: Model, ids: torch.Tensor, x: torch.Tensor) -> None:
    class Rude:
        """An array whose exporter is interrupted."""

        def __dlpack_device__(self) -> tuple[int, int]:
            raise KeyboardInterrupt

        def __dlpack__(self, **options: Any) -> Any:
            raise KeyboardInterrupt

    model(ids, Rude())


FAILURES: tuple[Callable[[Model, torch.Tensor, torch.Tensor], Any], ...] = (
    lambda model, ids, x: model(ids, x.double()),
    lambda model, ids, x: model(ids[:3], x),
    lambda model, ids, x: model(ids.cpu(), x),
    lambda model, ids, x: model(ids, torch.empty_like(x).untyped_storage()),
    lambda model, ids, x: (model(ids, x - 9), model.synchronize()),
    lambda model, ids, x: (model(ids + ROWS, x), model.synchronize()),
    lambda model, ids, x: model(ids),
    _interrupted,
)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> tuple[Counting, Path]:
    module, folder = Counting().eval(), tmp_path_factory.mktemp("gpu") / "counting"
    source = Source(module, tuple(one.cpu() for one in arguments(0)), None, None)
    options = pipeline.BuildOptions(parse_targets("native"), check_indices=True)
    write_package(pipeline.Build(source, options).precompiled, folder)
    return module, folder


@pytest.mark.parametrize("graphs", [False, True])
def test_failures_between_calls_leave_the_model_right(
    package: tuple[Counting, Path], graphs: bool
) -> None:
    module, folder = package
    table = module.table.weight.detach().cuda()
    streams = [torch.cuda.Stream() for _ in range(3)]
    with load(folder, 0, graphs=graphs) as model:
        for turn in range(TURNS):
            ids, x = arguments(turn)
            fail = FAILURES[turn % len(FAILURES)]
            with pytest.raises((AotpackError, KeyboardInterrupt)):
                fail(model, ids, x)
            before = float(model.state["calls"].numpy()[0])
            torch.cuda.current_stream().synchronize()
            with torch.cuda.stream(streams[turn % 3]):  # and streams that end between calls
                result = model(*arguments(turn))
            torch.cuda.synchronize()
            torch.testing.assert_close(result, (table[ids] * x).relu() + x)
            assert float(model.state["calls"].numpy()[0]) == before + 1
            if turn % 10 == 9:
                streams[turn % 3] = torch.cuda.Stream()


def test_interrupts_at_random_moments_damage_nothing_on_a_gpu(tmp_path: Path) -> None:
    report = storm("cuda", 500, 1, tmp_path)
    assert report.interrupts >= 500 and report.damaged == 0
