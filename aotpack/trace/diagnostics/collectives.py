"""Refuses communication between processes (torch.distributed), also where no result needs it.

A collective that is left out stops the other processes, and its result is not there before
``wait_tensor``: neither dead-code elimination nor torch between launches may take one.
"""

from collections.abc import Iterator
from typing import Any

from torch import fx
from torch._ops import OpOverload, OpOverloadPacket
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from aotpack.errors import UnsupportedError
from aotpack.trace.source import source_of

_NAMESPACES = frozenset(
    "c10d c10d_functional _c10d_functional _c10d_functional_autograd _dtensor fsdp symm_mem".split()
)


def check_collectives(program: ExportedProgram, name: str) -> None:
    """Refuse operators that communicate, in branches and loops too; lists every call."""
    found = dict.fromkeys(_calls(program))
    if found:
        raise UnsupportedError(
            f"tracing {name}: these communicate between processes, which a package cannot:\n  "
            + "\n  ".join(found)
            + "\nPackage the parts between them, and communicate outside; --fallback torch does "
            "not take them either."
        )


def _calls(program: ExportedProgram) -> Iterator[str]:
    for part in program.graph_module.modules():
        for node in part.graph.nodes if isinstance(part, fx.GraphModule) else ():
            for operator in filter(_communicates, _operators(node)):
                source = source_of(node)
                yield f"{operator}  ({source})" if source else str(operator)


def _operators(node: fx.Node) -> list[Any]:
    """The operator called, and those that it wraps (of functionalised calls and of effects)."""
    return [node.target, *pytree.tree_leaves((node.args, node.kwargs))]


def _communicates(value: object) -> bool:
    is_operator = isinstance(value, (OpOverload, OpOverloadPacket))
    return is_operator and str(value).partition(".")[0] in _NAMESPACES
