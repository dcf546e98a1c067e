"""The rules of the fuzzer: each draws one expression over the values so far, or None."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True, slots=True)
class Known:
    """A value so far. ``exact`` says that it has no rounding error, so decisions on it are safe."""

    name: str
    tensor: torch.Tensor
    exact: bool


@dataclass(slots=True)
class Draw:
    """What a rule draws from: chance, and the values so far."""

    rng: random.Random
    known: list[Known]

    def pick(self, accept: Callable[[Known], bool]) -> Known | None:
        """One of the values so far, later ones more often."""
        good = [k for k in self.known if accept(k)]
        if not good:
            return None
        return good[min(len(good) - 1, int(len(good) * self.rng.random() ** 0.6))]


Rule = Callable[[Draw], Any]  # (expression, the values in it), or None


def _is_float(k: Known) -> bool:
    return k.tensor.is_floating_point()


def _unary(texts: Sequence[str], accept: Callable[[Known], bool]) -> Rule:
    def rule(m: Draw) -> Any:
        x = m.pick(accept)
        return None if x is None else (m.rng.choice(texts).format(x=x.name), (x,))

    return rule


def _binary(texts: Sequence[str], accept: Callable[[Known], bool]) -> Rule:
    def rule(m: Draw) -> Any:
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
    """Operators with a dimension ``{d}``, perhaps ``{e}``, and a number ``{n}`` below its size."""

    def rule(m: Draw) -> Any:
        x = m.pick(lambda k: k.tensor.dim() > 0 and accept(k))
        if x is None:
            return None
        d = m.rng.randrange(x.tensor.dim())
        e = m.rng.randrange(x.tensor.dim())
        n = m.rng.randrange(max(1, x.tensor.shape[d]))
        values = {"x": x.name, "d": d, "e": e, "n": n, "keep": m.rng.choice(("True", "False"))}
        return m.rng.choice(texts).format(**values), (x,)

    return rule


def _where(m: Draw) -> Any:
    c = m.pick(lambda k: k.tensor.dtype is torch.bool)
    x = m.pick(lambda k: c is not None and _broadcasts(c.tensor, k.tensor))
    if c is None or x is None:
        return None
    y = m.pick(lambda k: all(_broadcasts(t.tensor, k.tensor) for t in (c, x)))
    if y is None:
        return f"torch.where({c.name}, {x.name}, 0.5)", (c, x)
    return f"torch.where({c.name}, {x.name}, {y.name})", (c, x, y)


def _joined(m: Draw) -> Any:
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


def _product(m: Draw) -> Any:
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


def _attention(m: Draw) -> Any:
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


def _normed(m: Draw) -> Any:
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


def _indexed(m: Draw) -> Any:
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


def _scattered(texts: Sequence[str]) -> Rule:
    """Rows of ``{x}`` go to the places ``{i}`` they were read from, some of them several times."""

    def rule(m: Draw) -> Any:
        x = m.pick(lambda k: k.tensor.dim() > 0 and all(k.tensor.shape) and _is_number(k))
        i = m.pick(lambda k: k.tensor.dtype is torch.int64 and k.exact and k.tensor.dim() == 1)
        if x is None or i is None:
            return None
        d = m.rng.randrange(x.tensor.dim())
        index = f"({i.name} % {x.name}.shape[{d}])"
        rows = f"{x.name}.index_select({d}, {index})"
        return m.rng.choice(texts).format(x=x.name, d=d, i=index, rows=rows), (x, i)

    return rule


def _flattened(m: Draw) -> Any:
    x = m.pick(lambda k: k.tensor.dim() >= 2)
    if x is None:
        return None
    start = m.rng.randrange(x.tensor.dim() - 1)
    end = m.rng.randrange(start + 1, x.tensor.dim())
    return f"{x.name}.flatten({start}, {end})", (x,)


def _split(m: Draw) -> Any:
    """A dimension in two, or the last two exchanged by a reshape that is no view."""
    x = m.pick(lambda k: k.tensor.dim() > 0 and any(s % 2 == 0 and s for s in k.tensor.shape))
    if x is None:
        return None
    d = m.rng.choice([i for i, s in enumerate(x.tensor.shape) if s % 2 == 0 and s])
    if m.rng.random() < 0.5:
        return f"{x.name}.unflatten({d}, (2, -1))", (x,)
    return f"{x.name}.unflatten({d}, (-1, 2)).transpose({d}, {d + 1}).flatten({d}, {d + 1})", (x,)


def _windowed(m: Draw) -> Any:
    """Pools and convolutions over the last dimensions; a weight may serve as filters."""
    x = m.pick(lambda k: _is_float(k) and k.tensor.dim() == 3 and k.tensor.shape[-1] >= 4)
    if x is None:
        return None
    pools = ("F.max_pool1d({x}, 2)", "F.avg_pool1d({x}, 3, 1, 1)", "F.max_pool1d({x}, 3, 2, 1)")
    w = m.pick(
        lambda k: (
            k.tensor.dtype is x.tensor.dtype
            and k.tensor.dim() == 2
            and k.tensor.shape[1] == x.tensor.shape[1]
        )
    )
    if w is not None and m.rng.random() < 0.7:
        spread = m.rng.choice(("", ", padding=1", ", stride=2"))
        filters = f"{w.name}.unsqueeze(-1).expand(-1, -1, 2)"
        return f"F.conv1d({x.name}, {filters}, None{spread}) / 4", (x, w)
    return m.rng.choice(pools).format(x=x.name), (x,)


def _masked(m: Draw) -> Any:
    x = m.pick(lambda k: _is_float(k) and k.tensor.dim() >= 2)
    if x is None:
        return None
    c = m.pick(lambda k: _is_bool(k) and k.tensor.shape == x.tensor.shape)
    if c is not None and m.rng.random() < 0.7:
        return f"{x.name}.masked_fill({c.name}, -2.0)", (x, c)
    return m.rng.choice(("{x}.tril()", "{x}.triu(1)", "{x}.tril(-1)")).format(x=x.name), (x,)


def _assigned(m: Draw) -> Any:
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


def _squeezed(m: Draw) -> Any:
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
    "{x}.cos()", "{x}.atan()", "F.mish({x})", "F.elu({x})", "F.leaky_relu({x}, 0.1)",
    "{x}.expm1() / 8", "F.gelu({x}, approximate='tanh')", "({x}.abs() + 0.1).pow(0.7)",
    "{x}.square() / 4", "{x}.sinh() / 8", "F.hardswish({x})", "torch.nan_to_num({x})",
    "({x} / 9).asin().nan_to_num(0.0)", "F.logsigmoid({x})", "{x}.diff(dim=0)",
    "{x}.log1p().nan_to_num(0.0, 1.0, -1.0)", "F.normalize({x}, dim=0, eps=0.1)",
)  # fmt: skip
EXACT = ("{x}.relu()", "-{x}", "{x}.abs()", "{x} + 1", "{x} * 2", "{x}.clamp(max=1)")
DECISIONS = (
    "{x} > 0", "{x}.floor()", "{x}.round()", "{x}.sign()", "{x} == 1", "{x}.long()", "{x}.bool()",
)  # fmt: skip
VIEWS = (
    "{x}.transpose({d}, {e})", "{x}.unsqueeze({d})", "{x}.flip({d})", "{x}.roll({n}, {d})",
    "{x}.select({d}, {n})", "{x}.narrow({d}, {n}, 1)", "{x}.movedim({d}, {e})",
    "{x}[{n}:]", "{x}.repeat_interleave(2, {d})", "{x}.contiguous()",
    "F.pad({x}, (1, 2), value=0.5)", "F.pad({x}, (0, 0, 2, 1))",
    "{x}.unsqueeze({d}).expand(*{x}.shape[:{d}], 3, *{x}.shape[{d}:])",
)  # fmt: skip
SUMS = (
    "{x}.sum({d}, keepdim={keep}) / 4", "{x}.mean({d}, keepdim={keep})", "{x}.softmax({d})",
    "{x}.log_softmax({d})", "{x}.logsumexp({d}, keepdim={keep})", "({x} / 4).cumsum({d})",
    "{x}.var({d}, correction=0, keepdim={keep})", "{x}.mean()", "{x}.sum(({d},)) / 8",
    "{x}.norm(dim={d}, keepdim={keep}) / 4", "({x} / 2).prod({d})",
)  # fmt: skip
SELECTIONS = (
    "{x}.amax({d}, keepdim={keep})", "{x}.amin({d}, keepdim={keep})", "{x}.max({d})[0]",
    "{x}.amax()",
)  # fmt: skip
INDICES = (
    "{x}.argmax({d}, keepdim={keep})", "{x}.argmin({d})", "{x}.cummax({d})[1]",
    "({x} > 0).sum({d})",
)  # fmt: skip
TRUTHS = ("{x}.any({d})", "{x}.all({d}, keepdim={keep})", "{x}.sum({d})", "{x}.any()")
COUNTS = ("{x}.sum({d})", "{x}.cumsum({d})", "{x}.sum()")
WHOLE = ("{x} // 3", "{x} % 5", "{x} * 3 - 1", "{x}.float()", "{x}.int()")
CASTS = ("{x}.float()", "{x}.double()", "{x}.to(torch.float32) * 0.7")
PAIRS = ("{x} + {y}", "{x} - {y}", "{x} * {y}", "torch.maximum({x}, {y})")
SMOOTH_PAIRS = ("{x} / ({y}.abs() + 1)", "torch.minimum({x}, {y}) * 0.3")
EXACT_PAIRS = ("torch.lerp({x}, {y}, 0.3)", "torch.fmod({x}, {y}.abs() + 1)")
COMPARISONS = ("{x} < {y}", "{x} >= {y}", "{x} != {y}")
DIVISIONS = ("torch.div({x}, {y}.abs() + 1, rounding_mode='floor')", "{x} % ({y}.abs() + 1)")
ADDED = ("{x}.index_add({d}, {i}, {rows})", "({x} * 2).index_add({d}, {i}, {rows}, alpha=3)")
PLACED = (
    "torch.ones_like({x}).index_copy({d}, {i}, {rows} + 1)",
    "({x} + 1).index_fill({d}, {i}, 3)",
    "({x} - 1).index_reduce({d}, {i}, {rows}, 'amax')",
)
LOGIC = ("torch.logical_and({x}, {y})", "torch.logical_xor({x}, {y})")
BITS = ("{x} & {y}", "{x} | {y}", "{x} ^ {y}")

_TABLE: tuple[tuple[int, bool, Rule], ...] = (
    (3, False, _unary(SMOOTH, _is_float)),
    (1, False, _unary(RARE, _is_float)),
    (1, True, _unary(EXACT, _is_number)),
    (1, True, _unary(DECISIONS, _is_exact_float)),
    (1, True, _unary(WHOLE, _is_integer)),
    (1, True, _unary(("~{x}", "{x}.float()", "{x}.long()"), _is_bool)),
    (1, False, _unary(CASTS, _is_float)),
    (4, True, _binary(PAIRS, _is_number)),
    (1, False, _binary(SMOOTH_PAIRS, _is_float)),
    (1, False, _binary(EXACT_PAIRS, _is_exact_float)),
    (1, True, _binary(COMPARISONS, _is_exact_number)),
    (1, True, _binary(DIVISIONS, _is_integer)),
    (1, True, _binary(BITS, _is_integer)),
    (1, True, _binary(BITS, _is_bool)),
    (1, True, _binary(LOGIC, _is_bool)),
    (5, True, _along(VIEWS, _any)),
    (4, False, _along(SUMS, _is_float)),
    (1, True, _along(SELECTIONS, _is_number)),
    (1, True, _along(INDICES, _is_exact_number)),
    (1, True, _along(TRUTHS, _is_bool)),
    (1, True, _along(COUNTS, _is_integer)),
    (1, True, _where),
    (2, True, _joined),
    (3, False, _product),
    (1, False, _attention),
    (2, False, _normed),
    (2, True, _indexed),
    (1, False, _scattered(ADDED)),
    (1, True, _scattered(PLACED)),
    (2, True, _flattened),
    (1, True, _split),
    (1, True, _squeezed),
    (2, False, _windowed),
    (1, True, _masked),
    (1, True, _assigned),
)
# (rule, whether exact operands give an exact result), as often as its weight says
RULES = [(rule, exact) for weight, exact, rule in _TABLE for _ in range(weight)]
