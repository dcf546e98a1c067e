"""Which attention has roles of warps: many queries, on Hopper alone."""

import pytest
import torch

from aotpack.ir.kernels.tiles import AttentionTile
from tests.render.triton.test_attention_roles import Attended
from tests.schedule.programs import scheduled


def tiles(
    arch: int, batch: int, depth: int, *more: torch.Tensor, keys: int = 1024
) -> list[AttentionTile]:
    q = torch.zeros(batch, keys, 8, depth, dtype=torch.bfloat16)
    (kernel, *_) = scheduled(Attended(), q, q, q, *more).schedule.kernels
    found = [one.tile for one in kernel.variants if one.takes(arch)]
    return [one for one in found if isinstance(one, AttentionTile)]


@pytest.mark.parametrize("depth", [80, 128, 256])
def test_many_queries_have_roles_on_hopper(depth: int) -> None:
    assert [tile.roles for tile in tiles(90, 8, depth)] == [True]
    for arch in (80, 89, 100, 120):
        assert not any(tile.roles for tile in tiles(arch, 8, depth))


@pytest.mark.parametrize(("keys", "groups"), [(2048, 3), (512, 0)])
def test_short_heads_of_many_keys_have_three_groups(keys: int, groups: int) -> None:
    *_, tile = tiles(90, 8, 64, keys=keys)
    assert tile.roles is bool(groups) and (not groups or tile.i == 64 * groups)


def test_few_queries_and_masks_have_none() -> None:
    assert not any(tile.roles for tile in tiles(90, 1, 128))
    assert not any(tile.roles for tile in tiles(90, 8, 512))
    mask = torch.ones(1024, 1024, dtype=torch.bool)
    assert not any(tile.roles for tile in tiles(90, 8, 128, mask))
