"""A model that draws random numbers has one more keyword: ``seed``, a 0-d int64 tensor.

Equal seeds give equal numbers. Operators that still use torch's generator are refused.
"""

import functools
import inspect
import re
from collections.abc import Container, Iterator
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram

from aotpack.errors import TraceError, UnsupportedError
from aotpack.trace.operators.random.functions import NAMES, Draws
from aotpack.trace.source import source_of

Example = tuple[tuple[Any, ...], dict[str, Any]]
SEED = "seed"
EXAMPLE_SEED = 0


def draws(program: ExportedProgram) -> bool:
    """True if a live operator uses torch's generator."""
    return bool(_drawing(program))


def _drawing(program: ExportedProgram) -> list[torch.fx.Node]:
    """The live calls of operators that use torch's generator."""
    needed = {program.graph.output_node()}
    for node in reversed(program.graph.nodes):
        if node in needed or _changes(node, needed):
            needed.update((node, *node.all_input_nodes))
    return [
        node
        for node in program.graph.nodes
        if node in needed
        and torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
        and not _draws_nothing(node)
    ]


def _changes(node: torch.fx.Node, needed: Container[torch.fx.Node]) -> bool:
    """True for a change in place of something needed, or of a view of it."""
    schema = getattr(node.target, "_schema", None)
    changed: Any = node.args[0] if schema is not None and schema.is_mutable and node.args else None
    while isinstance(changed, torch.fx.Node):
        if changed in needed:
            return True
        changed = changed.args[0] if _is_view(changed) else None
    return False


def _is_view(node: torch.fx.Node) -> bool:
    """True for an operator whose result may be a view of its first argument."""
    schema = getattr(node.target, "_schema", None)
    return bool(schema and schema.returns and schema.returns[0].alias_info and node.args)


def is_random(program: ExportedProgram) -> bool:
    """True if an operator uses torch's generator, in a branch, in a loop or in attention too.

    Lowering refuses those: two runs of such a program differ.
    """
    drawing = torch.Tag.nondeterministic_seeded
    nodes = [one for one in _every_node(program) if drawing in getattr(one.target, "tags", ())]
    return any(_arguments(node).get("dropout_p") or not _draws_nothing(node) for node in nodes)


def _arguments(node: torch.fx.Node) -> dict[str, Any]:
    """The arguments of a call by name, with defaults."""
    schema = getattr(node.target, "_schema", None)
    names = [argument.name for argument in schema.arguments] if schema else []
    given = {a.name: a.default_value for a in schema.arguments} if schema else {}
    return given | dict(zip(names, node.args, strict=False)) | node.kwargs


def _draws_nothing(node: torch.fx.Node) -> bool:
    """True for disabled dropout, and for attention: lowering refuses attention with dropout."""
    given = _arguments(node)
    return "dropout_p" in given or False in (given.get("train"), given.get("training"))


def reads_seed(program: ExportedProgram) -> bool:
    """True if an operator draws from the seed, in a branch or in a loop too."""
    drawing = torch.ops.aotpack.philox.default
    return any(node.target is drawing for node in _every_node(program))


def _every_node(program: ExportedProgram) -> Iterator[torch.fx.Node]:
    """Those of the program, of its branches and of its loops."""
    for part in program.graph_module.modules():
        if isinstance(part, torch.fx.GraphModule):
            yield from part.graph.nodes


def with_example_seed(example: Example) -> Example:
    """The example inputs with a seed."""
    return example[0], {**example[1], SEED: torch.tensor(EXAMPLE_SEED)}


def seeded(module: nn.Module, name: str) -> nn.Module:
    """The module (a copy of the user's) with a forward that takes the seed."""
    forward = module.forward
    parameters = inspect.signature(forward).parameters
    if SEED in parameters:
        raise TraceError(
            f"tracing {name}: the model draws random numbers, for which the package gets an input "
            f"called {SEED!r}; forward has one already. Rename it."
        )

    @functools.wraps(forward)
    def with_seed(*args: Any, seed: torch.Tensor, **kwargs: Any) -> Any:
        with Draws(seed):
            return forward(*args, **kwargs)

    last = [p for p in parameters.values() if p.kind is inspect.Parameter.VAR_KEYWORD]
    others = [p for p in parameters.values() if p not in last]
    own = inspect.Parameter(SEED, inspect.Parameter.KEYWORD_ONLY)
    with_seed.__signature__ = inspect.Signature([*others, own, *last])  # type: ignore[attr-defined]
    module.forward = with_seed
    return module


def check_drawn(program: ExportedProgram, name: str) -> None:
    """Refuse operators that still use torch's generator."""
    drawing = list(_drawing(program))
    for node in drawing:
        if _makes_layer(node):
            raise UnsupportedError(
                f"tracing {name}: forward makes a layer, whose weights torch draws in each call "
                f"({_model_operator(node)}{_place(node)}); make the layer in __init__"
            )
    found = [f"{_model_operator(node)}{_place(node)}" for node in drawing]
    if found:
        raise UnsupportedError(
            f"tracing {name}: {', '.join(dict.fromkeys(found))} cannot be drawn from a seed. "
            "Draw it outside of the model, and give it as an input; or draw by "
            f"{', '.join(sorted(NAMES))}, without out=, in a module (not in a .pt2 file)"
        )


def _makes_layer(node: torch.fx.Node) -> bool:
    """True where the line of an operator calls a class of ``torch.nn``."""
    place = source_of(node)
    called = re.findall(r"(\w+)\(", place.text) if place else ()
    kinds = (getattr(torch.nn, name, None) for name in called)
    return any(isinstance(kind, type) and issubclass(kind, torch.nn.Module) for kind in kinds)


def _model_operator(node: torch.fx.Node) -> str:
    """The model's operator, which may have been decomposed into the node's."""
    sources = node.meta.get("from_node") or ()
    while sources:
        node, sources = sources[0], sources[0].from_node
    return str(node.target)


def _place(node: torch.fx.Node) -> str:
    place = source_of(node)
    return f" at {place}" if place else ""
