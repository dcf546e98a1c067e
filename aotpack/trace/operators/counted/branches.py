"""Refuses branches whose results have different shapes, which torch merges.

    torch.cond(p, lambda a, b: a, lambda a, b: b, (x, y))     one size for the rows of x and of y

Data decide such a size, and a package knows none that a branch makes.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import sympy
import torch
from torch import fx
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from aotpack.errors import UnsupportedError
from aotpack.trace.diagnostics.derived import with_names
from aotpack.trace.operators.control_flow.control import COND, is_part, part_of, part_results
from aotpack.trace.source import users_source_of
from aotpack.trace.strides import expression_of

_TRIED = 5, 8, 9, 16, 33  # sizes, at which expressions that are one agree


def check_branch_shapes(name: str, program: ExportedProgram) -> None:
    """Raise ``UnsupportedError`` where the results of two branches have different shapes.

    Sizes that data decide inside of a branch are left to the refusal of those.
    """
    for part in program.graph_module.modules():
        if isinstance(part, fx.GraphModule):
            for node in part.graph.find_nodes(op="call_function", target=COND):
                for first, second in _unequal(node):
                    source = users_source_of(node)
                    raise UnsupportedError(
                        f"tracing {name}: the branches of torch.cond return tensors of the shapes "
                        f"{_shown(program, first)} and {_shown(program, second)}"
                        f"{_decided([*first, *second])}; accepted are branches that return equal "
                        "shapes. Pad both to one, or return what is made of them, as a sum"
                        + (f"\n  at {source}" if source else "")
                    )


def _unequal(node: fx.Node) -> Iterator[tuple[torch.Size, torch.Size]]:
    """The shapes of results in which branches differ, by sizes that are known around them."""
    given = [arg for arg in node.args if isinstance(arg, fx.Node) and is_part(arg)]
    parts = [part_of(arg) for arg in given]
    known = {s for part in parts for one in _given(part.graph) for s in _symbols(one)}
    for results in zip(*map(part_results, parts), strict=True):
        match [one.meta.get("val") if isinstance(one, fx.Node) else one for one in results]:
            case [torch.Tensor(shape=first), torch.Tensor(shape=second)]:
                sizes = zip(first, second, strict=True)  # torch takes equal ranks alone
                if any(_differ(one, other, known) for one, other in sizes):
                    yield first, second


def _differ(one: Any, other: Any, known: set[Any]) -> bool:
    """True for different sizes of which both are computed from ``known`` ones."""
    symbols = sorted(_symbols(one) | _symbols(other), key=str)
    if expression_of(one) == expression_of(other) or not known.issuperset(symbols):
        return False
    apart = sympy.sympify(expression_of(one) - expression_of(other))
    tried = (dict.fromkeys(symbols, n) | {s: n + k for k, s in enumerate(symbols)} for n in _TRIED)
    return any(apart.subs(values) != 0 for values in tried)


def _given(graph: fx.Graph) -> Iterator[Any]:
    """The sizes and numbers that a branch is given."""
    for node in graph.find_nodes(op="placeholder"):
        value = node.meta.get("val")
        yield from value.shape if isinstance(value, torch.Tensor) else (value,)


def _symbols(size: Any) -> set[Any]:
    return {*size.node.expr.free_symbols} if isinstance(size, torch.SymInt) else set()


def _shown(program: ExportedProgram, shape: torch.Size) -> str:
    """A shape with the user's names of sizes."""
    return f"({', '.join(with_names(program, size) for size in shape)})"


def _decided(sizes: Sequence[Any]) -> str:
    """Which of torch's symbols data decide, in words."""
    found = sorted({str(s) for size in sizes for s in _symbols(size) if free_unbacked_symbols(s)})
    return f", where data decide {' and '.join(found)}" if found else ""
