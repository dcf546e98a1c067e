"""Builds in two threads: each gives its own answer, and torch's functions stand again."""

import importlib
import os
import select
import signal
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.fx.experimental import sym_node, symbolic_shapes

import aotpack
from aotpack.errors import TraceError
from aotpack.stages import Traced
from aotpack.trace import load_model, trace

X = torch.ones(4, 3)
REPLACED = (
    *((kind, name) for kind in (torch.SymInt, torch.SymBool) for name in ("__bool__", "__int__")),
    (torch.Tensor, "is_contiguous"),
    (sym_node.SymNode, "expect_true"),
    (symbolic_shapes.ShapeEnv, "guard_or_defer_runtime_assert"),
    (importlib.import_module("torch._higher_order_ops.cond"), "_merge_output"),
    (importlib.import_module("torch._export.utils"), "_name_hoo_subgraph_placeholders"),
)


class Plain(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x) + 1


class Reading(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if x.sum().item() > 0 else x + 1


def standing() -> list[Any]:
    functions = [getattr(owner, name) for owner, name in REPLACED]
    return [*functions, "is_contiguous" in vars(torch.Tensor), torch.get_default_dtype()]


def built(model: nn.Module) -> Traced:
    sizes = {"x": {0: Dim("n", min=2, max=9)}}
    return trace(model, (X,), dynamic_shapes=sizes, name="m", version="1")


def in_two_threads(first: nn.Module, other: nn.Module) -> tuple[Future[Traced], Future[Traced]]:
    """Two builds that would overlap: the first ends while the other still runs."""
    meeting, begun, ended = threading.Barrier(2), threading.Event(), threading.Event()

    def meet() -> None:
        with suppress(threading.BrokenBarrierError):
            meeting.wait(1)

    def in_first(*_: object) -> None:
        if not begun.is_set():
            begun.set()
            meet()

    def in_other(*_: object) -> None:
        if not ended.is_set():
            meet()
            ended.wait(9)

    def build_first() -> Traced:
        try:
            return built(first)
        finally:
            ended.set()

    def build_other() -> Traced:
        begun.wait(9)
        return built(other)

    first.register_forward_pre_hook(in_first)
    other.register_forward_pre_hook(in_other)
    with ThreadPoolExecutor(2) as threads:
        return threads.submit(build_first), threads.submit(build_other)


def test_two_builds_leave_torch_as_it_was() -> None:
    before, alone = standing(), built(Plain()).as_text()
    for one in in_two_threads(Plain(), Plain()):
        assert one.result().as_text() == alone
    assert standing() == before


@pytest.mark.parametrize("kinds", [(Plain, Reading), (Reading, Plain)])
def test_a_build_that_is_refused_beside_another(kinds: tuple[type[nn.Module], ...]) -> None:
    before = standing()
    first, other = (kind() for kind in kinds)
    for kind, one in zip(kinds, in_two_threads(first, other), strict=True):
        if kind is Plain:
            assert one.result().graph.nodes
        else:
            with pytest.raises(TraceError, match="a Python value in forward is data-dependent"):
                one.result()
    assert standing() == before


def test_files_are_read_in_turn(tmp_path: Path) -> None:
    torch.export.save(torch.export.export(Plain(), (X,)), tmp_path / "m.pt2")
    before, meeting = dict(os.environ), threading.Barrier(4)

    def read(_: int) -> int:
        meeting.wait(60)
        return len(load_model(str(tmp_path / "m.pt2")).module.graph.nodes)

    with ThreadPoolExecutor(4) as threads:
        assert len({*threads.map(read, range(4))}) == 1
    assert dict(os.environ) == before


def answer_of_a_fork() -> str:
    """What a build says in a process that is forked now."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            aotpack.compile(Plain(), (X,), target="cpu")
            told = "built"
        except TraceError as error:
            told = str(error)
        os.write(writing, told.encode())
        os._exit(0)
    os.close(writing)
    told = b""
    while select.select([reading], [], [], 60)[0] and (part := os.read(reading, 4096)):
        told += part
    os.close(reading)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return told.decode()


@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_fork_during_a_build_of_another_thread_refuses_to_build() -> None:
    model, reached, may_end = Plain(), threading.Event(), threading.Event()

    def wait(*_: object) -> None:
        reached.set()
        may_end.wait(60)

    model.register_forward_pre_hook(wait)
    with ThreadPoolExecutor(1) as threads:
        build = threads.submit(aotpack.compile, model, (X,), target="cpu")
        try:
            assert reached.wait(60)
            assert "forked while another thread traced one" in answer_of_a_fork()
        finally:
            may_end.set()
        assert torch.equal(torch.as_tensor(build.result()(X)), torch.relu(X) + 1)


@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_fork_without_a_build_builds() -> None:
    aotpack.compile(Plain(), (X,), target="cpu")
    assert answer_of_a_fork() == "built"
