"""Writes through windows, as copies into their base.

torch's functionalisation undoes ``unfold`` for the example's sizes, and writes zeros where no
window is. Here the windows are copied, changed, and put back:

    t.unfold(0, 2, 3).neg_()   ->   w = unfold_copy(t, 0, 2, 3)
                                    w.neg_()
                                    t.copy_(t.where(covered, w[window, offset]))
"""

import operator
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from aotpack.errors import UnsupportedError
from aotpack.trace.changes import aliased
from aotpack.trace.operators.copies import inserted
from aotpack.trace.source import users_source_of

_ATEN = torch.ops.aten
_UNFOLD = _ATEN.unfold.default


@contextmanager
def copied_windows(program: ExportedProgram) -> Iterator[None]:
    """Inside the block, writes through windows are writes to copies, which are put back.

    UnsupportedError for windows that share elements, and for other ways to write than to a view.
    """
    graphs = [m.graph for m in program.graph_module.modules() if isinstance(m, fx.GraphModule)]
    known = [one for one in graphs if one.find_nodes(op="call_function", target=_UNFOLD)]
    writes = [node for one in known for node in one.nodes if _changes_windows(node)]
    before = [(node, node.target, node.args, node.kwargs) for node in writes]
    added: list[fx.Node] = []
    try:
        for node in writes:
            _write_to_copies(node, added)
        yield
    finally:
        for node, target, args, kwargs in before:
            node.target, node.args, node.kwargs = target, args, kwargs
        for new in reversed(added):
            new.graph.erase_node(new)


def _changes_windows(node: fx.Node) -> bool:
    """True for an operator that changes a view of windows; UnsupportedError for other ways."""
    if not isinstance(node.target, torch._ops.OpOverload) or not node.target._schema.is_mutable:
        return False
    written = [value for argument, value in aliased(node) if argument.alias_info.is_write]
    if not any(map(_from_windows, pytree.tree_leaves(written))):
        return False
    if not _returns_first(node) or not _from_windows(node.args[0]):
        raise _refusal(
            node,
            "changes what unfold(...) shows by out= or in a list. Accepted is an operator in "
            "place, as w.mul_(2), or w.copy_(...)",
        )
    return True


def _returns_first(node: fx.Node) -> bool:
    """True for an operator that returns what it changes, its first argument."""
    schema = node.target._schema  # type: ignore[union-attr]
    ends = (schema.arguments[0].alias_info, *(one.alias_info for one in schema.returns))
    return len(ends) == 2 and all(one is not None and one.is_write for one in ends)


def _from_windows(changed: Any) -> list[fx.Node]:
    """The views from windows of a base to what is changed; none for other tensors."""
    shown = [*_shown(changed)][::-1]
    are_windows = (one.target is _UNFOLD and one.args[0].meta["val"].dim() > 0 for one in shown)  # type: ignore[union-attr]
    first = next((place for place, found in enumerate(are_windows) if found), len(shown))
    return shown[first:]


def _shown(value: Any) -> Iterator[fx.Node]:
    """A view, and what it is a view of."""
    while isinstance(value, fx.Node):
        yield value
        target = value.target
        is_same = target is operator.getitem or (
            isinstance(target, torch._ops.OpOverload)
            and (target.is_view or target._schema.is_mutable)
        )
        value = value.args[0] if is_same and value.args else None


def _write_to_copies(node: fx.Node, added: list[fx.Node]) -> None:
    """Insert the write to a copy before an operator, which becomes the view that it changed."""
    views = _from_windows(node.args[0])
    if not views:
        return
    base, *_ = views[0].args
    assert isinstance(base, fx.Node)
    dim, size, step = _checked(node, views[0])
    made = _Inserter(node, added)
    with node.graph.inserting_before(node):
        copy = made.call(_ATEN.unfold_copy.default, base, *views[0].args[1:])
        copy.meta["val"] = views[0].meta["val"]
        changed = copy
        for view in views[1:]:
            if not _is_in_place(view):
                changed = made.call(view.target, changed, *view.args[1:], **view.kwargs)
                changed.meta["val"] = view.meta["val"]
        write = made.call(node.target, changed, *node.args[1:], **node.kwargs)
        write.meta["val"] = node.meta["val"]
        made.put_back(base, copy, dim, size, step)
    node.target, node.args, node.kwargs = _ATEN.alias.default, (views[-1],), {}
    _write_to_copies(write, added)  # windows of windows


def _checked(node: fx.Node, windows: fx.Node) -> tuple[int, int, int]:
    """The dimension of windows, their size, and a step that is no smaller."""
    base, dim, size, step = windows.args
    assert isinstance(dim, int) and isinstance(size, int) and isinstance(step, int)
    shape = base.meta["val"].shape  # type: ignore[union-attr]
    dim = range(len(shape))[dim]
    is_single = isinstance(shape[dim], int) and shape[dim] < size + step
    if size > step and not is_single:
        raise _refusal(
            node,
            f"changes windows of {size} elements in steps of {step}, which share elements, so one "
            "is written more than once. Accepted are steps of the size or more; write .clone() "
            "behind unfold(...), or change the tensor itself by an index",
        )
    return dim, size, max(size, step)


def _refusal(node: fx.Node, what: str) -> UnsupportedError:
    line = users_source_of(node)
    return UnsupportedError(f"{node.target} {what}" + (f"\n  at {line}" if line else ""))


def _is_in_place(node: fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


class _Inserter:
    """Inserts calls that belong to another one's line."""

    def __init__(self, owner: fx.Node, added: list[fx.Node]) -> None:
        self.owner, self.added = owner, added

    def call(self, target: Any, *args: Any, **kwargs: Any) -> fx.Node:
        new = inserted(self.owner, target, *args, **kwargs)
        self.added.append(new)
        return new

    def put_back(self, base: fx.Node, copy: fx.Node, dim: int, size: int, step: int) -> None:
        """Copy windows to where they are from; what no window covers keeps its value."""
        call, known = self.call, base.meta["val"]
        length = known.shape[dim]
        if not isinstance(length, int):
            length = call(_ATEN.sym_size.int, base, dim)
        place = call(_ATEN.arange.default, length)
        offset = call(_ATEN.remainder.Scalar, place, step)
        begin = call(_ATEN.sub.Tensor, place, offset)
        inside = call(_ATEN.lt.Scalar, offset, size)
        whole = call(_ATEN.le.Scalar, begin, call(operator.sub, length, size))
        covered = call(_ATEN.logical_and.default, inside, whole)
        window = call(_ATEN.div.Tensor_mode, begin, step, rounding_mode="floor")
        at = [call(_ATEN.mul.Tensor, one, covered) for one in (window, offset)]
        order = [*range(dim + 1), known.dim(), *range(dim + 1, known.dim())]
        rows = call(_ATEN.permute.default, copy, order)
        spread = call(_ATEN.index.Tensor, rows, [*[None] * dim, *at])
        shape = [-1 if one == dim else 1 for one in range(known.dim())]
        chosen = call(_ATEN.where.self, call(_ATEN.view.default, covered, shape), spread, base)
        chosen.meta["val"] = known
        call(_ATEN.copy_.default, base, chosen)
