"""Draws random models whose sizes data decide: selections, counts and repeats, and work on them."""

from __future__ import annotations

import random

import torch

from tools.fuzz_make import LARGEST, known_inputs
from tools.fuzz_model import SCOPE, Input, Line, Model, pruned

ROWS = (
    "{x}[{x}.sum(-1) > {t}]",
    "{x}[{x}[:, 0] <= {t}]",
    "{x}[: (n % 3)[0].item()]",
    "{x}[(n % 3)[1].item() :]",
    "torch.repeat_interleave({x}, (n % 3)[:1].expand({x}.shape[0]), dim=0)",
    "{x}.split((n % 2)[:1].tolist() + [{x}.shape[0] - (n % 2)[0].item()])[1]",
    "{x}[{x}[:, -1].argsort(stable=True)]",
    "torch.cat([{x}, {x}[{x}.amax(-1) > {t}]])",
)
FLAT = (
    "{x}[{x} > {t}]",
    "{x}.masked_select({x} < {t})",
    "torch.unique({x})",
    "torch.unique_consecutive({x})",
    "{x}.sort(stable=True)[0]",
    "{x}.cumsum(0)",
    "torch.cat([{x}, {x}[{x} > {t}]])",
)
FLATTEN = ("{x}[{x} > {t}]", "{x}.masked_select({x} != {t})", "{x}.sum(-1)", "{x}.amax(-1)")
COUNTS = ("({x} > {t}).nonzero()", "torch.where({x} > {t})[0]", "torch.bincount(n.abs() % 5)")
POINTWISE = ("{x} * 0.5 + 1", "{x}.abs() - {t}", "{x}.relu()", "torch.where({x} > {t}, {x}, 0.25)")
ENDS = ("{x}.sum(0)", "{x}.exp().sum()", "{x}.softmax(0)", "{x} @ w0")
_LINES = 6
_TRIES = 60


def make(seed: int) -> Model:
    """The model of a seed: rows of floats, integers, and a weight; lines that eager can run."""
    rng = random.Random(seed)
    columns = rng.choice((1, 2, 3, 7, 16))
    inputs = (
        Input("x0", ("b", columns), torch.float32),
        Input("n", (3,), torch.int64),
        Input("w0", (columns, rng.choice((1, 4))), torch.float32, is_weight=True),
    )
    known = {one.name: one.tensor for one in known_inputs(inputs, seed)}
    floats, lines = ["x0"], list[Line]()
    for _ in range(_TRIES):
        if len(lines) < _LINES:
            _add(rng, known, floats, lines)
    return pruned(Model(inputs, tuple(lines)))


def _add(
    rng: random.Random, known: dict[str, torch.Tensor], floats: list[str], lines: list[Line]
) -> None:
    """Draw a line; a value that has rounding errors is no operand of further ones."""
    name = rng.choice(floats)
    texts, is_exact = _texts(rng, known[name])
    text = rng.choice(texts).format(x=name, t=rng.choice((-0.5, 0, 0.125, 1)))
    try:
        value = eval(text, SCOPE | known)
    except (RuntimeError, IndexError, ValueError):
        return
    if value.numel() > 4000 or (value.numel() and value.double().abs().max() > LARGEST):
        return
    made = f"v{len(lines)}"
    lines.append(Line(made, text, tuple(one for one in known if one in text)))
    known[made] = value
    if is_exact and value.is_floating_point() and value.dim():
        floats.append(made)


def _texts(rng: random.Random, value: torch.Tensor) -> tuple[tuple[str, ...], bool]:
    """The rules for a value, and whether their results are exact."""
    by_rank: dict[int, tuple[tuple[str, ...], ...]] = {1: (FLAT, POINTWISE), 2: (ROWS, FLATTEN)}
    kinds: list[tuple[tuple[str, ...], bool]] = [
        *((texts, True) for texts in by_rank.get(value.dim(), ())),
        (POINTWISE, True),
        (COUNTS, True),
        (ENDS, False),
    ]
    return rng.choice(kinds)
