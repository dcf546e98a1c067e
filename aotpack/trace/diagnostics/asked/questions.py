"""Questions about sizes, and the answers that a program has taken for its sizes."""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import CodeType
from typing import Any

import sympy
import torch
from torch import fx
from torch.export import ExportedProgram
from torch.utils._sympy.functions import Max

_SQUEEZES = {
    getattr(getattr(torch.ops.aten, name), overload)
    for name in ("squeeze", "squeeze_")
    for overload in ("default", "dim", "dims")
}


@dataclass(frozen=True, slots=True)
class Contiguous:
    """The question whether a tensor is contiguous, of its axes from the outermost in memory."""

    sizes: tuple[Any, ...]
    strides: tuple[Any, ...]

    @property
    def condition(self) -> Any:
        """Each stride is the product of the sizes behind it, but for sizes of 1."""
        found, whole = [], sympy.Integer(1)
        for size, stride in zip(reversed(self.sizes), reversed(self.strides), strict=True):
            count, step = (
                _with_elements(x.node.expr) if isinstance(x, torch.SymInt) else sympy.Integer(x)
                for x in (size, stride)
            )
            found.append(sympy.Or(sympy.Eq(count, 1), sympy.Eq(step, whole)))
            whole *= count
        return sympy.And(*found)


def _with_elements(size: Any) -> Any:
    """A stride where no size is 0: torch's ``max(1, n)`` is ``n``."""

    def is_at_least_1(one: Any) -> bool:
        return isinstance(one, Max) and len(one.args) == 2 and sympy.S.One in one.args

    def other(one: Any) -> Any:
        return next(part for part in one.args if part != 1)

    return size.replace(is_at_least_1, other)


@dataclass(frozen=True, slots=True)
class Branch:
    """A condition that ``code`` asks for, or a number that it takes for one, with the answer.

    One that ``is_open`` was made and its truth not asked for, so export keeps no guard of it.
    """

    asked: "torch.SymBool | torch.SymInt | Contiguous | Squeezed | Equal | Unseen"
    answer: bool
    code: CodeType
    is_open: bool = False

    @property
    def condition(self) -> Any:
        """A sympy expression of the symbols that are left: torch learns that some are equal."""
        if isinstance(self.asked, (Contiguous, Squeezed, Equal, Unseen)):
            return self.asked.condition
        found = self.asked.node.expr
        return sympy.Ne(found, 0) if isinstance(self.asked, torch.SymInt) else found

    @property
    def assumed(self) -> Any:
        """What the answer says of sizes: the condition, or that it does not hold."""
        return self.condition if self.answer else sympy.Not(self.condition)

    def holds(self, sizes: Mapping[Any, int]) -> bool:
        """Whether the answer is right for sizes by symbol; True where they do not decide it."""
        found = self.condition.subs(sizes)
        return not getattr(found, "is_Boolean", False) or bool(found) == self.answer


@dataclass(frozen=True, slots=True)
class Squeezed:
    """The question whether a dimension that is squeezed has the size 1."""

    size: torch.SymInt

    @property
    def condition(self) -> Any:
        return sympy.Eq(self.size.node.expr, 1)


@dataclass(frozen=True, slots=True)
class Equal:
    """An equality that torch learned: it puts ``value`` for the symbol in all conditions."""

    symbol: Any
    value: Any

    @property
    def condition(self) -> Any:
        return sympy.Eq(self.symbol, self.value)


class Unseen:
    """A question about sizes that leaves no condition: their text. Known to be right nowhere."""

    condition = sympy.false


def layouts_asked(branches: Iterable[Branch]) -> tuple[Any, ...]:
    """What a program assumes by answers to the question whether a tensor is contiguous."""
    found = (one.assumed for one in branches if isinstance(one.asked, Contiguous))
    return tuple(one for one in dict.fromkeys(found) if not one.is_Boolean or one.free_symbols)


def squeezes(program: ExportedProgram) -> Iterator[Branch]:
    """Questions that no Python asks: how many dimensions are left decides what it does then."""
    parts = [x for x in program.graph_module.modules() if isinstance(x, fx.GraphModule)]
    for node in itertools.chain(*(part.graph.nodes for part in parts)):
        if node.target in _SQUEEZES:
            shape = node.args[0].meta["val"].shape or (1,)
            given = node.args[1] if len(node.args) > 1 else range(len(shape))
            for place in [given] if isinstance(given, int) else given:
                size = shape[place]
                if isinstance(size, torch.SymInt):
                    yield Branch(Squeezed(size), answer=False, code=squeezes.__code__)
