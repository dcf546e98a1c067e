"""What bodies of branches and loops may change in place: what they make themselves.

Torch functionalises such changes. It does not tell whether others reach an operand, where a view
may be a copy for some sizes.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import fx
from torch._higher_order_ops.wrap import wrap_with_autocast, wrap_with_set_grad_enabled
from torch._ops import OpOverload
from torch.export import ExportedProgram

from aotpack.errors import UnsupportedError
from aotpack.trace.operators.control_flow.control import is_part, part_of
from aotpack.trace.source import users_source_of

_REGIONS = wrap_with_autocast, wrap_with_set_grad_enabled

_DETACHED = torch.ops.aten.detach_.default
_LIFTED = torch.ops.aten.lift_fresh_copy.default
_REFUSED_TAGS = {torch.Tag.inplace_view, torch.Tag.nondeterministic_seeded}
_COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd
_TO = torch.ops.aten.to.dtype
_VIEWS = {
    torch.ops.aten.select.int,
    torch.ops.aten.slice.Tensor,
    torch.ops.aten.narrow.default,
    torch.ops.aten.unsqueeze.default,
    torch.ops.aten.squeeze.dim,
    torch.ops.aten.transpose.int,
    torch.ops.aten.permute.default,
    torch.ops.aten.t.default,
    torch.ops.aten.diagonal.default,
    torch.ops.aten.alias.default,
}
"""Views of any tensor; ``reshape`` and its like copy some."""


def check_parts(program: ExportedProgram, name: str) -> None:
    """Refuse branches and loops that change in place what they did not make themselves.

    Of other changes torch is not asked whether they reach an operand: there, no view is of a kind
    that may be a copy. Regions, as of autocast, are part of the program around them. Constants in
    bodies, as those of ``torch.tensor(0)``, are not taken: torch detaches them in place.
    """
    _check_part(program.graph_module, name, may_change=True)


def _check_part(module: fx.GraphModule, name: str, *, may_change: bool) -> None:
    for node in filter(is_part, module.graph.nodes):
        is_region = all(user.target in _REGIONS for user in node.users)
        _check_part(part_of(node), name, may_change=may_change and is_region)
    if may_change:
        return
    for node in filter(_changes_in_place, module.graph.nodes):
        if not _changes_own(node):
            raise UnsupportedError(
                f"tracing {name}: {node.target} changes a tensor in place inside of a branch or a "
                "loop, which the body did not make, or through a view that may be a copy; return "
                "the new value from there, and assign it outside, or change a clone; y[k] += 1 of "
                f"a tensor k is y[k] = y[k] + 1{_place(node)}"
            )
    for node in module.graph.find_nodes(op="call_function", target=_LIFTED):
        raise UnsupportedError(
            f"tracing {name}: numbers become a tensor inside of a branch or a loop, as by "
            "torch.tensor(...) or a list as index, where torch keeps no constants; make the "
            f"tensor outside, or write torch.full(...){_place(node)}"
        )


def _changes_in_place(node: fx.Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    is_mutable = isinstance(schema, torch.FunctionSchema) and schema.is_mutable
    return is_mutable and node.target is not _DETACHED


def _changes_own(node: fx.Node) -> bool:
    """True for a change of the values, not drawn, of a tensor that the same body makes.

    An element ``y[i]`` that data choose is a copy in bodies: it is not changed, nor read after
    ``y`` is.
    """
    target: Any = node.target
    first, *others = target._schema.arguments
    if not first.is_write or any(one.is_write for one in others) or _REFUSED_TAGS & {*target.tags}:
        return False
    if not isinstance(node.args[0], fx.Node):
        return False
    made = _origin(node.args[0])
    if not _is_made(made) or _is_element(made):
        return False
    elements = (one for one in node.graph.nodes if one < node and _is_element(one))
    return not any(
        _origin(one.all_input_nodes[0]) is made and any(node < user for user in _readers(one))
        for one in elements
    )


def _origin(node: fx.Node) -> fx.Node:
    """What makes the memory that a tensor has."""
    while node.target in _VIEWS or _changes_in_place(node):
        node = node.all_input_nodes[0]
    return node


def _readers(node: fx.Node) -> Iterator[fx.Node]:
    """The users of a tensor and of its views."""
    for user in node.users:
        yield user
        if user.target in _VIEWS:
            yield from _readers(user)


def _is_element(node: fx.Node) -> bool:
    """True for a copy of what a tensor of one integer chooses."""
    if node.target is not torch.ops.aten.index.Tensor:
        return False
    return any(place.meta["val"].dim() == 0 for place in node.all_input_nodes[1:])


def _is_made(node: fx.Node) -> bool:
    """True for a tensor in memory of its own.

    Schemas say which results share memory, but those of operators that torch takes apart, as
    ``dropout``, which may return its argument.
    """
    target = node.target
    if target is _TO:
        return _dtype(node) is not _dtype(node.all_input_nodes[0])
    if not isinstance(target, OpOverload) or target.has_kernel_for_dispatch_key(_COMPOSITE):
        return False
    return all(one.alias_info is None for one in target._schema.returns)


def _dtype(node: fx.Node) -> Any:
    return getattr(node.meta.get("val"), "dtype", None)


def _place(node: fx.Node) -> str:
    """The end of a message: the user's line."""
    source = users_source_of(node)
    return f"\n  at {source}" if source else ""
