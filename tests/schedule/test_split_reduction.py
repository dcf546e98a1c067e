"""Long reductions with few results: two ordinary reductions that agree with the whole one."""

import numpy as np
import pytest

from aotpack.ir.evaluate import evaluate
from aotpack.ir.nodes import Program, Reduction
from aotpack.ir.verify import verify
from aotpack.schedule.split_reduction import split_reductions

from .programs import Writer, load


def whole(kind: str, count: int, length: int, *, columns: bool = False) -> Program:
    w = Writer(())
    x = w.input("x", *((length, count) if columns else (count, length)))
    value = (lambda i, r: load(x, r, i)) if columns else (lambda i, r: load(x, i, r))
    return w.program(w.reduction("y", [count], [length], value, kind=kind))


@pytest.mark.row("S:B9", "S:B11", "S:inv27")
@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("kind", ["sum", "max", "logsumexp"])
def test_halves_agree_with_the_whole(kind: str, columns: bool) -> None:
    program = whole(kind, 4, 2**18, columns=columns)
    split = split_reductions(program)
    verify(split)
    assert [type(o) for o in split.operations] == [Reduction, Reduction]
    shape = (2**18, 4) if columns else (4, 2**18)
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    results = [evaluate(p, {"x": x}, {}, {})[p.outputs[0]] for p in (program, split)]
    np.testing.assert_allclose(*results, rtol=1e-5, atol=1e-3)


@pytest.mark.row("S:B9")
@pytest.mark.parametrize(
    ("kind", "count", "length"),
    [
        ("sum", 4, 2**16),  # too little work for a second launch
        ("sum", 4096, 4096),  # enough rows to fill the machine
        ("sum", 4, 1_048_583),  # a prime has no equal parts
        ("argmax", 4, 2**18),  # positions need the whole row
    ],
)
def test_left_whole(kind: str, count: int, length: int) -> None:
    program = whole(kind, count, length)
    assert split_reductions(program) is program
