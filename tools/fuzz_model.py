"""A random model as data: its inputs, its lines of Python, and the module they stand for."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from tools import fuzz_control

SCOPE: dict[str, Any] = {"torch": torch, "F": nn.functional, **fuzz_control.SCOPE}
"""The names in the text of a model."""


@dataclass(frozen=True, slots=True)
class Size:
    """A dynamic size: that of the example, those of further calls, and the range of the guard."""

    example: int
    others: tuple[int, int, int]
    low: int = 1
    high: int = 16


SIZES = {
    "b": Size(3, (1, 7, 2)),
    "s": Size(5, (2, 11, 1)),
    "h": Size(13, (10, 16, 23), 10, 32),  # of an image
}


def _laid(x: torch.Tensor, first: int, second: int) -> torch.Tensor:
    """A dimension moves to the place of another in memory, where there are both."""
    rank = x.dim()
    if not (-rank <= first < rank and -rank <= second < rank):
        return x
    return x.movedim(first, second).contiguous().movedim(second, first)


LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "rows": torch.Tensor.contiguous,
    "channels_last": lambda x: _laid(x, 1, -1),
    "channels_first": lambda x: _laid(x, -1, 1),
    "turned": lambda x: _laid(x, 0, -1),
    "swapped": lambda x: _laid(x, -1, -2),
    "reversed": lambda x: (
        x.permute(*range(x.dim())[::-1]).contiguous().permute(*range(x.dim())[::-1])
    ),
    "expanded": lambda x: x[:1].expand(x.shape),
    "stepped": lambda x: torch.stack([x, torch.ones_like(x)], -1)[..., 0],
    "behind": lambda x: torch.cat([torch.ones_like(x[:1]), x])[1:],
    "columns": lambda x: torch.cat([torch.ones_like(x[..., :1]), x], -1)[..., 1:],
}
"""How a tensor lies in memory; an expanded one has other values."""


@dataclass(frozen=True, slots=True)
class Input:
    """A tensor the model is given, or a weight of it; dimensions are numbers or names of sizes."""

    name: str
    dims: tuple[int | str, ...]
    dtype: torch.dtype
    is_weight: bool = False
    scale: float = 1.0
    layout: str = "rows"

    def draw(self, sizes: dict[str, int], seed: int) -> torch.Tensor:
        """Multiples of 1/8 up to 2, so that sums and comparisons are exact; times the scale."""
        generator = torch.Generator().manual_seed(seed)
        shape = [sizes[d] if isinstance(d, str) else d for d in self.dims]
        numbers = torch.randint(-16, 17, shape, generator=generator)
        return LAYOUTS[self.layout](self._typed(numbers)) if shape else self._typed(numbers)

    def _typed(self, numbers: torch.Tensor) -> torch.Tensor:
        if self.dtype is torch.bool:
            return numbers > 0
        if not self.dtype.is_floating_point:
            return numbers.to(self.dtype)
        return (numbers * (self.scale / 8)).to(self.dtype)


@dataclass(frozen=True, slots=True)
class Line:
    """``name = expression``; ``uses`` are the names in it, without its functions."""

    name: str
    expression: str
    uses: tuple[str, ...]
    bodies: tuple[Body, ...] = ()

    @property
    def needs(self) -> tuple[str, ...]:
        """The values outside that it reads, also in its functions."""
        inside = (name for body in self.bodies for name in body.captured)
        return tuple(dict.fromkeys((*self.uses, *inside)))

    @property
    def texts(self) -> list[str]:
        """Its functions, then the line itself."""
        inside = [text for body in self.bodies if not body.is_global for text in body.texts]
        return [*inside, f"{self.name} = {self.expression}"]

    @property
    def outside(self) -> list[str]:
        """Its functions that stand outside of ``forward``."""
        return [text for body in self.bodies if body.is_global for text in body.texts]

    def with_value(self, name: str, other: str) -> Line:
        """The line with another value in place of one."""
        bodies = tuple(body.with_value(name, other) for body in self.bodies)
        uses = tuple(dict.fromkeys(other if one == name else one for one in self.uses))
        expression = _renamed(self.expression, name, other)
        return replace(self, expression=expression, uses=uses, bodies=bodies)


@dataclass(frozen=True, slots=True)
class Body:
    """A function of a line; it may read values around it. ``uses`` are the names in ``result``.

    One that ``is_global`` stands outside of ``forward``, as a region has to.
    """

    name: str
    parameters: tuple[str, ...]
    lines: tuple[Line, ...]
    result: str
    uses: tuple[str, ...]
    is_global: bool = False

    @property
    def captured(self) -> tuple[str, ...]:
        own = {*self.parameters, *(line.name for line in self.lines)}
        read = [name for line in self.lines for name in line.needs]
        return tuple(name for name in dict.fromkeys((*read, *self.uses)) if name not in own)

    @property
    def texts(self) -> list[str]:
        inside = [text for line in self.lines for text in line.texts]
        inside.append(f"return {self.result}")
        return [f"def {self.name}({', '.join(self.parameters)}):", *(f"    {x}" for x in inside)]

    def with_value(self, name: str, other: str) -> Body:
        lines = tuple(line.with_value(name, other) for line in self.lines)
        uses = tuple(dict.fromkeys(other if one == name else one for one in self.uses))
        result = _renamed(self.result, name, other)
        return replace(self, lines=lines, result=result, uses=uses)


def _renamed(text: str, name: str, other: str) -> str:
    return re.sub(rf"\b{name}\b", other, text)


@dataclass(frozen=True, slots=True)
class Model:
    """A random model. Its outputs are the values that no line uses."""

    inputs: tuple[Input, ...]
    lines: tuple[Line, ...]

    @property
    def outputs(self) -> tuple[str, ...]:
        used = {name for line in self.lines for name in line.needs}
        return tuple(line.name for line in self.lines if line.name not in used)

    @property
    def source(self) -> str:
        """The text of ``forward``, behind that of its regions."""
        given = [x.name for x in self.inputs if not x.is_weight]
        body = [f"{x.name} = self.{x.name}" for x in self.inputs if x.is_weight]
        body += [text for line in self.lines for text in line.texts]
        body.append(f"return ({', '.join(self.outputs)},)")
        outside = [text for line in self.lines for text in line.outside]
        texts = [*outside, f"def forward(self, {', '.join(given)}):", *(f"    {x}" for x in body)]
        return "".join(f"{text}\n" for text in texts)

    @property
    def is_dynamic(self) -> bool:
        return any(isinstance(d, str) for x in self.inputs for d in x.dims)


def pruned(model: Model) -> Model:
    """The model without unused inputs; the first stays, as a model needs an input."""
    used = {name for line in model.lines for name in line.needs}
    kept = [x for x in model.inputs if x.name in used]
    if not any(not x.is_weight for x in kept):
        kept.insert(0, model.inputs[0])
    return replace(model, inputs=tuple(dict.fromkeys(kept)))


def without(model: Model, name: str) -> Model:
    """The model without a line and its dependants."""
    gone = {name}
    kept = []
    for line in model.lines:
        if line.name in gone or gone.intersection(line.needs):
            gone.add(line.name)
        else:
            kept.append(line)
    return pruned(replace(model, lines=tuple(kept)))


def inner_lines(model: Model) -> list[Line]:
    """The lines of all functions."""
    return [inner for line in model.lines for inner in _inside(line)]


def _inside(line: Line) -> Iterator[Line]:
    for body in line.bodies:
        for inner in body.lines:
            yield inner
            yield from _inside(inner)


def without_inside(model: Model, name: str) -> Iterator[Model]:
    """The model without a line of a function; readers take one of the values it reads instead."""
    found = next((line for line in inner_lines(model) if line.name == name), None)
    for other in found.needs if found else ():
        lines = tuple(_shortened(line, name).with_value(name, other) for line in model.lines)
        yield pruned(replace(model, lines=lines))


def _shortened(line: Line, name: str) -> Line:
    """The line without a line of its functions."""

    def kept(body: Body) -> Body:
        lines = tuple(_shortened(one, name) for one in body.lines if one.name != name)
        return replace(body, lines=lines)

    return replace(line, bodies=tuple(map(kept, line.bodies)))


class Shell(nn.Module):
    """The module of a source text."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model
        for number, x in enumerate(model.inputs):
            if x.is_weight:
                weight = x.draw({}, 1000 + number)
                self.register_parameter(x.name, nn.Parameter(weight, requires_grad=False))
        self._take(model.source)

    def _take(self, source: str) -> None:
        scope = dict(SCOPE)
        exec(compile(source, "fuzzed.py", "exec"), scope)
        self.forward = scope["forward"].__get__(self)

    def double(self) -> Shell:
        """The module in float64 throughout: its own casts to float32 become casts to float64."""
        super().double()
        wide = self.model.source.replace(".float()", ".double()")
        self._take(wide.replace("torch.float32", "torch.float64"))
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Shell:
        return self._again()

    def _again(self) -> Shell:
        made = Shell.__new__(Shell)
        nn.Module.__init__(made)
        made.model = self.model
        for name, weight in self.named_parameters():
            own = copy.deepcopy(weight.data)  # in its strides
            made.register_parameter(name, nn.Parameter(own, requires_grad=False))
        made.forward = self.forward.__func__.__get__(made)
        return made
