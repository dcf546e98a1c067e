"""Draws random models: a line is drawn by a rule and kept when eager can run it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import torch

from tools.fuzz_model import SCOPE, SIZES, Input, Line, Model, pruned
from tools.fuzz_rules import RULES, Draw, Known, Rule

LARGEST = 64.0  # larger values are not used: their rounding errors would hide mistakes
FLOATS = (torch.float32,) * 6 + (torch.float16, torch.bfloat16, torch.float64)
STATIC = (1, 2, 4, 6, 7, 8, 17)


def make(seed: int) -> Model:
    """The model of a seed."""
    rng = random.Random(seed)
    inputs = some_inputs(rng)
    draw, lines = Draw(rng, known_inputs(inputs, seed)), list[Line]()
    wanted = rng.randint(3, 16)
    for _ in range(400):
        if len(lines) < wanted:
            add_line(draw, lines, RULES)
    return pruned(Model(inputs, tuple(lines)))


def known_inputs(inputs: tuple[Input, ...], seed: int) -> list[Known]:
    """The first values, at the sizes of the example."""
    sizes = {name: size.example for name, size in SIZES.items()}
    return [Known(x.name, x.draw(sizes, seed + n), True) for n, x in enumerate(inputs)]


def some_inputs(rng: random.Random) -> tuple[Input, ...]:
    """One to three tensors of related shapes, weights and an index."""
    dynamic = rng.random() < 0.5
    choices: tuple[int | str, ...] = (*STATIC, "b", "s") if dynamic else STATIC
    dims = [rng.choice(choices) for _ in range(rng.randint(1, 4))]
    if dynamic and not any(isinstance(d, str) for d in dims):
        dims[0] = "b"
    dtype = rng.choice(FLOATS)
    inputs = [Input("x0", tuple(dims), dtype)]
    if rng.random() < 0.7:
        other = tuple(1 if rng.random() < 0.2 else d for d in dims[rng.randrange(len(dims)) :])
        inputs.append(
            Input("x1", other, rng.choice((dtype, torch.float32, torch.int32, torch.bool)))
        )
    if rng.random() < 0.7:
        index_dims = (rng.choice(STATIC),) * rng.randint(1, 2)
        inputs.append(Input("ids", index_dims, torch.int64))
    last = dims[-1]
    if isinstance(last, int):
        inputs.append(Input("w0", (rng.choice(STATIC), last), dtype, is_weight=True))
        inputs.append(Input("w1", (last,), dtype, is_weight=True))
    return tuple(inputs)


def add_line(
    draw: Draw, lines: list[Line], rules: Sequence[tuple[Rule, bool]], prefix: str = "v"
) -> None:
    """Draw a line and keep it if eager can run it and its values are tame."""
    rule, exact = draw.rng.choice(rules)
    drawn = rule(draw)
    if drawn is None:
        return
    expression, used = drawn
    scope = SCOPE | {k.name: k.tensor for k in draw.known}
    try:
        tensor = eval(expression, scope)
    except (RuntimeError, IndexError, TypeError, ValueError):
        return
    if not is_tame(tensor):
        return
    keeps = exact and all(k.exact for k in used)
    keeps = keeps and tensor.dtype not in (torch.float16, torch.bfloat16)
    name = f"{prefix}{len(lines)}"
    lines.append(Line(name, expression, tuple(k.name for k in used)))
    draw.known.append(Known(name, tensor, keeps))


def is_tame(tensor: Any) -> bool:
    if not isinstance(tensor, torch.Tensor) or tensor.numel() > 4000 or tensor.dim() > 5:
        return False
    return not tensor.numel() or bool(
        torch.isfinite(tensor.double()).all() and tensor.double().abs().max() <= LARGEST
    )
