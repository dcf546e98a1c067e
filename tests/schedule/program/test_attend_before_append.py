"""Which attention comes before its cache is extended, and when its programs ask for keys first."""

from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from aotpack.devices import H200
from aotpack.ir.kernels.appended_rows import appended_rows
from aotpack.ir.kernels.kernel import Kernel, Schedule, launches
from aotpack.ir.kernels.tiles import AttentionTile
from aotpack.ir.operations import Attention, Scatter
from aotpack.ir.verify.schedule import verify_schedule
from aotpack.ir.verify.tiles import (
    InvalidSchedule,
    check_clusters_of_keys,
    check_first_keys,
)
from aotpack.target import CPU, Target
from tests.render.models import rendered
from tests.schedule.programs import assert_same, replayed, scheduled

BF16, F32 = torch.bfloat16, torch.float32
HOPPER, AMPERE = Target("cuda", 90), Target("cuda", 80)
WIDTH = 32


class Layer(nn.Module):
    """Two heads of 16 or more elements; ``kind`` says what is unusual."""

    def __init__(self, kind: str = "", places: int = 256, head: int = 16) -> None:
        super().__init__()
        self.kind, self.head = kind, head
        self.wide = nn.Linear(WIDTH, 6 * head, bias=False)
        self.register_buffer("keys", torch.zeros(1, 2, places, head))
        self.register_buffer("values", torch.zeros(1, 2, places, head))

    def forward(self, x: torch.Tensor, at: torch.Tensor) -> tuple[torch.Tensor, ...]:
        q, k, v = self.wide(x).unflatten(-1, (6, self.head)).transpose(1, 2).chunk(3, 1)
        if self.kind == "norms of heads":
            q, k = (one * one.float().square().mean(-1, True).rsqrt().to(one) for one in (q, k))
        q = q.float().cos().to(q.dtype)
        if self.kind == "a place for each element":
            self.keys.scatter_(2, (at + torch.arange(self.head) % 2).expand(1, 2, 1, -1), k)
        elif self.kind == "one head":
            self.keys[:, :1].index_copy_(2, at, k[:, :1])
        else:
            self.keys.index_copy_(2, at, k)
        self.values.index_copy_(2, at, v)
        read = torch.roll(self.keys, 1, 2) if self.kind == "read elsewhere" else self.keys
        y = F.scaled_dot_product_attention(q, read, self.values)
        if self.kind == "read again":
            return y, self.keys.sum()
        if self.kind == "twice":
            return y, F.scaled_dot_product_attention(q * 2, self.keys, self.values)
        return (y,)


def example(layer: Layer, tokens: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    dtype = layer.keys.dtype
    return torch.zeros(1, tokens, WIDTH, dtype=dtype), torch.zeros(tokens, dtype=torch.int64)


def made(layer: Layer, tokens: int = 1, target: Target = HOPPER) -> Schedule:
    return scheduled(layer, *example(layer, tokens), targets=(target,)).schedule


def attention(schedule: Schedule) -> Kernel:
    (kernel,) = (k for k in schedule.kernels if isinstance(k.template_op, Attention))
    return kernel


def rows_of(schedule: Schedule) -> int:
    kernel = attention(schedule)
    assert isinstance(kernel.template_op, Attention)
    return len(appended_rows(kernel.template_op))


def test_a_step_is_a_product_attention_and_one_launch_of_updates() -> None:
    schedule = made(Layer())
    _, attends, updates = launches(schedule.kernels)
    assert rows_of(schedule) == 2 and attends == (attention(schedule),)
    assert attends[0].reads == ("linear_product", "at", "keys", "values")  # no query
    assert all(isinstance(k.members[0].operation, Scatter) for k in updates) and len(updates) == 2


def test_the_program_stays_the_same() -> None:
    schedule = made(Layer())
    plain = scheduled(Layer(), *example(Layer()), targets=(CPU,)).schedule
    assert rows_of(plain) == 0
    assert_same(plain.program, replayed(schedule))


@pytest.mark.parametrize(
    ("kind", "tokens"),
    [
        ("norms of heads", 1),
        ("read elsewhere", 1),
        ("read again", 1),
        ("one head", 1),
        ("a place for each element", 1),
        ("", 2),  # two rows are new
        ("", 40),
    ],
)
def test_others_read_the_cache(kind: str, tokens: int) -> None:
    assert rows_of(made(Layer(kind), tokens)) == 0


def test_two_readers_both_read_the_cache() -> None:
    schedule = made(Layer("twice"))
    found = [k.template_op for k in schedule.kernels if isinstance(k.template_op, Attention)]
    assert [len(appended_rows(one)) for one in found] == [0, 0]


def test_no_update_runs_before_the_reader_of_the_old_cache() -> None:
    schedule = made(Layer())
    first, *rest = (k for k in schedule.kernels if k.scatter is not None)
    others = [k for k in schedule.kernels if k.scatter is None]
    early = (others[0], replace(first, shares_launch=False), *others[1:])
    with pytest.raises(InvalidSchedule):
        verify_schedule(replace(schedule, kernels=(*early, *rest)))


def tiles(layer: Layer, target: Target = HOPPER) -> list[AttentionTile]:
    """The tiles of attention for an architecture, the preferred one first."""
    variants = attention(made(layer.to(BF16), target=target)).variants
    (taken,) = (v for v in variants if v.takes(target.arch))
    return [one for one in (taken.tile, *taken.others) if isinstance(one, AttentionTile)]


def test_programs_of_few_blocks_ask_for_keys_first() -> None:
    assert tiles(Layer(places=4096, head=64))[0].keys_first
    assert tiles(Layer(places=4096, head=128))[0].keys_first


@pytest.mark.parametrize(
    ("layer", "target"),
    [
        (Layer(places=65536, head=64), HOPPER),  # many blocks
        (Layer(places=4096, head=256), HOPPER),  # too many registers
        (Layer(places=4096, head=64), AMPERE),  # no launch starts early
    ],
)
def test_others_do_not(layer: Layer, target: Target) -> None:
    assert not any(tile.keys_first for tile in tiles(layer, target))


@pytest.mark.parametrize(
    ("places", "head", "found"),
    [
        (4096, 64, (8, 256, 8)),
        (2048, 128, (8, 128, 8)),
        (4096, 128, (1, 64, 4)),  # it would take four steps of a cluster
        (1024, 64, (8, 128, 4)),
        (300, 64, (4, 128, 4)),
        (130, 64, (2, 128, 4)),
        (130, 16, (2, 128, 4)),
    ],
)
def test_programs_that_share_keys_are_a_cluster(
    places: int, head: int, found: tuple[int, int, int]
) -> None:
    tile = tiles(Layer(places=places, head=head))[0]
    assert (tile.cluster_size, tile.j, tile.num_warps) == found
    layer = Layer(places=places, head=head).to(BF16)
    kernels = rendered(layer, *example(layer), targets=(HOPPER,)).kernels
    (kernel,) = (one for one in kernels if one.name.startswith("attention"))
    assert kernel.cluster_size == found[0]
    has_parts = any(arg.name.endswith("_parts_ptr") for arg in kernel.args)
    assert has_parts is (found[0] == 1)


def test_all_clusters_run_at_once() -> None:
    """Of two tiles each, on GPUs where so many clusters do."""
    layer = Layer(places=2048, head=64).to(BF16)
    sizes = []
    for clusters in (((2, 66), (4, 30), (8, 2)), ((2, 66), (4, 30), (8, 1)), ((2, 1),), ()):
        gpu = replace(H200, clusters=clusters)
        made = scheduled(layer, *example(layer), targets=(HOPPER,), gpu=gpu).schedule
        (taken,) = (v for v in attention(made).variants if v.takes(90))
        sizes.append(taken.tile.cluster_size)  # type: ignore[union-attr]
    assert sizes == [8, 4, 1, 1]


@pytest.mark.parametrize(
    "change", [{"most_programs": 0}, {"cluster_size": 256}, {"cluster_size": 3}, {}]
)
def test_clusters_that_cannot_hold_parts_are_refused(change: dict[str, Any]) -> None:
    schedule = made(Layer(places=4096, head=64).to(BF16))
    kernel = attention(schedule)
    first = next(v for v in kernel.variants if v.takes(90))
    changed_one = replace(first, tile=replace(first.tile, **change), others=())
    variants = tuple(changed_one if v is first else v for v in kernel.variants)
    kernels = tuple(replace(k, variants=variants) if k is kernel else k for k in schedule.kernels)
    changed = replace(schedule, kernels=kernels)
    if not change:
        check_clusters_of_keys(changed)
        return
    with pytest.raises(InvalidSchedule, match="cannot share keys in a cluster"):
        check_clusters_of_keys(changed)


def test_cached_rows_are_requested_before_the_wait_and_new_ones_read_behind_it() -> None:
    layer = Layer(places=4096, head=64).to(BF16)
    kernels = rendered(layer, *example(layer), targets=(HOPPER,)).kernels
    assert [one.name.split("_")[0] for one in kernels if one.reads_early] == ["attention"]
    (text,) = (kernel.text for kernel in kernels if kernel.name.startswith("attention"))
    before, after = text.split("gdc_wait()\n")[-2:]
    assert "tl.load(keys_ptr" in before and "tl.load(values_ptr" in before
    assert "product_ptr +" not in before and "product_ptr +" in after
    assert "at_ptr" not in after


class Given(nn.Module):
    """Attention to a cache that a caller extends by ``where``."""

    def forward(
        self, q: torch.Tensor, keys: torch.Tensor, row: torch.Tensor, at: torch.Tensor
    ) -> torch.Tensor:
        extended = torch.where(torch.arange(keys.shape[2])[:, None] == at, row, keys)
        return F.scaled_dot_product_attention(q, extended, extended)


def test_a_cache_that_nothing_updates_later_may_be_new() -> None:
    q, keys = torch.zeros(1, 2, 1, 64, dtype=BF16), torch.zeros(1, 2, 4096, 64, dtype=BF16)
    args = q, keys, q, torch.zeros(1, dtype=torch.int64)
    schedule = scheduled(Given(), *args, targets=(HOPPER,)).schedule
    tiles = [v.tile for v in attention(schedule).variants if v.takes(90)]
    assert rows_of(schedule) == 2
    assert not any(isinstance(one, AttentionTile) and one.keys_first for one in tiles)


@pytest.mark.parametrize("change", [{"most_programs": 0}, {"descriptors": True}, {}])
def test_programs_may_not_ask_first_for_what_is_new(change: dict[str, Any]) -> None:
    schedule = made(Layer(places=4096, head=64).to(BF16))
    kernel = attention(schedule)
    first = next(v for v in kernel.variants if v.takes(90))
    tile = replace(first.tile, **change)
    variants = tuple(replace(v, tile=tile) if v is first else v for v in kernel.variants)
    kernels = tuple(replace(k, variants=variants) if k is kernel else k for k in schedule.kernels)
    program = schedule.program if change else replace(schedule.program, updates=())
    with pytest.raises(InvalidSchedule, match="may not request keys before they wait"):
        check_first_keys(replace(schedule, kernels=kernels, program=program))
    check_first_keys(schedule)
