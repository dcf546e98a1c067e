"""Expressions of sizes as numbers are those that sympy gives."""

import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._sympy.functions import FloorDiv, Mod

from aotpack.trace.diagnostics.evaluated import evaluated, holds_for

N, M = sympy.symbols("n m", integer=True, positive=True)

_leaves = st.sampled_from([N, M]) | st.integers(-9, 9).map(sympy.Integer)
_divisors = st.integers(1, 9).map(sympy.Integer) | st.just(M)


def _larger(inner: st.SearchStrategy[sympy.Expr]) -> st.SearchStrategy[sympy.Expr]:
    return st.one_of(
        st.tuples(inner, inner).map(lambda both: both[0] + both[1]),
        st.tuples(inner, inner).map(lambda both: both[0] * both[1]),
        st.tuples(inner, _divisors).map(lambda both: FloorDiv(*both)),
    )


@given(st.recursive(_leaves, _larger, max_leaves=6), st.integers(1, 40))
def test_numbers_are_those_of_sympy(expression: sympy.Expr, m: int) -> None:
    sizes = np.arange(1, 9)
    found = evaluated(expression, {N: sizes, M: m})
    if found is not None:  # sympy may have made another function of it
        exact = [int(expression.subs({N: int(n), M: m})) for n in sizes]
        assert np.broadcast_to(found, sizes.shape).tolist() == exact


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        (2 * FloorDiv(N, 2) <= N, True),
        (sympy.Eq(Mod(6 * N, 3), 0, evaluate=False), True),
        (sympy.Ne(N, 7), False),
        (N > M, False),
        (sympy.Max(N, M) >= N, None),
        (sympy.Lt(N * 2**61, M * 2**61, evaluate=False), None),  # beyond 62 bits
        (sympy.true, None),
    ],
    ids=str,
)
def test_relations_hold_for_all_or_are_not_evaluated(
    condition: sympy.Basic, holds: bool | None
) -> None:
    assert holds_for(condition, {N: np.arange(1, 100), M: 50}) is holds


def test_a_division_by_zero_is_one() -> None:
    with pytest.raises(ZeroDivisionError):
        holds_for(FloorDiv(N, N - M) < 9, {N: np.arange(1, 9), M: 5})
