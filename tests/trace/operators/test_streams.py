"""What a model says of streams is left out: a package orders its work by data."""

import pytest
import torch
from torch import Tensor, nn

import aotpack
from aotpack.errors import TraceError
from aotpack.pipeline import Build, Source
from aotpack.trace import trace

X = torch.linspace(-2, 2, 12).reshape(3, 4)


class OnTwoStreams(nn.Module):
    """A product on a stream of its own, which the sum waits for."""

    def forward(self, x: Tensor) -> Tensor:
        side = torch.Stream(device="cpu")
        with side:
            y = x * 2
        y.record_stream(side)
        return y.sum(1) + x.sum(1)


class WithEvents(nn.Module):
    """The operators that strict export records on a GPU, numbered by stream and event."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        torch.ops.streams.fork(0, 1)
        y = x * 2
        torch.ops.streams.record_event(0, 1)
        self.count.add_(y.sum(0))
        torch.ops.streams.wait_event(0, 0)
        torch.ops.streams.join(1, 0)
        torch.ops.streams.record_stream(y, 0)
        return y + self.count


@pytest.mark.row("S:P11")
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("model", [OnTwoStreams(), WithEvents()], ids=["stream", "events"])
def test_streams_are_left_out(model: nn.Module, strict: bool) -> None:
    graph = trace(model, (X,), name="m", version="1", strict=strict).graph
    assert {node.op.split(".")[0] for node in graph.nodes} == {"aten"}


@pytest.mark.row("S:P11")
@pytest.mark.parametrize("target", ["cpu", "interpreter"])
def test_answers_follow_the_data(target: str) -> None:
    given = torch.export.export(OnTwoStreams(), (X,), strict=True)
    model = aotpack.compile(given, (X,), target=target)
    torch.testing.assert_close(model(X), X.sum(1) * 3)
    state = aotpack.compile(WithEvents(), (X,), target=target)
    for turn in (1, 2):
        torch.testing.assert_close(state(X), X * 2 + turn * X.sum(0) * 2)


class OnTheGpu(nn.Module):
    def __init__(self, make: str) -> None:
        super().__init__()
        self.make = getattr(torch.cuda, make)

    def forward(self, x: Tensor) -> Tensor:
        self.make()  # the line that is named
        return x + 1


@pytest.mark.row("S:P11")
@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU answers")
@pytest.mark.parametrize("make", ["Stream", "Event", "current_stream", "synchronize"])
def test_streams_of_a_gpu_that_is_not_there(make: str) -> None:
    words = r"exporting m with(.|\n)*can be left out(.|\n)*self.make\(\)  # the line that is named"
    with pytest.raises(TraceError, match=words):
        _ = Build(Source(OnTheGpu(make), (X,), name="m")).traced
