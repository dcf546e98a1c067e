"""Nodes compared without the names in them, and nodes with other operands."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace

from aotpack.ir.graph import CALL
from aotpack.stages import Arg, GraphNode, Ref, TensorSpec, every_node

PRODUCTS = ("linear", "mm", "matmul", "conv", "attention")  # in the names of operators


def node_key(node: GraphNode, specs: Mapping[Ref, TensorSpec]) -> Hashable:
    """What a node computes: equal for nodes that differ in the tensors they take alone.

    A node with bodies equals no other: it runs programs of its own.
    """
    if node.bodies:
        return node.name
    results = tuple((spec.dtype, spec.shape) for spec in node.results)
    kwargs = tuple((name, _constant(arg, specs)) for name, arg in node.kwargs)
    own = node.kernel, node.grid, node.changes, node.rounds
    return node.op, _constant(node.args, specs), kwargs, results, own


def _constant(arg: Arg, specs: Mapping[Ref, TensorSpec]) -> Hashable:
    """An argument with types and shapes in place of tensors; 1, 1.0 and True differ."""
    if isinstance(arg, Ref):
        return specs[arg].dtype, specs[arg].shape
    if isinstance(arg, tuple):
        return tuple(_constant(part, specs) for part in arg)
    return type(arg).__name__, repr(arg) if isinstance(arg, float) else arg


def is_counted(nodes: Sequence[GraphNode]) -> bool:
    """True if data decide sizes: what waits for a size is no stretch of layers."""
    return any(node.counts for node in every_node(nodes))


def has_product(nodes: Sequence[GraphNode]) -> bool:
    """True if an operator is a product of matrices, a convolution or attention."""
    return any(word in node.op for node in nodes for word in PRODUCTS)


def with_refs(node: GraphNode, change: Callable[[Ref], Ref]) -> GraphNode:
    """The node with each operand changed, in order; the bodies of calls see none of these."""
    args = tuple(_changed(arg, change) for arg in node.args)
    kwargs = tuple((name, _changed(arg, change)) for name, arg in node.kwargs)
    bodies = node.bodies
    if node.op != CALL:
        bodies = tuple(
            replace(
                body,
                nodes=tuple(with_refs(inner, change) for inner in body.nodes),
                outputs=tuple(_changed(arg, change) for arg in body.outputs),
            )
            for body in bodies
        )
    return replace(node, args=args, kwargs=kwargs, bodies=bodies)


def _changed(arg: Arg, change: Callable[[Ref], Ref]) -> Arg:
    if isinstance(arg, Ref):
        return change(arg)
    return tuple(_changed(part, change) for part in arg) if isinstance(arg, tuple) else arg
