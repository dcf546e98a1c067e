"""Scans of long rows: programs publish, wait, and leave the counters as they found them."""

import torch
from torch import nn

from aotpack.stages import KernelSource
from tests.render.models import rendered


class Sums(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.cumsum(1)


class Extremes(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.cumsum(1), x.cummax(1)[0]


def kernel(module: nn.Module, rows: int = 2, length: int = 100_000) -> KernelSource:
    (found,) = rendered(module, torch.zeros(rows, length)).kernels
    return found


def test_a_block_publishes_its_own_state_before_it_waits_and_all_before_it_after() -> None:
    entry = kernel(Sums()).text.rpartition("@triton.jit")[2]
    own, after = "row + part, part < parts)", "row + parts + group + 1, is_last)"
    steps = [entry.index(text) for text in (own, " wait(", "combine_sum(", after)]
    assert steps == sorted(steps)


def test_the_last_program_clears_the_counters_of_each_scan() -> None:
    for module, scans in ((Sums(), 1), (Extremes(), 2)):
        entry = kernel(module).text.rpartition("@triton.jit")[2]
        end = entry.partition('sem="acq_rel") == tl.num_programs(0) - 1:')[2]
        assert entry.count(" wait(") == end.count("clear(") == scans
        assert end.count("tl.store(") == 1  # the number of blocks that were begun, and of ended


def test_short_rows_wait_for_nobody() -> None:
    text = kernel(Sums(), rows=2, length=1000).text
    assert "tl.associative_scan(" in text and "publish" not in text and " wait(" not in text
