"""Index arguments, and the range that eager accepts: for ``--check-indices``."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from aotpack.ir.dtypes import DType
from aotpack.ir.symbolic.integers import Int
from aotpack.stages import GraphNode, Ref, TensorSpec
from aotpack.trace.operators.assertions import Asserted
from aotpack.trace.source import source_of


@dataclass(frozen=True, slots=True)
class Positions:
    """A tensor of indices below ``size``; negative ones count from the end if ``from_end``."""

    tensor: fx.Node
    size: Any
    from_end: bool


_Finder = Callable[[tuple[Any, ...]], Iterator[Positions]]


def positions_of(node: fx.Node) -> list[Positions]:
    """The index arguments of a call; empty for calls that are not checked."""
    find = _FINDERS.get(str(node.target).rpartition(".")[0])
    return [] if find is None else list(find(node.args))


def check(
    node: fx.Node,
    spec: TensorSpec,
    at: Ref,
    size: Int,
    from_end: bool,
    unused: Callable[[str], str],
) -> tuple[tuple[GraphNode, ...], Asserted]:
    """The nodes and assertion that the indices ``at``, of type and shape ``spec``, are in range."""
    source, low = source_of(node), -size if from_end else Int.of(0)
    made: list[GraphNode] = []

    def step(
        op: str, *args: Any, shape: tuple[Int, ...] = spec.shape, dtype: Any = DType.BOOL
    ) -> Ref:
        name = unused(f"{node.name}_inside")
        kwargs = (("dtype", dtype),) if dtype is not DType.BOOL else ()
        result = TensorSpec(name, dtype, shape)
        made.append(GraphNode(name, f"aten.{op}", args, kwargs, (result,), source))
        return Ref(name)

    wide = at if spec.dtype is DType.INT64 else step("_to_copy.default", at, dtype=DType.INT64)
    inside = step(
        "logical_and.default", step("ge.Scalar", wide, low), step("lt.Scalar", wide, size)
    )
    every = step("all.default", inside, shape=())
    message = f"positions must be at least {low} and less than {size}"
    return tuple(made), Asserted(every, message, str(node.target), source)


def _along(*, from_end: bool = False) -> _Finder:
    """``op(self, dim, index, ...)``; a tensor without dimensions has one position."""

    def find(args: tuple[Any, ...]) -> Iterator[Positions]:
        whole, dim, index = args[:3]
        shape = whole.meta["val"].shape
        yield Positions(index, shape[dim] if shape else 1, from_end)

    return find


def _rows(args: tuple[Any, ...]) -> Iterator[Positions]:
    """``embedding(weight, indices, ...)``"""
    table, index = args[:2]
    yield Positions(index, table.meta["val"].shape[0], from_end=False)


def _elements(args: tuple[Any, ...]) -> Iterator[Positions]:
    """``op(self, index, ...)``: positions in the whole tensor."""
    whole, index = args[:2]
    yield Positions(index, whole.meta["val"].numel(), from_end=True)


def _dimensions(args: tuple[Any, ...]) -> Iterator[Positions]:
    """``op(self, indices, ...)``: a tensor for each dimension, or None; masks are no positions."""
    whole, indices = args[:2]
    for size, index in zip(whole.meta["val"].shape, indices, strict=False):
        if index is not None and index.meta["val"].dtype not in (torch.bool, torch.uint8):
            yield Positions(index, size, from_end=True)


_FINDERS: dict[str, _Finder] = {
    "aten.embedding": _rows,
    "aten.take": _elements,
    "aten.put": _elements,
    "aten.index": _dimensions,
    "aten.index_put": _dimensions,
    "aten.index_fill": _along(from_end=True),
    **dict.fromkeys(
        (
            *("aten.gather", "aten.index_select", "aten.index_add", "aten.index_copy"),
            *("aten.index_reduce", "aten.scatter", "aten.scatter_add", "aten.scatter_reduce"),
        ),
        _along(),
    ),
}
