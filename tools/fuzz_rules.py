"""The rules of the fuzzer: each draws one expression over the values so far, or None."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from tools import fuzz_texts as texts


@dataclass(frozen=True, slots=True)
class Known:
    """A value so far. ``exact``: it has no rounding error, so decisions on it are safe."""

    name: str
    tensor: torch.Tensor
    exact: bool


@dataclass(slots=True)
class Draw:
    """The state of a rule: a random generator, and the values so far."""

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


def along(texts: Sequence[str], accept: Callable[[Known], bool]) -> Rule:
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
    """Scatter the rows of ``{x}`` to the positions ``{i}`` of their reads, some repeatedly."""

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
    """Pools and convolutions over the last dimensions; a weight may be the filters."""
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
    """A slice or an element of a copy is replaced; eager writes into windows that share memory."""
    x = m.pick(lambda k: k.tensor.dim() > 0 and all(k.tensor.shape))
    if x is None:
        return None
    d = m.rng.randrange(x.tensor.dim())
    n = m.rng.randrange(x.tensor.shape[d])
    source = f"{x.name}.select({d}, 0)"
    if m.rng.random() < 0.5:
        return f"torch.select_scatter({x.name}.contiguous(), {source}, {d}, {n})", (x,)
    part = f"{x.name}.narrow({d}, 0, 1)"
    return f"torch.slice_scatter({x.name}.contiguous(), {part}, {d}, {n}, {n + 1})", (x,)


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


_TABLE: tuple[tuple[int, bool, Rule], ...] = (
    (3, False, _unary(texts.SMOOTH, _is_float)),
    (1, False, _unary(texts.RARE, _is_float)),
    (1, True, _unary(texts.EXACT, _is_number)),
    (1, True, _unary(texts.DECISIONS, _is_exact_float)),
    (1, True, _unary(texts.WHOLE, _is_integer)),
    (1, True, _unary(("~{x}", "{x}.float()", "{x}.long()"), _is_bool)),
    (1, False, _unary(texts.CASTS, _is_float)),
    (4, True, _binary(texts.PAIRS, _is_number)),
    (1, False, _binary(texts.SMOOTH_PAIRS, _is_float)),
    (1, False, _binary(texts.EXACT_PAIRS, _is_exact_float)),
    (1, True, _binary(texts.COMPARISONS, _is_exact_number)),
    (1, True, _binary(texts.DIVISIONS, _is_integer)),
    (1, True, _binary(texts.BITS, _is_integer)),
    (1, True, _binary(texts.BITS, _is_bool)),
    (1, True, _binary(texts.LOGIC, _is_bool)),
    (5, True, along(texts.VIEWS, _any)),
    (4, False, along(texts.SUMS, _is_float)),
    (1, True, along(texts.SELECTIONS, _is_number)),
    (1, True, along(texts.ORDERED, _is_number)),
    (1, True, along(texts.PLACES_IN_ORDER, _is_exact_number)),
    (1, True, along(texts.INDICES, _is_exact_number)),
    (1, True, along(texts.TRUTHS, _is_bool)),
    (1, True, along(texts.COUNTS, _is_integer)),
    (1, True, _where),
    (2, True, _joined),
    (3, False, _product),
    (1, False, _attention),
    (2, False, _normed),
    (2, True, _indexed),
    (1, False, _scattered(texts.ADDED)),
    (1, True, _scattered(texts.PLACED)),
    (2, True, _flattened),
    (1, True, _split),
    (1, True, _squeezed),
    (2, False, _windowed),
    (1, True, _masked),
    (1, True, _assigned),
)
# (rule, whether exact operands give an exact result), as often as its weight says
RULES = [(rule, exact) for weight, exact, rule in _TABLE for _ in range(weight)]
