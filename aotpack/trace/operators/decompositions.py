"""The decomposition tables; operators with a lowering stay whole.

``ExportedProgram.run_decompositions`` rebuilds its tables for each program and registers all of
torch's composite operators, which takes longer than tracing a small program. Most composites need
no entry: torch decomposes them by default. So its two private steps are called directly if their
signatures are the known ones (torch 2.11 to 2.15), else the public method.
"""

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from functools import cache, partial
from typing import Any, TypeAlias

import torch
from torch import fx
from torch._ops import OpOverload
from torch.export import ExportedProgram, exported_program
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from aotpack.errors import TraceError
from aotpack.ir.names import free_name
from aotpack.trace.diagnostics.guards import guards_of
from aotpack.trace.operators.any_length import (
    WINDOWS,
    affine_points,
    counted,
    frequencies,
    half_frequencies,
)
from aotpack.trace.operators.positions import arguments_of
from aotpack.trace.operators.quantized.decomposed import decomposed_table
from aotpack.trace.operators.recurrent import is_recurrent
from aotpack.trace.operators.registered import registered

KEPT_WHOLE = frozenset(
    {
        "aten.complex.default",
        "aten.polar.default",
    }  # decomposed by writes into a new tensor: not functional
    | {
        "aten.igamma.default",
        "aten.igammac.default",
        "aten.special_zeta.default",
    }  # decomposed into themselves
    | {
        "aten.linalg_cholesky.default",
        "aten.linalg_inv.default",
        "aten.linalg_ldl_factor.default",
        "aten.linalg_lu_factor.default",
        "aten.linalg_solve.default",
    }  # decomposed into a check on the host, which is ordered by effect tokens
)

Table: TypeAlias = Mapping[Any, Callable[..., Any]]

_CHECKED = frozenset(
    (
        torch.ops.aten.sym_size.int,
        torch.ops.aten.sym_stride.int,
        torch.ops.aten._assert_tensor_metadata.default,
    )
)
"""Operators on what is known of a tensor without its elements."""
_TRAINING = ("train", "training")  # arguments with which an operator draws, or changes statistics

_STEPS = {
    "_split_decomp_table_to_cia_and_python_decomp": ("decomp_table",),
    "_decompose_exported_program": (
        *("ep", "cia_to_decomp", "python_decomp_table"),
        *("joint_loss_index", "decompose_custom_triton_ops"),
    ),
}
"""The two steps, with their parameters."""


def run_decompositions(program: ExportedProgram, whole: frozenset[str] | None) -> ExportedProgram:
    """Decompose all operators that ``whole`` does not name, where torch can.

    A program that this would leave as it is, is copied: tracing it again takes longer than
    exporting a small one.
    """
    late = {} if whole is None else decomposed_table()
    if not all(_is_known(name, parameters) for name, parameters in _STEPS.items()):
        with _as_module(program) as restored:
            return restored(program.run_decompositions({**_table(whole), **late}))
    split, decompose = (getattr(exported_program, name) for name in _STEPS)
    composite, others = _split_table(split, whole)
    python = {**others, **late}
    if whole is not None and _is_decomposed(program, whole, python):
        return _copied(program)
    with _as_module(program) as restored:
        return restored(
            decompose(
                program,
                cia_to_decomp=dict(composite),
                python_decomp_table=python,
                joint_loss_index=None,
                decompose_custom_triton_ops=False,
            )
        )


@contextmanager
def _as_module(program: ExportedProgram) -> Iterator[Callable[[ExportedProgram], ExportedProgram]]:
    """Inside the block, torch can make a module of the program; what it makes of that, restored.

    No weight has a name of fx.GraphModule, as ``code``. Conditions on sizes are not asked again:
    Python's ``min`` of two sizes asks which one is less.
    """
    names, guards = _own_names(program), guards_of(program)

    def restored(done: ExportedProgram) -> ExportedProgram:
        _rename(done, names)
        done._guards_code = [*dict.fromkeys((*guards, *guards_of(done)))]
        return done

    _rename(program, {old: new for new, old in names.items()})
    program._guards_code = []
    try:
        yield restored
    finally:
        _rename(program, names)
        program._guards_code = guards


def _own_names(program: ExportedProgram) -> dict[str, str]:
    """The names of weights that fx.GraphModule has too, by others that are free."""
    taken = {*dir(fx.GraphModule(torch.nn.Module(), fx.Graph()))}
    targets = [one.target for one in program.graph_signature.input_specs if one.target is not None]
    firsts = {target: target.partition(".")[0] for target in targets}
    used, free = taken.union(firsts.values()), dict[str, str]()
    for first in firsts.values():
        if first in taken and first not in free:
            free[first] = free_name(f"{first}_of_model", used)
            used.add(free[first])
    return {free[f] + name[len(f) :]: name for name, f in firsts.items() if f in free}


def _rename(program: ExportedProgram, names: Mapping[str, str]) -> None:
    """Give weights and constants other names, in place."""
    signature = program.graph_signature
    for spec in (*signature.input_specs, *signature.output_specs):
        spec.target = names.get(spec.target or "", spec.target)
    for tensors in (program.state_dict, program.constants) if names else ():
        items = [(names.get(name, name), one) for name, one in tensors.items()]
        tensors.clear()
        tensors.update(items)


def _is_decomposed(program: ExportedProgram, whole: frozenset[str], table: Table) -> bool:
    """True if tracing the program again would give operators of the same meaning."""
    tensors = (*program.state_dict.values(), *program.constants.values())
    return not any(map(is_traceable_wrapper_subclass, tensors)) and all(
        _stays(node, whole, table) for node in program.graph.nodes
    )


def _stays(node: fx.Node, whole: frozenset[str], table: Table) -> bool:
    """True for an operator with a lowering that changes nothing, and for arithmetic on sizes.

    torch decomposes composite views, such as ``reshape``, into others, to track what changes.
    Complex numbers and sizes that data decide are found by the operators of decompositions.
    """
    if _is_complex_or_counted(node.meta.get("val")):
        return False
    target = node.target
    if not isinstance(target, OpOverload):
        is_arithmetic = getattr(target, "__module__", None) in ("_operator", "math")
        return node.op in ("placeholder", "output") or is_arithmetic
    if target in _CHECKED:
        return True
    given = arguments_of(node)
    return not (
        str(target) not in whole
        or target in table
        or (target in _IN_DOUBLE and node.meta["val"].dtype is torch.float64)
        or target._schema.is_mutable
        or any(given.get(name) for name in _TRAINING)
        or registered(target)
        or is_recurrent(target)
    )


def _is_complex_or_counted(value: Any) -> bool:
    """True for a value with complex tensors, or with sizes or numbers that data decide."""
    leaves = value if isinstance(value, (tuple, list)) else (value,)
    return any(isinstance(one, torch.Tensor) and one.is_complex() for one in leaves) or bool(
        free_unbacked_symbols(leaves)
    )


def _copied(program: ExportedProgram) -> ExportedProgram:
    """The program with a graph and tables of its own."""
    module, graph = program.graph_module, deepcopy(program.graph)
    for node, copy in zip(program.graph.nodes, graph.nodes, strict=True):
        copy.name = node.name  # fx gives other names to those of Python, such as "input"
    copied = fx.GraphModule(module, graph)
    copied.meta.update(module.meta)
    return program._update(
        copied,
        program.graph_signature,
        state_dict={**program.state_dict},
        constants={**program.constants},
    )


def _is_known(step: str, parameters: tuple[str, ...]) -> bool:
    """True if this torch has the private function with the expected parameters."""
    found = getattr(exported_program, step, None)
    return found is not None and tuple(inspect.signature(found).parameters) == parameters


@cache
def _split_table(split: Callable[..., Any], whole: frozenset[str] | None) -> tuple[Table, Table]:
    """Split the table: composite operators, then all others.

    The first has the composite operators (torch's CompositeImplicitAutograd) that are kept or have
    a decomposition in Python; torch's default applies to the rest.
    """
    composite, others = split(dict(_table(whole)))
    kept = {op: made for op, made in composite.items() if not _is_own(made)}
    return (kept if whole is None else {**kept, **_IN_DOUBLE}), others


@cache
def _table(whole: frozenset[str] | None) -> Table:
    """torch's tables without ``whole`` (None: empty); export's wins, as it is the stable one."""
    if whole is None:
        return {}
    exported: Any = torch.export.default_decompositions()
    known, kept = {**_whole_table(), **dict(exported.items()), **_OWN}, whole | KEPT_WHOLE
    return {operator: made for operator, made in known.items() if str(operator) not in kept}


def _multilabel_margin_loss(
    x: torch.Tensor, target: torch.Tensor, reduction: int = 1
) -> torch.Tensor:
    """The labels of a row end at the first that is negative.

    torch's own decomposition counts the pairs behind it too, up to torch 2.13.
    """
    scores, labels = (x, target) if x.dim() == 2 else (x.reshape(1, -1), target.reshape(1, -1))
    present = (labels < 0).cumsum(1) == 0
    safe = torch.where(present, labels, 0)
    classes = torch.arange(scores.shape[1])
    members = ((safe[..., None] == classes) & present[..., None]).any(1)
    margins = (1 - scores.gather(1, safe)[..., None] + scores[:, None]).clamp_min(0)
    counted = present[..., None] & ~members[:, None]
    loss: torch.Tensor = torch.where(counted, margins, 0).sum((1, 2)) / scores.shape[1]
    if reduction:
        loss = loss.mean() if reduction == 1 else loss.sum()
    elif x.dim() < 2:
        loss = loss.squeeze(0)
    return loss


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """Of float64 by its formula, where a query without keys gives 0; other types stay whole."""
    if query.dtype is not torch.float64 or dropout_p > 0:
        return NotImplemented
    if enable_gqa:
        shared = query.shape[-3] // key.shape[-3]
        key, value = (one.repeat_interleave(shared, -3) for one in (key, value))
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    logits = query @ key.mT * factor
    if is_causal:
        places = [torch.arange(length) for length in logits.shape[-2:]]
        logits = torch.where(places[1] <= places[0][:, None], logits, -math.inf)
    if attn_mask is not None and attn_mask.dtype is torch.bool:
        logits = torch.where(attn_mask, logits, -math.inf)
    elif attn_mask is not None:
        logits = logits + attn_mask
    return torch.ops.aten._safe_softmax(logits, -1) @ value


def _range(start: Any, end: Any, step: Any = 1, **options: Any) -> torch.Tensor:
    """The end belongs to it."""
    places: torch.Tensor = counted(math.floor((end - start) / step) + 1, options) * step + start
    return places


_ATEN = torch.ops.aten
_IN_DOUBLE: Table = {_ATEN.scaled_dot_product_attention.default: _attention}
"""Operators that stay whole in other types than float64."""

_OWN: Table = {
    _ATEN.multilabel_margin_loss.default: _multilabel_margin_loss,
    _ATEN.affine_grid_generator.default: affine_points,
    _ATEN.fft_fftfreq.default: frequencies,
    _ATEN.fft_rfftfreq.default: half_frequencies,
    _ATEN.range.default: _range,
    _ATEN.range.step: _range,
    **{
        getattr(getattr(_ATEN, name), overload): WINDOWS[name]
        for name, more in (
            ("bartlett_window", ()),
            ("blackman_window", ()),
            ("hamming_window", ("periodic_alpha", "periodic_alpha_beta")),
            ("kaiser_window", ("beta",)),
        )
        for overload in ("default", "periodic", *more)
    },
}


def _whole_table() -> Table:
    table: Table | None = getattr(getattr(torch, "_decomp", None), "decomposition_table", None)
    if table is None:
        raise TraceError(
            f"torch {torch.__version__} has no torch._decomp.decomposition_table, by which "
            "operators are taken apart; torch 2.11 to 2.15 have it"
        )
    return table


def _is_own(decomposition: Callable[..., Any]) -> bool:
    """True for torch's default decomposition of a composite operator."""
    return isinstance(decomposition, partial) and "kernel" in decomposition.keywords
