"""Errors about sizes that must be multiples: which dimension, who asks, what to declare."""

import math
import re
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim

import aotpack
from aotpack.errors import TraceError
from aotpack.trace.diagnostics.multiples import Declared, enough_multiple, multiple_of, told

N, B = Dim("n", min=2, max=64), Dim("b", min=2, max=64)
ASKS = {
    "reshape": lambda self, x: x.reshape(-1, 4) * 2,
    "view": lambda self, x: x.view(x.shape[0] // 4, 4, -1),
    "unflatten": lambda self, x: x.unflatten(0, (-1, 4)) * 2,
}


def compiled(forward: Any, x: torch.Tensor, shapes: Any, *, strict: bool = False) -> Any:
    model = type("Model", (nn.Module,), {"forward": forward})()
    how: Any = {"target": "interpreter", "strict": strict}
    return model, aotpack.compile(model, (x,), dynamic_shapes=(shapes,), **how)


@pytest.mark.parametrize("op", ASKS)
def test_rows_that_do_not_divide(op: str) -> None:
    told = (
        rf"n, dimension 0 of argument 'x', is a multiple of 4, as {op} asks: .*\n"
        rf"  at test_multiples.py:\d+: .*x\.{op}\((.|\n)*"
        r"Declare 4\*Dim\('n', min=2, max=16\) for dimension 0 of argument 'x', and pad"
    )
    with pytest.raises(TraceError, match=told):
        compiled(ASKS[op], torch.randn(8, 3), {0: N})


@pytest.mark.parametrize("op", ASKS)
def test_what_the_error_says_to_declare(op: str) -> None:
    shapes = {0: 4 * Dim("n", min=2, max=16)}
    model, packaged = compiled(ASKS[op], torch.randn(8, 3), shapes)
    for rows in (8, 12, 64):
        x = torch.randn(rows, 3)
        assert torch.equal(packaged(x), model(x))


def test_a_strict_export_has_the_line() -> None:
    told = r"n, dimension 0 .* multiple of 4: .*\n  at test_multiples.py:\d+: .*x\.reshape\(-1, 4\)"
    with pytest.raises(TraceError, match=told):
        compiled(ASKS["reshape"], torch.randn(8, 3), {0: N}, strict=True)


def test_a_layer_of_torch_has_no_line_but_a_name() -> None:
    told = (
        r"dimension 1 of argument 'input', is a multiple of 4, as pixel_shuffle asks: .*\nDeclare"
    )
    with pytest.raises(TraceError, match=told):
        aotpack.compile(
            nn.PixelShuffle(2),
            (torch.randn(1, 8, 3, 3),),
            dynamic_shapes=({1: N},),
            target="interpreter",
        )


@pytest.mark.parametrize("shapes", [{0: Dim.AUTO}, {0: Dim.DYNAMIC}])
def test_sizes_without_a_range(shapes: Any) -> None:
    told = (
        r"x_size0, dimension 0 of argument 'x', is a multiple of 4, as reshape asks: (.|\n)*"
        r"at test_multiples.py(.|\n)*Declare 4\*Dim\('x_size0', min=2\) for"
    )
    with pytest.raises(TraceError, match=told):
        compiled(ASKS["reshape"], torch.randn(8, 3), shapes)


@pytest.mark.parametrize(
    ("shapes", "places"),
    [
        ({0: B, 1: Dim("m", max=9)}, "b is dimension 0 of argument 'x'\n  m_ is dimension 1"),
        ({0: 2 * Dim("half", min=2, max=9)}, r"2\*half is dimension 0 of argument 'x'"),
    ],
)
def test_several_sizes_and_derived_ones_are_placed(shapes: Any, places: str) -> None:
    with pytest.raises(TraceError, match=rf"{places}(.|\n)*x\.reshape\(-1, 4\)"):
        compiled(ASKS["reshape"], torch.randn(8, 3), shapes)


MULTIPLES = [
    (["((3*n) % 4) == 0"], 4),
    (["(n % 2) == 0", "(n % 3) == 0", "n != 6"], 6),
    (["n == 4 or (n % 4) == 0"], 4),
    (["(n % (n // 4)) == 0", "(n // (n // 4)) == 4"], 4),
    (["((m*n) % 4) == 0", "(n % 2) == 0"], 2),
]
NO_MULTIPLES = [
    ["n == 8"],
    ["n must be == 8 in words", "n is 8"],
    ["n != 8"],
    ["((m*n) % 4) == 0"],
    ["(n % 4) == 1"],
    ["f(n) == 0"],
    [],
]


@pytest.mark.parametrize(("conditions", "multiple"), MULTIPLES)
def test_conditions_that_ask_a_multiple(conditions: list[str], multiple: int) -> None:
    found = multiple_of("n", conditions)
    assert found is not None
    assert found[0] == multiple


@pytest.mark.parametrize("conditions", NO_MULTIPLES)
def test_conditions_that_do_not(conditions: list[str]) -> None:
    assert multiple_of("n", conditions) is None


def test_what_else_is_said_stays_in_the_message() -> None:
    conditions = {"(n % 4) == 0": "", "n is 8": "", "torch said this in words": "  (remark)"}
    message = told([Declared("n", "x", 0)], conditions, {}, ["m.py:1: x.view(-1, 4)"])
    assert message.splitlines()[1:4] == [
        "  n is 8",
        "  torch said this in words  (remark)",
        "  n is dimension 0 of argument 'x'",
    ]


@pytest.mark.parametrize(
    ("conditions", "advice"),
    [
        (
            ["n >= 5", "n <= 5"],
            r"Leave dimension 0 of argument 'x' out .* where it is always 5, or",
        ),
        (
            ["n is 8"],
            r"Leave n out of the dynamic shapes where it is always 8, or change the line\.$",
        ),
        (["n >= 5", "n <= 6"], r"Declare Dim\('n', min=5, max=6\) for dimension 0 .*shapes\.$"),
    ],
)
def test_a_range_of_one_size_is_no_range_to_declare(conditions: list[str], advice: str) -> None:
    message = told([Declared("n", "x", 0, 1, 64)], dict.fromkeys(conditions, ""), {}, ["m.py:1: x"])
    assert re.match(advice, message.splitlines()[-1])


@pytest.mark.parametrize(
    ("forward", "hint"),
    [
        (lambda self, x: x / math.sqrt(x.shape[0]), r"n \*\* 0\.5 is right for all"),
        (lambda self, x: x * math.log(x.shape[0]), "those of torch take a tensor of it"),
        (lambda self, x: x[: int(0.6 * x.shape[0])], r"math\.floor\(0\.6 \* n\) and n \* 6 // 10"),
        (
            lambda self, x: x + torch.from_numpy(np.arange(x.shape[0])[:, None]),
            r"numpy does not compute with dynamic sizes",
        ),
        (lambda self, x: x + torch.tensor([[1.0]] * x.shape[0]), r"torch\.full\(\(n,\), 1\.0\)"),
        (lambda self, x: x.sum(0) / len(x), r"len\(x\) is .* x\.shape\[0\] is right for all"),
        (lambda self, x: x * float(x.shape[0]), r"float\(n\) are .* n itself is right for all"),
        (lambda self, x: x * int(x.size(0)), r"int\(n\) and .* n itself is right for all"),
        (lambda self, x: sum(x[i] for i in range(x.shape[0])), r"loop over range\(n\) .* scan"),
    ],
)
def test_numbers_of_sizes_are_told_apart(forward: Any, hint: str) -> None:
    with pytest.raises(TraceError, match=hint):
        compiled(forward, torch.randn(10, 4), {0: N})


@pytest.mark.parametrize(
    ("condition", "least"),
    [
        ("1 < math.trunc(0.29999999999999999*torch.sym_float(n))", 7),
        ("math.floor(0.5*torch.sym_float(n)) >= 4", 8),
        ("math.ceil(n / 2) > 3", 7),
    ],
)
def test_ends_of_rounded_sizes(condition: str, least: int) -> None:
    message = told([Declared("n", "x", 0, 2, 64)], {condition: ""}, {}, ["m.py:1: x"])
    assert f"n >= {least}: n is dimension 0" in message
    assert f"Declare Dim('n', min={least}, max=64)" in message


def test_the_least_size_of_a_range_without_an_end() -> None:
    told = r"n >= 3: n is dimension 0 of argument 'x'\n(.|\n)*Declare Dim\('n', min=3\) for"
    with pytest.raises(TraceError, match=told):
        compiled(
            lambda self, x: x * 2 if x.shape[0] - 1 != 1 else x,
            torch.randn(6, 3),
            {0: Dim("n", min=2)},
        )


def test_other_functions_have_no_end() -> None:
    condition = "math.exp(n) > 3"
    message = told([Declared("n", "x", 0, 2, 64)], {condition: ""}, {}, ["m.py:1: x"])
    assert condition in message and "Declare" not in message


def test_a_multiple_that_is_enough() -> None:
    declared = Declared("n", "x", 0, 4, 60)
    assert enough_multiple(declared, ["2*(n // 4) == (n // 2)", "m == 3"]) == 4
    assert enough_multiple(declared, ["n <= 40", "2*(n // 4) == (n // 2)"]) is None
    assert enough_multiple(declared, ["2*(n // 4) == (n // 2)", "n == m"]) is None
    assert enough_multiple(declared, ["m == 3"]) is None


def test_single_sizes_that_are_left_out_are_no_multiple_to_declare() -> None:
    with pytest.raises(TraceError, match=r"n != 8(.|\n)*Accepted is a model that is right for all"):
        compiled(
            lambda self, x: x * 2 if tuple(x.shape) == (8, 4) else x, torch.randn(6, 4), {0: N}
        )


def test_a_sparse_tensor_is_told_in_words() -> None:
    with pytest.raises(TraceError, match=r"sparse tensors are not packaged: keep them dense"):
        compiled(lambda self, x: x.to_sparse().to_dense(), torch.randn(6, 4), {0: N})
