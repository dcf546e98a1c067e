"""Scales that are exponents alone (``float8_e8m0fnu``, of MX formats) as the bytes they are.

Programs of torchao move such tensors and read their bits. Where nothing else is done with them,
they are ``uint8`` from the weights on; else they stay, and lowering names what reads them.
"""

import torch
from torch import fx
from torch.export import ExportedProgram

EXPONENTS = torch.float8_e8m0fnu
_VIEW = torch.ops.aten.view.dtype
_MOVES = frozenset(
    f"aten::{name}"
    for name in """
    _unsafe_view alias clone contiguous detach expand permute reshape select slice squeeze t
    transpose unsqueeze view
    """.split()
)


def with_bytes(program: ExportedProgram) -> ExportedProgram:
    """The program, changed in place where it has such scales and only moves them."""
    graph = program.graph
    held = [node for node in graph.nodes if _is_exponent(node)]
    if not held or not all(map(_is_moved, held)):
        return program
    for node in held:
        node.meta["val"] = node.meta["val"].view(torch.uint8)
    for node in [one for one in graph.nodes if one.target is _VIEW]:
        if node.args[1] in (EXPONENTS, torch.uint8) and _dtype(node.args[0]) == torch.uint8:
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
    for tensors in (program.state_dict, program.constants):
        for name, tensor in [*tensors.items()]:
            if isinstance(tensor, torch.Tensor) and tensor.dtype == EXPONENTS:
                tensors[name] = tensor.detach().view(torch.uint8)
    program.graph_module.recompile()
    return program


def _dtype(node: object) -> torch.dtype | None:
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    return value.dtype if isinstance(value, torch.Tensor) else None


def _is_exponent(node: fx.Node) -> bool:
    return _dtype(node) == EXPONENTS


def _is_moved(node: fx.Node) -> bool:
    """True if a node has such scales from bytes or other such, and if so do its readers."""
    return (node.op == "placeholder" or _moves(node)) and all(
        _moves(user) and _dtype(user) in (EXPONENTS, torch.uint8) for user in node.users
    )


def _moves(node: fx.Node) -> bool:
    if node.target is _VIEW:
        return _dtype(node.args[0]) in (EXPONENTS, torch.uint8)
    schema = getattr(node.target, "_schema", None)
    return schema is not None and schema.name in _MOVES
