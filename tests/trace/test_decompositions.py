"""Taking apart by what is remembered, beside torch's own public way."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from aotpack.lower import LOWERINGS
from aotpack.trace.capture import decompose
from aotpack.trace.decompositions import (
    NOT_TAKEN_APART,
    composites_told,
    decompositions,
    fake_rules,
)
from aotpack.trace.registered import RegisteredLowerings

FEWER = frozenset(LOWERINGS) - {"aten.linear.default", "aten.layer_norm.default"}


class Composites(nn.Module):
    """Composite operators that are kept, are taken apart, and have a decomposition in Python."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = self.norm(self.layer(x))
        z = F.pad(F.interpolate(y, scale_factor=2.0), (1, 1)).std(-1)
        z += torch.einsum("bij,bkj->bk", y, x)
        return z.chunk(2, 1)[0], torch.outer(z[0], z[1]).clip(0, 1), x.movedim(0, 1).diff()


@pytest.fixture(scope="module")
def program() -> torch.export.ExportedProgram:
    with torch.no_grad():
        return torch.export.export(Composites().eval(), (torch.randn(2, 3, 8),))


def _public(
    program: torch.export.ExportedProgram, whole: frozenset[str] | None
) -> torch.export.ExportedProgram:
    table = {}
    if whole is not None:
        table = {**torch._decomp.decomposition_table, **torch.export.default_decompositions()}
        kept = whole | NOT_TAKEN_APART
        table = {operator: made for operator, made in table.items() if str(operator) not in kept}
    with torch.no_grad(), RegisteredLowerings():
        return program.run_decompositions(table)


@pytest.mark.parametrize("whole", [None, FEWER, frozenset(LOWERINGS)], ids=["none", "more", "ours"])
def test_programs_are_those_of_run_decompositions(
    program: torch.export.ExportedProgram, whole: frozenset[str] | None
) -> None:
    ours, public = decompose(program, name="m", whole=whole), _public(program, whole)
    assert str(ours.graph) == str(public.graph)
    assert ours.graph_signature == public.graph_signature


def test_few_operators_are_told_by_name() -> None:
    composite, _ = decompositions(frozenset(LOWERINGS))
    everything, _ = decompositions(None)
    assert len(composite) < len(everything) / 2
    assert torch.ops.aten.linear.default in composite
    assert torch.ops.aten.einsum.default not in composite


def test_operators_are_afterwards_what_they_were() -> None:
    linear, whole = torch.ops.aten.linear.default, frozenset(LOWERINGS)
    before = dict(linear.py_kernels)
    for _ in range(2):
        with pytest.raises(KeyError), composites_told(whole):
            assert dict(linear.py_kernels) != before and linear in fake_rules
            raise KeyError
        assert dict(linear.py_kernels) == before and linear not in fake_rules
