"""What must hold for positions and counts, as nodes that compute it."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import fx

from aotpack.ir.dtypes import DType
from aotpack.ir.symbolic.integers import Int
from aotpack.stages import Arg, GraphNode, Ref, Source, TensorSpec
from aotpack.trace.operators.assertions import Asserted
from aotpack.trace.source import source_of

_Convert = Callable[[Any], Int]


class Steps:
    """The nodes of one check, in order."""

    def __init__(self, node: fx.Node, unused: Callable[[str], str]) -> None:
        self._name, self._unused = f"{node.name}_inside", unused
        self.source: Source | None = source_of(node)
        self.made: list[GraphNode] = []

    def add(
        self,
        op: str,
        *args: Any,
        shape: tuple[Int, ...] = (),
        dtype: DType = DType.BOOL,
        more: tuple[TensorSpec, ...] = (),
    ) -> Ref:
        """A call; ``more`` are the results behind the first."""
        name = self._unused(self._name)
        kwargs = (("dtype", dtype),) if op == "_to_copy.default" else ()
        results = (TensorSpec(name, dtype, shape), *more)
        self.made.append(GraphNode(name, f"aten.{op}", args, kwargs, results, self.source))
        return Ref(name)

    def constant(self, number: Arg) -> Ref:
        """A size as a tensor."""
        return self.add("full.default", (), number, dtype=DType.INT64)


@dataclass(frozen=True, slots=True)
class Rule(ABC):
    """A rule for ``tensor``, or for a number that is data."""

    tensor: fx.Node

    @abstractmethod
    def condition(
        self, steps: Steps, at: Ref, shape: tuple[Int, ...], convert: _Convert
    ) -> tuple[Ref, str]:
        """The condition on the int64 tensor ``at``, a 0-d bool, and the message."""


def check(
    rule: Rule, node: fx.Node, at: Ref, spec: TensorSpec, convert: _Convert, steps: Steps
) -> Asserted:
    """The assertion that a rule of a call holds for ``at``, of type and shape ``spec``."""
    if spec.dtype is not DType.INT64:
        at = steps.add("_to_copy.default", at, shape=spec.shape, dtype=DType.INT64)
    condition, message = rule.condition(steps, at, spec.shape, convert)
    return Asserted(condition, message, str(node.target), steps.source)


@dataclass(frozen=True, slots=True)
class Inside(Rule):
    """Positions from ``low`` below ``size``."""

    size: Any
    low: Any = 0

    def condition(
        self, steps: Steps, at: Ref, shape: tuple[Int, ...], convert: _Convert
    ) -> tuple[Ref, str]:
        size, low = convert(self.size), convert(self.low)
        above = steps.add("ge.Scalar", at, low, shape=shape)
        below = steps.add("lt.Scalar", at, size, shape=shape)
        inside = steps.add("logical_and.default", above, below, shape=shape)
        every = steps.add("all.default", inside)
        return every, f"positions must be at least {low} and less than {size}"


@dataclass(frozen=True, slots=True)
class Ordered(Rule):
    """Offsets that do not decrease."""

    def condition(
        self, steps: Steps, at: Ref, shape: tuple[Int, ...], convert: _Convert
    ) -> tuple[Ref, str]:
        last = len(shape) - 1
        places = TensorSpec("places", DType.INT64, shape)
        largest = steps.add(
            "cummax.default", at, last, shape=shape, dtype=DType.INT64, more=(places,)
        )
        same = steps.add("eq.Tensor", at, largest, shape=shape)
        return steps.add("all.default", same), "offsets must not decrease"


@dataclass(frozen=True, slots=True)
class Begins(Rule):
    """Offsets from 0."""

    def condition(
        self, steps: Steps, at: Ref, shape: tuple[Int, ...], convert: _Convert
    ) -> tuple[Ref, str]:
        zero = steps.add("select.int", at, 0, 0, dtype=DType.INT64)
        return steps.add("eq.Scalar", zero, 0), "the first offset must be 0"


@dataclass(frozen=True, slots=True)
class Total(Rule):
    """Counts whose sum along the last dimension is ``size``, or no more if not ``is_exact``.

    With ``expanded``, the sum of all after broadcasting to that shape.
    """

    size: Any
    is_exact: bool = True
    expanded: Any = None

    def condition(
        self, steps: Steps, at: Ref, shape: tuple[Int, ...], convert: _Convert
    ) -> tuple[Ref, str]:
        size, lead = convert(self.size), shape[:-1]
        if self.expanded is None:
            total = steps.add("sum.dim_IntList", at, (-1,), shape=lead, dtype=DType.INT64)
        else:
            whole, lead = tuple(map(convert, self.expanded)), ()
            wide = steps.add("expand.default", at, whole, shape=whole, dtype=DType.INT64)
            total = steps.add("sum.default", wide, dtype=DType.INT64)
        holds = steps.add("eq.Scalar" if self.is_exact else "le.Scalar", total, size, shape=lead)
        bound = f"{size}" if self.is_exact else f"at most {size}"
        return steps.add("all.default", holds), f"counts must add up to {bound}"
