"""Random models with branches, loops and regions, for ``python -m tools.fuzz --subgraphs``.

A function of ``cond``, ``while_loop``, ``scan``, ``map`` or ``nested_compile_region`` has lines by
the ordinary rules, reads values and weights around it, and may hold one more such operator. Some
inputs do not lie row-major.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from tools.fuzz_make import add_line, is_tame, known_inputs, some_inputs
from tools.fuzz_model import SCOPE, Body, Line, Model, pruned
from tools.fuzz_rules import RULES, Draw, Known
from tools.fuzz_strides import laid_out

SIZES_DECIDE = ("{x}.shape[0] > 2", "{x}.shape[-1] % 2 == 0", "{x}.dim() == 2")
DATA_DECIDE = ("{x}.sum() > 0", "{x}.amax() > 1", "({x} > 0).any()", "{x}.sum().reshape(1) < 0")
BOOLS_DECIDE = ("{x}.any()", "{x}.all()", "~{x}.any()")
COUNTS = ("({n}.sum() % 4)", "({n}.amax() % 3)")
LIMITS = ("{x}.shape[0]", "3")
MEANS = ("{x}.float().mean()", "{x}.float().amax()", "({x} > 0).float().sum()")
_FRESH = "{x}.clone(memory_format=torch.contiguous_format)"  # a result is no operand, nor a view
_COPY = "{x}.clone()"  # in its strides
_TRIES = 300
_INNER = 40


@dataclass(slots=True)
class Scope:
    """Where an operator is drawn: the values in sight, and how deep it lies."""

    draw: Draw
    depth: int

    @property
    def rng(self) -> random.Random:
        return self.draw.rng

    def tensor(self, accept: Callable[[Known], bool] = lambda k: True) -> Known | None:
        """An operand that has elements."""
        return self.draw.pick(lambda k: k.tensor.numel() > 0 and accept(k))


@dataclass(frozen=True, slots=True)
class Call:
    """An operator as text, with the values in it, its functions, and what it gives as texts."""

    expression: str
    uses: tuple[Known, ...]
    bodies: tuple[Body, ...]
    parts: tuple[str, ...]  # such as "[0]"
    exact: bool = False  # of the first part


def make(seed: int) -> Model:
    """The model of a seed."""
    rng = random.Random(seed)
    inputs = some_inputs(rng) if rng.random() < 0.7 else laid_out(rng, some_inputs(rng))
    scope, lines = Scope(Draw(rng, known_inputs(inputs, seed)), 0), list[Line]()
    wanted, operators = rng.randint(3, 9), rng.randint(1, 2)
    for _ in range(_TRIES):
        if operators and rng.random() < 0.4:
            operators -= _add_call(scope, lines)
        elif len(lines) < wanted:
            add_line(scope.draw, lines, RULES)
    return pruned(Model(inputs, tuple(lines)))


def _add_call(scope: Scope, lines: list[Line]) -> bool:
    """Draw an operator and keep it if eager can run it; each of its results is a line."""
    name = f"v{len(lines)}"
    call = scope.rng.choice(OPERATORS)(scope, name)
    if call is None:
        return False
    line = Line(name, call.expression, tuple(k.name for k in call.uses), call.bodies)
    found = _evaluated(scope, line, call)
    if found is None:
        return False
    lines.append(line)
    for part, tensor in zip(call.parts, found, strict=True):
        made = f"v{len(lines)}"
        lines.append(Line(made, f"{name}{part}", (name,)))
        scope.draw.known.append(Known(made, tensor, call.exact and part == call.parts[0]))
    return True


def _evaluated(scope: Scope, line: Line, call: Call) -> list[torch.Tensor] | None:
    """The results in eager; None if they cannot be used."""
    values = SCOPE | {k.name: k.tensor for k in scope.draw.known}
    try:
        exec("\n".join((*line.outside, *line.texts)), values)
        found = [eval(f"{line.name}{part}", values) for part in call.parts]
    except (RuntimeError, IndexError, TypeError, ValueError):
        return None
    return found if all(map(is_tame, found)) else None


# --- functions ---------------------------------------------------------------------------------


@dataclass(slots=True)
class Function:
    """A function that is being drawn."""

    name: str
    parameters: list[Known]
    scope: Scope
    lines: list[Line]

    def like(self, wanted: torch.Tensor, scale: str = "", copied: str = _FRESH) -> Known:
        """A new value of a tensor's type and shape, from a late one that has these, if any."""
        fits = [k for k in self.scope.draw.known if _alike(k.tensor, wanted)]
        found = fits[-1] if self.scope.rng.random() < 0.8 else self.scope.rng.choice(fits)
        if not wanted.is_floating_point():
            return self.add(copied.format(x=found.name), found)
        if self.lines and found.name != self.lines[-1].name and self.scope.rng.random() < 0.6:
            last = self.scope.draw.known[-1]  # all of its elements count
            more = f"{last.name}.float().mean().to({found.name}.dtype)"
            text = f"({found.name}{scale} + {more})"
            return replace(self.add(copied.format(x=text), found, last), exact=False)
        return self.add(copied.format(x=f"({found.name}{scale})"), found)

    def mean(self) -> Known:
        """A number in float32 of a late value."""
        found = self.scope.tensor(lambda k: k.tensor.dtype is not torch.bool)
        found = found or self.parameters[0]
        return self.add(self.scope.rng.choice(MEANS).format(x=found.name), found)

    def add(self, text: str, *used: Known) -> Known:
        tensor = eval(text, SCOPE | {k.name: k.tensor for k in used})
        line = Line(f"{self.name}_{len(self.lines)}", text, tuple(k.name for k in used))
        self.lines.append(line)
        known = Known(line.name, tensor, all(k.exact for k in used))
        self.scope.draw.known.append(known)
        return known

    def giving(self, text: str, *results: Known, before: Sequence[str] = ()) -> Body:
        """The function; ``before`` are parameters that are no tensors."""
        names = (*before, *(k.name for k in self.parameters))
        result = text.format(*(k.name for k in results))
        used = (*before, *(k.name for k in results))
        uses = tuple(name for name in used if name in result)
        return Body(self.name, names, _needed(self.lines, results), result, uses)


def _function(scope: Scope, name: str, given: Sequence[Known]) -> Function:
    """A function with lines; its parameters have the values and exactness of ``given``."""
    parameters = [replace(k, name=f"{name}_{c}") for k, c in zip(given, "xyz", strict=False)]
    around = scope.draw.known
    captured = [scope.rng.choice(around) for _ in range(scope.rng.randint(0, 3))]
    inside = Scope(Draw(scope.rng, [*captured, *parameters]), scope.depth + 1)
    made = Function(name, parameters, inside, [])
    wanted = scope.rng.randint(1, 5)
    for _ in range(_INNER):
        if len(made.lines) >= wanted:
            break
        if inside.depth == 1 and scope.rng.random() < 0.08:
            _add_inner_call(made)
        else:
            add_line(inside.draw, made.lines, RULES, f"{name}_")
    return made


def _add_inner_call(function: Function) -> None:
    """An operator inside of a function, of which one result is taken."""
    scope, name = function.scope, f"{function.name}_{len(function.lines)}"
    call = scope.rng.choice(OPERATORS)(scope, name)
    if call is None:
        return
    parts = call.parts
    part = scope.rng.choice(parts)
    call = replace(call, expression=f"{call.expression}{part}", parts=("",))
    line = Line(name, call.expression, tuple(k.name for k in call.uses), call.bodies)
    found = _evaluated(scope, line, call)
    if found is not None:
        function.lines.append(line)
        exact = call.exact and part == parts[0]
        scope.draw.known.append(Known(name, found[0], exact))


def _needed(lines: Sequence[Line], results: Sequence[Known]) -> tuple[Line, ...]:
    """The lines that results need."""
    needed, kept = {k.name for k in results}, list[Line]()
    for line in reversed(lines):
        if line.name in needed:
            needed.update(line.needs)
            kept.append(line)
    return tuple(reversed(kept))


def _alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.shape == other.shape and one.dtype is other.dtype


# --- operators ---------------------------------------------------------------------------------


def _branch(scope: Scope, name: str) -> Call | None:
    x, predicate = scope.tensor(), _predicate(scope)
    if x is None or predicate is None:
        return None
    y = scope.tensor() or x
    text, decides = predicate
    one, other = (_function(scope, f"{name}_{side}", (x, y)) for side in "ab")
    both = [(side.like(x.tensor), side.mean()) for side in (one, other)]
    bodies = tuple(
        side.giving("({}, {})", *results) for side, results in zip((one, other), both, strict=True)
    )
    expression = f"cond({text}, {one.name}, {other.name}, ({x.name}, {y.name}.clone()))"
    exact = all(results[0].exact for results in both)
    return Call(expression, (x, y, decides), bodies, ("[0]", "[1]"), exact and _is_wide(x))


def _predicate(scope: Scope) -> tuple[str, Known] | None:
    """A condition on data without rounding errors, or on a size."""
    x = scope.tensor(lambda k: k.exact and k.tensor.dim() > 0)
    if x is None:
        return None
    texts = BOOLS_DECIDE if x.tensor.dtype is torch.bool else DATA_DECIDE
    if scope.rng.random() < 0.3:
        texts = SIZES_DECIDE
    return scope.rng.choice(texts).format(x=x.name), x


def _while(scope: Scope, name: str) -> Call | None:
    """Turns are counted by a tensor or by a number; values are halved in each."""
    x = scope.tensor()
    n = scope.tensor(lambda k: k.exact and k.tensor.dtype is torch.int64 and k.tensor.dim() > 0)
    rows = scope.tensor(lambda k: k.tensor.dim() > 0)
    if x is None or rows is None:
        return None
    limit = scope.rng.choice(LIMITS if n is None else (*LIMITS, *COUNTS))
    limit = limit.format(n=n.name if n else "", x=rows.name)
    y = scope.tensor() or x
    count = f"{name}_i"
    body = _function(scope, f"{name}_b", (_carried(x), _carried(y)))
    results = [body.like(one.tensor, " * 0.5") for one in (x, y)]
    if _alike(x.tensor, y.tensor) and scope.rng.random() < 0.5:
        results.reverse()
    parameters = (count, *(k.name for k in body.parameters))
    used = tuple(k.name for k in (n, rows) if k and k.name in limit)
    test = Body(f"{name}_t", parameters, (), f"{count} < {limit}", (count, *used))
    step = body.giving(f"({count} + 1, {{}}, {{}})", *results, before=(count,))
    start = scope.rng.choice(("0", "torch.zeros((), dtype=torch.int64)"))
    carried = ", ".join(_FRESH.format(x=k.name) for k in (x, y))
    expression = f"while_loop({test.name}, {step.name}, ({start}, {carried}))"
    return Call(expression, (x, y), (test, step), ("[1]", "[2]"))


def _scan(scope: Scope, name: str) -> Call | None:
    xs = scope.tensor(lambda k: k.tensor.dim() > 0)
    start = scope.tensor()
    if xs is None or start is None:
        return None
    dim, reverse = scope.rng.randrange(xs.tensor.dim()), scope.rng.random() < 0.3
    row = Known("", xs.tensor.select(dim, 0), xs.exact)
    body = _function(scope, f"{name}_b", (_carried(start), row))
    carried, given = body.like(start.tensor, " * 0.5"), body.like(row.tensor, copied=_COPY)
    step = body.giving("({}, {})", carried, given)
    first = _FRESH.format(x=start.name)
    expression = f"scan({step.name}, {first}, {xs.name}, dim={dim}, reverse={reverse})"
    return Call(expression, (start, xs), (step,), ("[0]", "[1]"))


def _map(scope: Scope, name: str) -> Call | None:
    xs = scope.tensor(lambda k: k.tensor.dim() > 0)
    if xs is None:
        return None
    ys = scope.tensor(lambda k: k.tensor.dim() > 0 and k.tensor.shape[0] == xs.tensor.shape[0])
    slices = [Known("", k.tensor[0], k.exact) for k in (xs, ys or xs)]
    body = _function(scope, f"{name}_b", slices)
    row, other = body.parameters
    results = body.like(slices[0].tensor, copied=_COPY), body.mean()
    pair = f"{name}_p"
    inner = body.giving("({}, {})", *results)
    unpacked = tuple(Line(k.name, f"{pair}[{n}]", (pair,)) for n, k in enumerate((row, other)))
    inner = replace(inner, parameters=(pair,), lines=(*unpacked, *inner.lines))
    expression = f"map_over({inner.name}, ({xs.name}, {(ys or xs).name}.clone()))"
    exact = results[0].exact and _is_wide(xs)
    return Call(expression, (xs, ys or xs), (inner,), ("[0]", "[1]"), exact)


def _region(scope: Scope, name: str) -> Call | None:
    """Called twice, the second time with what the first gave."""
    x = scope.tensor()
    if x is None or scope.depth:
        return None  # docs: regions inside of branches are refused
    body = _function(scope, f"{name}_b", (_carried(x),))
    result = body.like(x.tensor, " * 0.5")
    inner = body.giving("{}", result)
    around = [k for k in scope.draw.known if k.name in inner.captured]
    more = "".join(f", {k.name}" for k in around)
    parameters = (*inner.parameters, *(k.name for k in around))
    inner = replace(inner, parameters=parameters, is_global=True)
    once = f"region({inner.name}, {x.name}{more})"
    return Call(f"region({inner.name}, {once}{more})", (x, *around), (inner,), ("",))


def _carried(k: Known) -> Known:
    """What later turns have instead is not exact, but for bools and integers."""
    return replace(k, exact=k.exact and not k.tensor.is_floating_point())


def _is_wide(k: Known) -> bool:
    return k.tensor.dtype not in (torch.float16, torch.bfloat16)


OPERATORS = (_branch, _branch, _while, _scan, _scan, _map, _region)
