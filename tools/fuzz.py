"""Random models against eager: python -m tools.fuzz --seeds 0:100

Each seed makes one model of torch operators, as Python text; it is compiled for the interpreter, and
the evaluator and the interpreter must give eager's answer. What fails is shrunk by dropping lines
and printed. Refusals (TraceError, UnsupportedError) are counted by message.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import torch
from torch import nn
from torch.export import Dim

import aotpack.schedule
from aotpack.errors import TraceError, UnsupportedError
from aotpack.ir.access import Strides
from aotpack.ir.nodes import Program, Scan
from aotpack.ir.schedule import (
    AttentionTile,
    Kernel,
    MatmulTile,
    PlaneTile,
    PointwiseTile,
    ReductionTile,
    Variant,
)
from aotpack.schedule import online_softmax, plane, split_reduction
from aotpack.schedule.tile import choose_tiles
from tests.e2e.oracle import Tolerance, agree, compile_all

LARGEST = 64.0  # values beyond are not built on: their rounding errors would hide mistakes
SLACK = Tolerance(factor=16, floor=1.0)
DYNAMIC = {"b": (3, (1, 7, 2)), "s": (5, (2, 11, 1))}  # name -> (example, sizes of further calls)
FLOATS = (torch.float32,) * 6 + (torch.float16, torch.bfloat16, torch.float64)
STATIC = (1, 2, 4, 6, 7, 8, 17)
SMALL_NUMBERS = (
    (split_reduction, "LONGEST_ROW", 3),
    (split_reduction, "SHORTEST_ROW_PART", 2),
    (split_reduction, "SHORTEST_COLUMN_PART", 2),
    (online_softmax, "LONGEST_ROW", 3),
    (plane, "SHORTEST_SIDE", 2),
)


@dataclass(frozen=True, slots=True)
class Input:
    """A tensor the model is given, or a weight of it; dimensions are numbers or names of sizes."""

    name: str
    dims: tuple[int | str, ...]
    dtype: torch.dtype
    is_weight: bool = False

    def draw(self, sizes: dict[str, int], seed: int) -> torch.Tensor:
        """Multiples of 1/8 up to 2, so that sums and comparisons are exact."""
        generator = torch.Generator().manual_seed(seed)
        shape = [sizes[d] if isinstance(d, str) else d for d in self.dims]
        numbers = torch.randint(-16, 17, shape, generator=generator)
        if self.dtype is torch.bool:
            return numbers > 0
        return (
            (numbers / 8).to(self.dtype) if self.dtype.is_floating_point else numbers.to(self.dtype)
        )


@dataclass(frozen=True, slots=True)
class Line:
    """``name = expression``; ``uses`` are the names in it."""

    name: str
    expression: str
    uses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Model:
    """A random model. Its outputs are what no line uses."""

    inputs: tuple[Input, ...]
    lines: tuple[Line, ...]

    @property
    def outputs(self) -> tuple[str, ...]:
        used = {name for line in self.lines for name in line.uses}
        return tuple(line.name for line in self.lines if line.name not in used)

    @property
    def source(self) -> str:
        """The text of ``forward``."""
        given = [x.name for x in self.inputs if not x.is_weight]
        body = [f"{x.name} = self.{x.name}" for x in self.inputs if x.is_weight]
        body += [f"{line.name} = {line.expression}" for line in self.lines]
        body.append(f"return ({', '.join(self.outputs)},)")
        return f"def forward(self, {', '.join(given)}):\n" + "".join(f"    {x}\n" for x in body)

    @property
    def is_dynamic(self) -> bool:
        return any(isinstance(d, str) for x in self.inputs for d in x.dims)


# --- making -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Known:
    """A value so far. ``exact`` says that it has no rounding error, so decisions on it are safe."""

    name: str
    tensor: torch.Tensor
    exact: bool


@dataclass(slots=True)
class Maker:
    """Draws lines and keeps those that eager can run."""

    rng: random.Random
    known: list[Known]
    lines: list[Line]

    def pick(self, accept: Callable[[Known], bool]) -> Known | None:
        """One of the values so far, later ones more often."""
        good = [k for k in self.known if accept(k)]
        return good[min(len(good) - 1, int(len(good) * self.rng.random() ** 0.6))] if good else None

    def try_line(self) -> None:
        rule, exact = self.rng.choice(RULES)
        drawn = rule(self)
        if drawn is None:
            return
        expression, used = drawn
        name = f"v{len(self.lines)}"
        scope = {"torch": torch, "F": nn.functional} | {k.name: k.tensor for k in self.known}
        try:
            tensor = eval(expression, scope)
        except (RuntimeError, IndexError, TypeError, ValueError):
            return
        if not _is_tame(tensor):
            return
        keeps = (
            exact
            and all(k.exact for k in used)
            and tensor.dtype not in (torch.float16, torch.bfloat16)
        )
        self.lines.append(Line(name, expression, tuple(k.name for k in used)))
        self.known.append(Known(name, tensor, keeps))


def _is_tame(tensor: Any) -> bool:
    if not isinstance(tensor, torch.Tensor) or tensor.numel() > 4000 or tensor.dim() > 5:
        return False
    return not tensor.numel() or bool(
        torch.isfinite(tensor.double()).all() and tensor.double().abs().max() <= LARGEST
    )


Drawn = "tuple[str, tuple[Known, ...]] | None"
Rule = Callable[[Maker], Any]


def _is_float(k: Known) -> bool:
    return k.tensor.is_floating_point()


def _unary(texts: Sequence[str], accept: Callable[[Known], bool]) -> Rule:
    def rule(m: Maker) -> Any:
        x = m.pick(accept)
        return None if x is None else (m.rng.choice(texts).format(x=x.name), (x,))

    return rule


def _binary(texts: Sequence[str], accept: Callable[[Known], bool]) -> Rule:
    def rule(m: Maker) -> Any:
        x = m.pick(accept)
        if x is None:
            return None
        y = m.pick(lambda k: accept(k) and _broadcasts(x.tensor, k.tensor))
        return None if y is None else (m.rng.choice(texts).format(x=x.name, y=y.name), (x, y))

    return rule


def _broadcasts(a: torch.Tensor, b: torch.Tensor) -> bool:
    pairs = zip(reversed(a.shape), reversed(b.shape), strict=False)
    return all(p == q or 1 in (p, q) for p, q in pairs)


def _along(texts: Sequence[str], accept: Callable[[Known], bool]) -> Rule:
    """Operators with a dimension ``{d}`` (and another ``{e}``), a small number ``{n}`` < its size."""

    def rule(m: Maker) -> Any:
        x = m.pick(lambda k: k.tensor.dim() > 0 and accept(k))
        if x is None:
            return None
        d = m.rng.randrange(x.tensor.dim())
        e = m.rng.randrange(x.tensor.dim())
        n = m.rng.randrange(max(1, x.tensor.shape[d]))
        values = {"x": x.name, "d": d, "e": e, "n": n, "keep": m.rng.choice(("True", "False"))}
        return m.rng.choice(texts).format(**values), (x,)

    return rule


def _where(m: Maker) -> Any:
    c = m.pick(lambda k: k.tensor.dtype is torch.bool)
    x = m.pick(lambda k: c is not None and _broadcasts(c.tensor, k.tensor))
    if c is None or x is None:
        return None
    y = m.pick(lambda k: all(_broadcasts(t.tensor, k.tensor) for t in (c, x)))
    if y is None:
        return f"torch.where({c.name}, {x.name}, 0.5)", (c, x)
    return f"torch.where({c.name}, {x.name}, {y.name})", (c, x, y)


def _joined(m: Maker) -> Any:
    x = m.pick(lambda k: k.tensor.dim() > 0)
    if x is None:
        return None
    d = m.rng.randrange(x.tensor.dim())

    def fits(k: Known) -> bool:
        a, b = list(x.tensor.shape), list(k.tensor.shape)
        return len(a) == len(b) and a[:d] + a[d + 1 :] == b[:d] + b[d + 1 :]

    y = m.pick(fits)
    if y is None:
        return None
    if y.tensor.shape == x.tensor.shape and m.rng.random() < 0.4:
        return f"torch.stack([{x.name}, {y.name}], {d})", (x, y)
    return f"torch.cat([{x.name}, {y.name}], {d})", (x, y)


def _product(m: Maker) -> Any:
    x = m.pick(lambda k: _is_float(k) and k.tensor.dim() >= 2)
    if x is None:
        return None
    columns, rank = x.tensor.shape[-1], x.tensor.dim()

    def fits(k: Known, side: int) -> bool:
        t = k.tensor
        same = t.dtype is x.tensor.dtype and t.dim() >= 2 and t.shape[side] == columns
        return same and (t.dim() == 2 or (t.dim() == rank and t.shape[:-2] == x.tensor.shape[:-2]))

    y = m.pick(lambda k: fits(k, -2))
    if y is not None and m.rng.random() < 0.5:
        return f"({x.name} @ {y.name}) / 4", (x, y)
    y = m.pick(lambda k: fits(k, -1))
    if y is None:
        return None
    if y.tensor.dim() == 2 and m.rng.random() < 0.6:
        bias = m.pick(
            lambda k: k.tensor.dtype is x.tensor.dtype and k.tensor.shape == y.tensor.shape[:1]
        )
        if bias is not None:
            return f"F.linear({x.name}, {y.name}, {bias.name}) / 4", (x, y, bias)
        return f"F.linear({x.name}, {y.name}) / 4", (x, y)
    return f"({x.name} @ {y.name}.transpose(-1, -2)) / 4", (x, y)


def _attention(m: Maker) -> Any:
    x = m.pick(lambda k: _is_float(k) and k.tensor.dim() == 3)
    if x is None:
        return None

    def fits(k: Known) -> bool:
        t = k.tensor
        return (
            t.dtype is x.tensor.dtype
            and t.dim() == 3
            and t.shape[0] == x.tensor.shape[0]
            and (t.shape[2] == x.tensor.shape[2])
        )

    y = m.pick(fits)
    z = m.pick(lambda k: y is not None and fits(k) and k.tensor.shape[1] == y.tensor.shape[1])
    if y is None or z is None:
        return None
    q, k, v = (f"{t.name}.unsqueeze(1)" for t in (x, y, z))
    causal = y.tensor.shape[1] == x.tensor.shape[1] and m.rng.random() < 0.5
    return f"F.scaled_dot_product_attention({q}, {k}, {v}, is_causal={causal}).squeeze(1)", (
        x,
        y,
        z,
    )


def _normed(m: Maker) -> Any:
    x = m.pick(lambda k: _is_float(k) and k.tensor.dim() > 0 and k.tensor.shape[-1] > 2)
    if x is None:
        return None
    if m.rng.random() < 0.3:
        return f"F.rms_norm({x.name}, ({x.name}.shape[-1],), None, 0.1)", (x,)
    shape = x.tensor.shape[-1:]
    w = m.pick(lambda k: k.tensor.dtype is x.tensor.dtype and k.tensor.shape == shape)
    if w is None:
        return f"F.layer_norm({x.name}, ({x.name}.shape[-1],), None, None, 0.1)", (x,)
    return f"F.layer_norm({x.name}, ({x.name}.shape[-1],), {w.name}, {w.name}, 0.1)", (x, w)


def _indexed(m: Maker) -> Any:
    x = m.pick(lambda k: k.tensor.dim() > 0 and k.tensor.shape[0] > 0)
    i = m.pick(lambda k: k.tensor.dtype is torch.int64 and k.exact and k.tensor.dim() in (1, 2))
    if x is None or i is None:
        return None
    d = m.rng.randrange(x.tensor.dim())
    index = f"({i.name} % {x.name}.shape[{d}])"
    choice = m.rng.random()
    if choice < 0.4 and i.tensor.dim() == 1:
        return f"{x.name}.index_select({d}, {index})", (x, i)
    if choice < 0.6 and i.tensor.dim() == x.tensor.dim():
        return f"{x.name}.gather({d}, {index})", (x, i)
    return f"{x.name}[{':, ' * d}{index}]", (x, i)


def _flattened(m: Maker) -> Any:
    x = m.pick(lambda k: k.tensor.dim() >= 2)
    if x is None:
        return None
    start = m.rng.randrange(x.tensor.dim() - 1)
    end = m.rng.randrange(start + 1, x.tensor.dim())
    return f"{x.name}.flatten({start}, {end})", (x,)


def _split(m: Maker) -> Any:
    """A dimension in two, or the last two exchanged by a reshape that is no view."""
    x = m.pick(lambda k: k.tensor.dim() > 0 and any(s % 2 == 0 and s for s in k.tensor.shape))
    if x is None:
        return None
    d = m.rng.choice([i for i, s in enumerate(x.tensor.shape) if s % 2 == 0 and s])
    if m.rng.random() < 0.5:
        return f"{x.name}.unflatten({d}, (2, -1))", (x,)
    return f"{x.name}.unflatten({d}, (-1, 2)).transpose({d}, {d + 1}).flatten({d}, {d + 1})", (x,)


def _windowed(m: Maker) -> Any:
    """Pools and convolutions over the last dimensions; a weight may serve as filters."""
    x = m.pick(lambda k: _is_float(k) and k.tensor.dim() == 3 and k.tensor.shape[-1] >= 4)
    if x is None:
        return None
    pools = ("F.max_pool1d({x}, 2)", "F.avg_pool1d({x}, 3, 1, 1)", "F.max_pool1d({x}, 3, 2, 1)")
    w = m.pick(
        lambda k: k.tensor.dtype is x.tensor.dtype
        and k.tensor.dim() == 2
        and k.tensor.shape[1] == x.tensor.shape[1]
    )
    if w is not None and m.rng.random() < 0.7:
        spread = m.rng.choice(("", ", padding=1", ", stride=2"))
        filters = f"{w.name}.unsqueeze(-1).expand(-1, -1, 2)"
        return f"F.conv1d({x.name}, {filters}, None{spread}) / 4", (x, w)
    return m.rng.choice(pools).format(x=x.name), (x,)


def _masked(m: Maker) -> Any:
    x = m.pick(lambda k: _is_float(k) and k.tensor.dim() >= 2)
    if x is None:
        return None
    c = m.pick(lambda k: _is_bool(k) and k.tensor.shape == x.tensor.shape)
    if c is not None and m.rng.random() < 0.7:
        return f"{x.name}.masked_fill({c.name}, -2.0)", (x, c)
    return m.rng.choice(("{x}.tril()", "{x}.triu(1)", "{x}.tril(-1)")).format(x=x.name), (x,)


def _assigned(m: Maker) -> Any:
    """A slice or an element of a copy is replaced."""
    x = m.pick(lambda k: k.tensor.dim() > 0 and all(k.tensor.shape))
    if x is None:
        return None
    d = m.rng.randrange(x.tensor.dim())
    n = m.rng.randrange(x.tensor.shape[d])
    source = f"{x.name}.select({d}, 0)"
    if m.rng.random() < 0.5:
        return f"torch.select_scatter({x.name}, {source}, {d}, {n})", (x,)
    part = f"{x.name}.narrow({d}, 0, 1)"
    return f"torch.slice_scatter({x.name}, {part}, {d}, {n}, {n + 1})", (x,)


def _squeezed(m: Maker) -> Any:
    """Never a dynamic dimension: with size 1 eager would drop what export kept."""
    x = m.pick(lambda k: 1 in k.tensor.shape)
    return None if x is None else (f"{x.name}.squeeze({list(x.tensor.shape).index(1)})", (x,))


def _any(k: Known) -> bool:
    return True


def _is_exact_float(k: Known) -> bool:
    return k.exact and _is_float(k)


def _is_number(k: Known) -> bool:
    return k.tensor.dtype is not torch.bool


def _is_exact_number(k: Known) -> bool:
    return k.exact and _is_number(k)


def _is_integer(k: Known) -> bool:
    return not _is_float(k) and _is_number(k)


def _is_bool(k: Known) -> bool:
    return k.tensor.dtype is torch.bool


SMOOTH = (
    "{x}.tanh()", "{x}.sigmoid()", "F.gelu({x})", "F.silu({x})", "({x} / 4).exp()", "{x}.sin()",
    "({x} * {x} + 1).sqrt()", "({x}.abs() + 1).log()", "1 / ({x} * {x} + 1)", "{x} * 0.5 - 1",
    "F.softplus({x})", "({x}.abs() + 0.5).rsqrt()", "{x}.clamp(-1, 1.5)", "{x}.erf()",
)  # fmt: skip
RARE = (
    "{x}.cos()", "{x}.atan()", "F.mish({x})", "F.elu({x})", "F.leaky_relu({x}, 0.1)", "{x}.expm1() / 8",
    "F.gelu({x}, approximate='tanh')", "({x}.abs() + 0.1).pow(0.7)", "{x}.square() / 4", "{x}.sinh() / 8",
    "F.hardswish({x})", "torch.nan_to_num({x})", "({x} / 9).asin().nan_to_num(0.0)", "F.logsigmoid({x})",
    "{x}.log1p().nan_to_num(0.0, 1.0, -1.0)", "F.normalize({x}, dim=0, eps=0.1)", "{x}.diff(dim=0)",
)  # fmt: skip
EXACT = ("{x}.relu()", "-{x}", "{x}.abs()", "{x} + 1", "{x} * 2", "{x}.clamp(max=1)")
DECISIONS = (
    "{x} > 0",
    "{x}.floor()",
    "{x}.round()",
    "{x}.sign()",
    "{x} == 1",
    "{x}.long()",
    "{x}.bool()",
)
VIEWS = (
    "{x}.transpose({d}, {e})", "{x}.unsqueeze({d})", "{x}.flip({d})", "{x}.roll({n}, {d})",
    "{x}.select({d}, {n})", "{x}.narrow({d}, {n}, 1)", "{x}.movedim({d}, {e})",
    "{x}[{n}:]", "{x}.repeat_interleave(2, {d})", "{x}.contiguous()",
    "F.pad({x}, (1, 2), value=0.5)", "F.pad({x}, (0, 0, 2, 1))", "{x}.unsqueeze({d}).expand(*{x}.shape[:{d}], 3, *{x}.shape[{d}:])",
)  # fmt: skip
SUMS = (
    "{x}.sum({d}, keepdim={keep}) / 4", "{x}.mean({d}, keepdim={keep})", "{x}.softmax({d})",
    "{x}.log_softmax({d})", "{x}.logsumexp({d}, keepdim={keep})", "({x} / 4).cumsum({d})",
    "{x}.var({d}, correction=0, keepdim={keep})", "{x}.mean()", "{x}.sum(({d},)) / 8",
    "{x}.norm(dim={d}, keepdim={keep}) / 4", "({x} / 2).prod({d})",
)  # fmt: skip
SELECTIONS = (
    "{x}.amax({d}, keepdim={keep})", "{x}.amin({d}, keepdim={keep})", "{x}.max({d})[0]", "{x}.amax()",
)  # fmt: skip
INDICES = (
    "{x}.argmax({d}, keepdim={keep})",
    "{x}.argmin({d})",
    "{x}.cummax({d})[1]",
    "({x} > 0).sum({d})",
)
BITS = ("{x} & {y}", "{x} | {y}", "{x} ^ {y}")

# (rule, whether an exact operand gives an exact result), as often as listed
RULES: list[tuple[Rule, bool]] = [
    *[(_unary(SMOOTH, _is_float), False)] * 3,
    (_unary(EXACT, _is_number), True),
    (_unary(DECISIONS, _is_exact_float), True),
    *[
        (
            _binary(("{x} + {y}", "{x} - {y}", "{x} * {y}", "torch.maximum({x}, {y})"), _is_number),
            True,
        )
    ]
    * 4,
    (_binary(("{x} / ({y}.abs() + 1)", "torch.minimum({x}, {y}) * 0.3"), _is_float), False),
    (_binary(("{x} < {y}", "{x} >= {y}", "{x} != {y}"), _is_exact_number), True),
    (_binary(BITS, _is_integer), True),
    (_binary(BITS, _is_bool), True),
    (_unary(("{x} // 3", "{x} % 5", "{x} * 3 - 1", "{x}.float()", "{x}.int()"), _is_integer), True),
    (_unary(("~{x}", "{x}.float()", "{x}.long()"), _is_bool), True),
    (_unary(("{x}.float()", "{x}.double()", "{x}.to(torch.float32) * 0.7"), _is_float), False),
    *[(_along(VIEWS, _any), True)] * 5,
    *[(_along(SUMS, _is_float), False)] * 4,
    (_along(SELECTIONS, _is_number), True),
    (_along(INDICES, _is_exact_number), True),
    (
        _along(
            ("{x}.any({d})", "{x}.all({d}, keepdim={keep})", "{x}.sum({d})", "{x}.any()"), _is_bool
        ),
        True,
    ),
    (_along(("{x}.sum({d})", "{x}.cumsum({d})", "{x}.sum()"), _is_integer), True),
    (_where, True),
    *[(_joined, True)] * 2,
    *[(_product, False)] * 3,
    (_attention, False),
    *[(_normed, False)] * 2,
    *[(_indexed, True)] * 2,
    *[(_flattened, True)] * 2,
    (_split, True),
    (_squeezed, True),
    *[(_windowed, False)] * 2,
    (_masked, True),
    (_assigned, True),
    (_unary(RARE, _is_float), False),
    (_binary(("torch.lerp({x}, {y}, 0.3)", "torch.fmod({x}, {y}.abs() + 1)"), _is_exact_float), False),
    (_binary(("torch.logical_and({x}, {y})", "torch.logical_xor({x}, {y})"), _is_bool), True),
    (_binary(("torch.div({x}, {y}.abs() + 1, rounding_mode='floor')", "{x} % ({y}.abs() + 1)"), _is_integer), True),
]


def make(seed: int) -> Model:
    """The model of a seed."""
    rng = random.Random(seed)
    inputs = _inputs(rng)
    sizes = {name: example for name, (example, _) in DYNAMIC.items()}
    known = [Known(x.name, x.draw(sizes, seed + n), True) for n, x in enumerate(inputs)]
    maker = Maker(rng, known, [])
    wanted = rng.randint(3, 16)
    for _ in range(400):
        if len(maker.lines) < wanted:
            maker.try_line()
    return _pruned(Model(inputs, tuple(maker.lines)))


def _inputs(rng: random.Random) -> tuple[Input, ...]:
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


def _pruned(model: Model) -> Model:
    """Without inputs nothing uses; the first stays, as a model takes something."""
    used = {name for line in model.lines for name in line.uses}
    kept = [x for x in model.inputs if x.name in used]
    if not any(not x.is_weight for x in kept):
        kept.insert(0, model.inputs[0])
    return replace(model, inputs=tuple(dict.fromkeys(kept)))


# --- running ------------------------------------------------------------------------------------


class Shell(nn.Module):
    """The module a source text stands for."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        for number, x in enumerate(model.inputs):
            if x.is_weight:
                weight = x.draw({}, 1000 + number)
                self.register_parameter(x.name, nn.Parameter(weight, requires_grad=False))
        scope: dict[str, Any] = {"torch": torch, "F": nn.functional}
        exec(compile(model.source, "fuzzed.py", "exec"), scope)
        self.forward = scope["forward"].__get__(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Shell:
        return self._again()

    def _again(self) -> Shell:
        copy = Shell.__new__(Shell)
        nn.Module.__init__(copy)
        for name, weight in self.named_parameters():
            copy.register_parameter(name, nn.Parameter(weight.clone(), requires_grad=False))
        copy.forward = self.forward.__func__.__get__(copy)
        return copy


@contextmanager
def odd_schedules(seed: int) -> Iterator[None]:
    """Choices that are right for any model, with small numbers: loops turn and parts are many."""

    def choose(
        program: Program, kernels: tuple[Kernel, ...], strides: Strides
    ) -> tuple[Kernel, ...]:
        rng = random.Random(seed)
        chosen = choose_tiles(program, kernels, strides)
        return tuple(replace(kernel, variants=(_odd(kernel, rng),)) for kernel in chosen)

    with ExitStack() as stack:
        for module, name, value in SMALL_NUMBERS:
            stack.enter_context(mock.patch.object(module, name, value))
        stack.enter_context(mock.patch.object(aotpack.schedule, "choose_tiles", choose))
        yield


def _odd(kernel: Kernel, rng: random.Random) -> Variant:
    variant = replace(kernel.variants[-1], arch_low=0, arch_high=10_000, at_most=None)
    tile = variant.tile
    match tile:
        case PointwiseTile():
            tile = replace(tile, x=rng.choice((2, 16)))
        case PlaneTile():
            tile = replace(tile, y=rng.choice((2, 8)), x=rng.choice((2, 4)))
        case ReductionTile():
            looped = not any(isinstance(member.operation, Scan) for member in kernel.members)
            looped = looped and rng.random() < 0.7
            r = rng.choice((2, 4, 16)) if looped else tile.r
            if tile.persistent or looped:
                tile = replace(tile, x=rng.choice((1, 2, 8)), r=r, persistent=not looped)
        case MatmulTile():
            tile = replace(tile, m=rng.choice((16, 32)), n=rng.choice((16, 32)), k=16)
        case AttentionTile():
            tile = replace(tile, i=16, j=rng.choice((16, 32)))
    return replace(variant, tile=tile)


def check(model: Model) -> None:
    """Raise what is wrong: WrongAnswer, a crash, or what aotpack refuses with."""
    given = [x for x in model.inputs if not x.is_weight]
    example = {name: example for name, (example, _) in DYNAMIC.items()}
    wide = [x.double() if x.is_floating_point() else x for x in _args(given, example)]
    if not _eager_runs(Shell(model).double(), tuple(wide)):
        return  # its own casts fix types, so it has no float64 form to compare with
    compiled = compile_all(Shell(model), _args(given, example), None, _dynamic_shapes(given))
    agree(compiled, _args(given, example), tolerance=SLACK)
    for number in range(len(DYNAMIC["b"][1]) if model.is_dynamic else 0):
        sizes = {name: others[number] for name, (_, others) in DYNAMIC.items()}
        args = _args(given, sizes)
        if _eager_runs(compiled.module, args):
            agree(compiled, args, tolerance=SLACK)


def _eager_runs(module: nn.Module, args: tuple[torch.Tensor, ...]) -> bool:
    try:
        module(*args)
    except (RuntimeError, IndexError):
        return False
    return True


def _args(given: Sequence[Input], sizes: dict[str, int]) -> tuple[torch.Tensor, ...]:
    return tuple(x.draw(sizes, number) for number, x in enumerate(given))


def _dynamic_shapes(given: Sequence[Input]) -> dict[str, Any] | None:
    dims = {name: Dim(name, min=1, max=16) for name in DYNAMIC}
    shapes = {
        x.name: {i: dims[d] for i, d in enumerate(x.dims) if isinstance(d, str)} or None
        for x in given
    }
    return shapes if any(shapes.values()) else None


def verdict(model: Model) -> tuple[str, str]:
    """("ok" | "refused" | "wrong" | "crash", the words)."""
    try:
        check(model)
    except (TraceError, UnsupportedError) as error:
        return "refused", str(error).replace("\n", " ")[:160]
    except AssertionError as error:
        return "wrong", str(error)
    except Exception as error:  # a fuzzer's work: every other exception is a finding
        last = traceback.extract_tb(error.__traceback__)[-1]
        return "crash", f"{type(error).__name__} at {last.filename}:{last.lineno}: {error}"
    return "ok", ""


def shrink(model: Model, kind: str) -> Model:
    """The model with as few lines as still fail in the same way."""
    for line in reversed(model.lines):
        smaller = _without(model, line.name)
        if smaller.lines and verdict(smaller)[0] == kind:
            model = smaller
    return model


def _without(model: Model, name: str) -> Model:
    """Without a line and all that follows from it."""
    gone = {name}
    kept = []
    for line in model.lines:
        if line.name in gone or gone.intersection(line.uses):
            gone.add(line.name)
        else:
            kept.append(line)
    return _pruned(replace(model, lines=tuple(kept)))


def _examined(model: Model, *, shrinking: bool) -> tuple[str, str, Model]:
    """The verdict, and the smallest model found that gets the same."""
    if not model.lines:
        return "empty", "", model
    kind, words = verdict(model)
    if kind in ("wrong", "crash") and shrinking:
        model = shrink(model, kind)
        words = verdict(model)[1]
    return kind, words, model


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:50", help="FIRST:END")
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument("--odd", action="store_true", help="small blocks and many parts")
    options = parser.parse_args(arguments)
    first, end = map(int, options.seeds.split(":"))
    counts: Counter[str] = Counter()
    refusals: Counter[str] = Counter()
    start = time.perf_counter()
    for seed in range(first, end):
        model = make(seed)
        setting = odd_schedules(seed) if options.odd else nullcontext()
        with setting:
            kind, words, small = _examined(model, shrinking=not options.no_shrink)
        counts[kind] += 1
        if kind == "refused":
            refusals[words] += 1
        if kind in ("wrong", "crash"):
            small = model if options.no_shrink else shrink(model, kind)
            print(
                f"seed {seed}: {kind}: {verdict(small)[1][:600]}\n{small.inputs}\n{small.source}",
                flush=True,
            )
    print(dict(counts), f"{time.perf_counter() - start:.0f} s")
    for words, count in refusals.most_common():
        print(count, words)
    return 1 if counts["wrong"] or counts["crash"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
