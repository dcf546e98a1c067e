"""Branches, loops and regions for random models: torch's operators while a model is traced.

Otherwise they are what torch documents, in plain Python: eager needs no compiler then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._higher_order_ops import map as torch_map
from torch._higher_order_ops import while_loop as torch_while_loop
from torch._higher_order_ops.invoke_subgraph import invoke_subgraph_placeholder
from torch._higher_order_ops.scan import scan as torch_scan
from torch.utils import _pytree as pytree

Function = Callable[..., Any]


def cond(predicate: Any, first: Function, second: Function, operands: tuple[Any, ...]) -> Any:
    if torch.compiler.is_compiling():
        return torch.cond(predicate, first, second, operands)
    return (first if predicate else second)(*operands)


def while_loop(test: Function, body: Function, carried: tuple[Any, ...]) -> Any:
    if torch.compiler.is_compiling():
        return torch_while_loop(test, body, carried)
    while test(*carried):
        carried = body(*carried)
    return carried


def scan(body: Function, carried: Any, xs: Any, dim: int = 0, reverse: bool = False) -> Any:
    """The last carried value, and what each turn gives, stacked along ``dim`` in their order."""
    if torch.compiler.is_compiling():
        return torch_scan(body, carried, xs, dim=dim, reverse=reverse)
    turns = list(range(pytree.tree_leaves(xs)[0].shape[dim]))
    given: dict[int, Any] = {}
    for n in reversed(turns) if reverse else turns:
        row = pytree.tree_map(lambda x, n=n: x.select(dim, n), xs)
        carried, given[n] = body(carried, row)
    return carried, _stacked([given[n] for n in turns], dim)


def map_over(body: Function, xs: Any) -> Any:
    if torch.compiler.is_compiling():
        return torch_map(body, xs)
    count = pytree.tree_leaves(xs)[0].shape[0]
    return _stacked([body(pytree.tree_map(lambda x, n=n: x[n], xs)) for n in range(count)], 0)


def region(function: Function, *args: Any) -> Any:
    """A call of a region of ``nested_compile_region``; strict mode keeps it as a graph."""
    if torch.compiler.is_compiling():
        return invoke_subgraph_placeholder(function, *args)
    return function(*args)


def _stacked(turns: list[Any], dim: int) -> Any:
    return pytree.tree_map(lambda *parts: torch.stack(parts, dim), *turns)


SCOPE = {
    "cond": cond,
    "while_loop": while_loop,
    "scan": scan,
    "map_over": map_over,
    "region": region,
}
"""Their names in the text of a model."""
