"""What bodies of branches and loops may change in place: what they make themselves.

Torch functionalises such changes. It does not tell whether others reach an operand, where a view
may be a copy for some sizes.
"""

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
_NEW = {
    torch.ops.aten.linear.default,
    torch.ops.aten.matmul.default,
    torch.ops.aten.softmax.int,
    torch.ops.aten.log_softmax.int,
    torch.ops.aten.layer_norm.default,
}
"""Operators that torch takes apart and whose results are new."""
_VIEWS = {
    getattr(getattr(torch.ops.aten, name), overload)
    for name, overload in (
        *(("select", "int"), ("slice", "Tensor"), ("narrow", "default"), ("alias", "default")),
        *(("unsqueeze", "default"), ("squeeze", "default"), ("squeeze", "dim")),
        *(("transpose", "int"), ("permute", "default"), ("t", "default"), ("mT", "default")),
        *(("movedim", "int"), ("movedim", "intlist"), ("swapaxes", "default")),
        *(("diagonal", "default"), ("expand", "default"), ("view", "default")),
        ("detach", "default"),
    )
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
                "loop, which the body may not have made, or of which a view is read later; return "
                "the new value from there, and assign it outside, or change and read what "
                f".clone() gives; y[k] += 1 of a tensor k is y[k] = y[k] + 1{_place(node)}"
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
    ``y`` is. So are results that may be the tensor itself.
    """
    target: Any = node.target
    first, *others = target._schema.arguments
    if not first.is_write or any(one.is_write for one in others) or _REFUSED_TAGS & {*target.tags}:
        return False
    if not isinstance(node.args[0], fx.Node):
        return False
    made = _origin(node.args[0])
    return _is_new(made) and not _is_element(made) and not _is_read_later(made, node)


def _origin(node: fx.Node) -> fx.Node:
    """What makes the memory that a tensor has."""
    while node.target in _VIEWS or _changes_in_place(node):
        node = node.all_input_nodes[0]
    return node


def _is_read_later(made: fx.Node, change: fx.Node) -> bool:
    """True where a copy from before the change may stand for a view that is read after it."""
    views, copies = [made], list[fx.Node]()
    for node in views:
        for user in node.users:
            if user.target in _VIEWS or (_changes_in_place(user) and user.args[0] is node):
                views.append(user)
            elif user < change and not _reads(user):
                return True
            elif user < change and _is_element(user):
                copies.append(user)
    for node in copies:
        for user in node.users:
            if user.target in _VIEWS:
                copies.append(user)
            elif change < user or not _reads(user):
                return True
    return False


def _reads(user: fx.Node) -> bool:
    """True for a user of a tensor, other than a change of it, of which no result is a view."""
    return _is_new(user) or _changes_in_place(user)


def _is_element(node: fx.Node) -> bool:
    """True for a copy of what a tensor of one integer chooses."""
    if node.target is not torch.ops.aten.index.Tensor:
        return False
    return any(place.meta["val"].dim() == 0 for place in node.all_input_nodes[1:])


def _is_new(node: fx.Node) -> bool:
    """True for results in memory of their own.

    Schemas say which share memory, but for operators that torch takes apart, as ``dropout``, which
    may return its argument.
    """
    target = node.target
    if target is _TO:
        return _dtype(node) is not _dtype(node.all_input_nodes[0])
    if not isinstance(target, OpOverload):
        return False
    is_whole = target in _NEW or not target.has_kernel_for_dispatch_key(_COMPOSITE)
    return is_whole and all(one.alias_info is None for one in target._schema.returns)


def _dtype(node: fx.Node) -> Any:
    return getattr(node.meta.get("val"), "dtype", None)


def _place(node: fx.Node) -> str:
    """The end of a message: the user's line."""
    source = users_source_of(node)
    return f"\n  at {source}" if source else ""
