"""A random model as data: its inputs, its lines of Python, and the module they stand for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn


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


@dataclass(frozen=True, slots=True)
class Input:
    """A tensor the model is given, or a weight of it; dimensions are numbers or names of sizes."""

    name: str
    dims: tuple[int | str, ...]
    dtype: torch.dtype
    is_weight: bool = False
    scale: float = 1.0

    def draw(self, sizes: dict[str, int], seed: int) -> torch.Tensor:
        """Multiples of 1/8 up to 2, so that sums and comparisons are exact; times the scale."""
        generator = torch.Generator().manual_seed(seed)
        shape = [sizes[d] if isinstance(d, str) else d for d in self.dims]
        numbers = torch.randint(-16, 17, shape, generator=generator)
        if self.dtype is torch.bool:
            return numbers > 0
        if not self.dtype.is_floating_point:
            return numbers.to(self.dtype)
        return (numbers * (self.scale / 8)).to(self.dtype)


@dataclass(frozen=True, slots=True)
class Line:
    """``name = expression``; ``uses`` are the names in it."""

    name: str
    expression: str
    uses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Model:
    """A random model. Its outputs are the values that no line uses."""

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


def pruned(model: Model) -> Model:
    """The model without unused inputs; the first stays, as a model needs an input."""
    used = {name for line in model.lines for name in line.uses}
    kept = [x for x in model.inputs if x.name in used]
    if not any(not x.is_weight for x in kept):
        kept.insert(0, model.inputs[0])
    return replace(model, inputs=tuple(dict.fromkeys(kept)))


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
        scope: dict[str, Any] = {"torch": torch, "F": nn.functional}
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
        copy = Shell.__new__(Shell)
        nn.Module.__init__(copy)
        copy.model = self.model
        for name, weight in self.named_parameters():
            copy.register_parameter(name, nn.Parameter(weight.clone(), requires_grad=False))
        copy.forward = self.forward.__func__.__get__(copy)
        return copy
