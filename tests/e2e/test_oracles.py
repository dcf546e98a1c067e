"""Small models: the evaluator, before and after scheduling, and every target obey the law."""

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch import nn

from tests.c_flags import shipped

from .cases import CASES, Case
from .law import Answers, accuracy_complaint, call_complaints
from .oracle import Compiled, WrongAnswer, agree, compile_all

pytestmark = pytest.mark.usefixtures("as_shipped")


@pytest.mark.row("C:inv8", "C:inv13", "C:inv19", "C:inv21", "C:inv29", "C:I1")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_oracles_agree(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels of fixed sizes are compiled as those that are shipped, others with little effort."""
    torch.manual_seed(0)
    if case.dynamic:
        monkeypatch.setenv("AOTPACK_CFLAGS", f"-Og {shipped()}")
    module = case.make()
    args = case.args()
    compiled = compile_all(module, args, dynamic_shapes=case.dynamic)
    agree(compiled, args)
    for call in case.calls:
        agree(compiled, call())


def test_law_accepts_eagers_own_error() -> None:
    reference = torch.ones(4, dtype=torch.float64)
    eager = torch.full((4,), 1.001)
    assert accuracy_complaint(torch.full((4,), 0.9985), eager, reference) is None


@pytest.mark.parametrize(
    ("ours", "words"),
    [
        (torch.tensor([1.0, 2.01]), "off by 0.01"),
        (torch.tensor([1.0, float("nan")]), "off by nan"),
        (torch.tensor([1.0]), "the shape is"),
    ],
)
def test_law_refuses_wrong_answers(ours: torch.Tensor, words: str) -> None:
    eager = torch.tensor([1.0, 2.0])
    complaint = accuracy_complaint(ours, eager, eager.double())
    assert complaint is not None and words in complaint


def test_law_refuses_a_number_for_nan() -> None:
    eager = torch.tensor([float("nan"), 1.0])
    complaint = accuracy_complaint(torch.tensor([0.0, 1.0]), eager, eager.double())
    assert complaint is not None and "NaN" in complaint


def test_law_refuses_any_other_integer() -> None:
    eager = torch.tensor([1, 2])
    complaint = accuracy_complaint(torch.tensor([1, 3]), eager, eager)
    assert complaint == "1 of 2 elements differ"


class Lucky(nn.Module):
    """Exact at one, off by 1e-6 below it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + (x < 1) * 1e-6 if x.dtype is torch.float32 else x


@pytest.fixture(scope="module")
def lucky() -> Compiled:
    return compile_all(Lucky(), (torch.ones(2),), targets=())


def off_by(lucky: Compiled, error: float) -> Compiled:
    """With a model that is off by so much everywhere."""
    return replace(lucky, models={"fake": lambda x: x + error})  # type: ignore[dict-item]


def test_where_eager_is_exact_by_chance_its_usual_error_is_the_measure(lucky: Compiled) -> None:
    agree(off_by(lucky, 1e-6), (torch.ones(2),))


@pytest.mark.parametrize("error", [3e-6, math.nan])
def test_an_error_above_eagers_usual_one_is_refused(lucky: Compiled, error: float) -> None:
    with pytest.raises(WrongAnswer, match=r"the target fake, output 0 .*: off by .*off by 0\)"):
        agree(off_by(lucky, error), (torch.ones(2),))


def test_each_result_of_a_call_is_judged_over_draws() -> None:
    """Where eager is exact in a call, its usual error counts; what is wrong stays so."""
    x = torch.linspace(1, 2, 64)

    def answers(given: Sequence[torch.Tensor]) -> Answers:
        (near,) = given
        exact = near.double().exp()
        eager = exact.float() if near is x else near.exp() * (1 + 3e-7)
        infinite = torch.where(near > 1.5, math.inf, eager)
        return (
            [near.exp() * (1 + 3e-7), near.exp() * (1 + 1e-5), infinite],
            [eager] * 3,
            [exact] * 3,
        )

    ours, eager, exact = (rows[0] for rows in answers((x,)))
    assert accuracy_complaint(ours, eager, exact) is not None
    right, wrong, infinite = call_complaints((x,), answers)
    assert right is None
    assert wrong is not None
    assert wrong.startswith("off by")
    assert infinite is not None
