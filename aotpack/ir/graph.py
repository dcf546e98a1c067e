"""The captured graph, free of torch objects: operator calls, and the graphs inside calls."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from aotpack.ir.dtypes import DType
from aotpack.ir.foreign import Configuration, TritonKernel
from aotpack.ir.symbolic.integers import Int, Var


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A named tensor: element type and shape; a dimension is an Int over the model's sizes.

    ``order`` is the memory order of an input or output: its dimensions, outermost first; empty for
    row-major. Callers see ``pairs`` of reals, in the last dimension, as complex numbers.
    """

    name: str
    dtype: DType
    shape: tuple[Int, ...]
    order: tuple[int, ...] = ()
    pairs: bool = False

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class Source:
    """A source position: file name relative to the model's folder, line, source text."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


@dataclass(frozen=True, slots=True)
class Ref:
    """The ``output``-th result of the graph node (or input, or weight) called ``name``."""

    name: str
    output: int = 0


Arg: TypeAlias = "Ref | Int | bool | int | float | str | DType | tuple[Arg, ...] | None"


CALL = "aotpack.call"
"""The operator of calls of bodies that several calls share."""


def refs_in(arg: "Arg") -> Iterator[Ref]:
    """The tensors in an argument, in order."""
    if isinstance(arg, Ref):
        yield arg
    elif isinstance(arg, tuple):
        for part in arg:
            yield from refs_in(part)


@dataclass(frozen=True, slots=True)
class GraphNode:
    """One operator call. Sizes are Ints, dtypes are DTypes; layout, device and pin flags are gone.

    ``op`` is torch's name, such as "aten.add.Tensor". A launch of a user's ``kernel`` has the
    arguments that it passes; its results are the new values of the arguments number ``changes``;
    ``others`` are configurations that give the same.
    Control flow, such as "higher_order.cond", has ``bodies``; in a loop's bodies the node's own
    results name the current state. Calls of one body have the same object; its last outputs are the
    new values of the arguments number ``changes``. A conversion of the model's own that ``rounds``
    does so where it stands; the rounding of other results may be skipped where they are not stored.
    ``counts`` are the sizes of the model that its data decide.
    """

    name: str
    op: str
    args: tuple[Arg, ...]
    kwargs: tuple[tuple[str, Arg], ...]
    results: tuple[TensorSpec, ...]
    source: Source | None
    kernel: TritonKernel | None = None
    grid: tuple[Int, ...] = ()
    others: tuple[Configuration, ...] = ()
    changes: tuple[int, ...] = ()
    bodies: tuple["Body", ...] = ()
    rounds: bool = False
    counts: tuple[Var, ...] = ()

    def refs(self) -> Iterator[Ref]:
        """The tensors that the node reads, and those that its bodies read and return."""
        yield from refs_in((*self.args, *(arg for _, arg in self.kwargs)))
        for body in self.bodies:
            for node in body.nodes:
                yield from node.refs()
            yield from refs_in(body.outputs)


@dataclass(frozen=True, slots=True)
class Body:
    """A graph inside a node, which reads tensors of the outer graph by name.

    ``slices`` are the inputs of one iteration or call, the last ``stored`` of them weights in each
    call. An output is a tensor, or a number that is the same in every iteration.
    """

    nodes: tuple[GraphNode, ...]
    outputs: tuple[Arg, ...]
    slices: tuple[TensorSpec, ...] = ()
    stored: int = 0


def every_node(nodes: Iterable[GraphNode]) -> Iterator[GraphNode]:
    """All nodes with those of their bodies, each body before its node."""
    for node in nodes:
        for body in node.bodies:
            yield from every_node(body.nodes)
        yield node


def node_lines(node: GraphNode) -> list[str]:
    """A call as text, its bodies indented below."""
    shown = [arg_text(arg) for arg in node.args]
    shown += [f"{key}={arg_text(arg)}" for key, arg in node.kwargs]
    results = ", ".join(map(str, node.results))
    place = f"  # {node.source}" if node.source else ""
    rounds = " and round" if node.rounds else ""
    counts = f" counts {', '.join(map(str, node.counts))}" if node.counts else ""
    lines = [f"{results} = {node.op}({', '.join(shown)}){rounds}{counts}{place}"]
    for body in node.bodies:
        given = "".join(f" {spec}" for spec in body.slices)
        inside = [line for inner in body.nodes for line in node_lines(inner)]
        inside.append("give " + ", ".join(map(arg_text, body.outputs)))
        lines += [f"    body{given}", *(f"        {line}" for line in inside)]
    return lines


def arg_text(arg: Arg) -> str:
    """An argument as text."""
    if isinstance(arg, Ref):
        return arg.name if arg.output == 0 else f"{arg.name}.{arg.output}"
    if isinstance(arg, tuple):
        return "[" + ", ".join(map(arg_text, arg)) + "]"
    return repr(arg) if isinstance(arg, str) else str(arg)
