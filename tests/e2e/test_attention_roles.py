"""Attention whose warps have roles, on a GPU: the form that Triton's interpreter cannot run.

tests/render/triton/test_attention_roles.py shows that its text is of the same values as the plain
one, which the interpreter runs.
"""

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from aotpack.emit import write_package
from aotpack.ir.kernels.tiles import AttentionTile
from aotpack.pipeline import Build, BuildOptions, Source
from aotpack.runtime import load
from aotpack.target import Target
from tests.render.triton.test_attention_roles import Attended

from .law import Tolerance, accuracy_complaint

H100 = (Target("cuda", 90),)


@dataclass(frozen=True, slots=True)
class Case:
    """Sizes of attention; ``shared`` are the heads of keys."""

    batch: int
    queries: int
    keys: int
    heads: int
    shared: int
    depth: int
    causal: bool = False
    dtype: torch.dtype = torch.bfloat16

    def factors(self) -> tuple[torch.Tensor, ...]:
        """Queries, keys and values, heads beside each other."""
        sizes = ((self.queries, self.heads), (self.keys, self.shared), (self.keys, self.shared))
        return tuple(
            torch.randn(self.batch, count, heads, self.depth).to(self.dtype)
            for count, heads in sizes
        )


CASES = (
    Case(1, 1009, 1031, 32, 32, 128),
    Case(3, 1027, 1027, 12, 4, 80, causal=True),
    Case(4, 2049, 2111, 9, 9, 40, dtype=torch.float16),
    Case(3, 4099, 4099, 6, 2, 64, causal=True),
    Case(5, 1025, 1153, 8, 8, 112, dtype=torch.float16),
    Case(2, 1100, 1100, 16, 4, 256, causal=True),
    Case(1, 30000, 3, 2, 1, 96),
)


def package(case: Case, folder: Path) -> list[AttentionTile]:
    """Build a package; the tiles of its attention."""
    made = Build(Source(Attended(case.causal), case.factors()), BuildOptions(H100, golden=0))
    write_package(made.precompiled, folder)
    variants = (one for kernel in made.scheduled.schedule.kernels for one in kernel.variants)
    tiles = (one.tile for one in variants if one.takes(90))
    return [one for one in tiles if isinstance(one, AttentionTile)]


@pytest.mark.gpu
@pytest.mark.parametrize("case", CASES, ids=str)
def test_roles_agree_with_eager(case: Case, tmp_path: Path) -> None:
    assert any(tile.roles for tile in package(case, tmp_path))
    args, model = [x.cuda() for x in case.factors()], Attended(case.causal)
    ours = load(tmp_path, 0)
    exact, eager = model(*(x.double() for x in args)).cpu(), model(*args).cpu()
    for _ in range(3):  # launches, a recording, a graph
        found = ours(*args).cpu()
        assert accuracy_complaint(found, eager, exact, Tolerance()) is None
