"""nn.Module -> ExportedProgram: torch.export, functionalisation.

``decompose`` removes mutation, replaces operators by their registered lowerings, and decomposes
operators without a lowering: linear, convolution, normalisation, attention, softmax, gelu and
others stay whole.
"""

import io
import logging
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, redirect_stderr, suppress
from functools import partial
from typing import Any

import torch
from torch import nn
from torch._C import _functorch as func_levels
from torch.distributions import Distribution
from torch.export import ExportedProgram
from torch.fx.experimental import _config
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from aotpack.errors import TraceError, UnsupportedError
from aotpack.ir.dtypes import DType
from aotpack.trace.diagnostics.asked.branches import Branches
from aotpack.trace.diagnostics.asked.caught import ADVICE, sizes_as_integers
from aotpack.trace.diagnostics.assumed import ASSUMED
from aotpack.trace.diagnostics.attempts import PLAIN, attempt_of, exported
from aotpack.trace.diagnostics.complaint import condensed
from aotpack.trace.diagnostics.conditional_copies import check_conditional_copies
from aotpack.trace.diagnostics.conditions import CONDITIONS, ConditionLog, logged_conditions
from aotpack.trace.diagnostics.derived import drop_assumed, with_names
from aotpack.trace.diagnostics.kept_sizes import check_sizes_kept, fixed_sizes
from aotpack.trace.diagnostics.lines import UsersLines, hint_of_views
from aotpack.trace.diagnostics.roundings import check_roundings
from aotpack.trace.host.copies import is_ready
from aotpack.trace.host.devices import OnHost
from aotpack.trace.host.inputs import dropped_inputs, of_one_size, with_arguments, wrong_inputs
from aotpack.trace.host.layers import failed_layer
from aotpack.trace.host.values import fault_of_layout, faults_of_attributes
from aotpack.trace.operators.answers import WithoutDataChecks
from aotpack.trace.operators.any_length import shapes_of_any_length
from aotpack.trace.operators.any_length.elements import CopiedElements
from aotpack.trace.operators.control_flow.changes import check_parts
from aotpack.trace.operators.copies import converted_copies, separate_operands, shared_operands
from aotpack.trace.operators.counted.branches import check_branch_shapes
from aotpack.trace.operators.counted.ranges import (
    keep_counted_ranges,
    noted_checks,
    widen_counted_ranges,
)
from aotpack.trace.operators.decompositions import run_decompositions
from aotpack.trace.operators.detection.branches import without_count_branches
from aotpack.trace.operators.detection.calls import DetectionCalls
from aotpack.trace.operators.layouts import (
    kept_layouts,
    merged_results,
    plain_views,
    replace_plain_views,
)
from aotpack.trace.operators.modes import (
    AlsoInside,
    WithoutKeywords,
    WithoutStreams,
    export_anew,
    in_bodies,
    recorded_helpers,
)
from aotpack.trace.operators.recurrent import RecurrentLoops
from aotpack.trace.operators.registered import RegisteredLowerings
from aotpack.trace.operators.returned_views import copied_results
from aotpack.trace.operators.state import check_memory, check_shapes_kept, distinct_names
from aotpack.trace.operators.windows import copied_windows
from aotpack.trace.source import lend_lines, shown_frame
from aotpack.trace.triton.triton_kernels import TritonPort

_Example = tuple[tuple[Any, ...], dict[str, Any]]
_CHATTY = (
    logging.getLogger("torch._guards"),
    logging.getLogger("torch._subclasses.fake_tensor"),
    logging.getLogger("torch.fx.experimental.symbolic_shapes"),
)


def cast_floats(example: _Example, dtype: DType) -> _Example:
    """The example inputs with every floating tensor in ``dtype``."""
    target = torch_dtype(dtype)

    def cast(leaf: Any) -> Any:
        is_float = isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
        return leaf.to(target) if is_float else leaf

    casted: _Example = pytree.tree_map(cast, example)
    return casted


def torch_dtype(dtype: DType) -> torch.dtype:
    """torch's element type."""
    found = getattr(torch, dtype.value)
    assert isinstance(found, torch.dtype)
    return found


def export(
    module: nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    shapes: dict[str, Any] | None,
    *,
    name: str,
    strict: bool,
    branches: Branches,
    attempt: int = PLAIN,
) -> ExportedProgram:
    """torch.export without gradients, from an ``attempt`` on; its errors are raised condensed."""
    log, lines = ConditionLog(), UsersLines()
    try:
        with (
            quiet_inference(),
            logged_conditions(lambda: lines.operator) as log,
            noted_checks() as checks,
            nullcontext() if strict else lines,  # dynamo cannot look at them
            nullcontext() if strict else sizes_as_integers(),
            recorded_helpers(),
            redirect_stderr(io.StringIO()) as printed,
        ):
            args, named = _distinct(module, (args, dict(kwargs)))
            with replaced_functions():
                how = {"dynamic_shapes": shapes, "strict": strict}
                again = partial(export_anew, module, args, named, **how)
                if not strict:
                    again = partial(branches.caught.checked, again)
                program = exported(again, branches, is_strict=strict, first=attempt)
    except (Exception, SystemExit) as error:
        complaint = condensed(error, log, lines.found.values())
        complaint += ADVICE if branches.caught.is_caught else ""
        complaint = _told(complaint, error, module, (args, dict(kwargs)), shapes, lines.views)
        raise TraceError(f"exporting {name} with torch.export: {complaint}") from error
    program.graph_module.meta[CONDITIONS] = log
    widen_counted_ranges(program, checks)
    _check_exported(program, name, lines, branches)
    sys.stderr.write(printed.getvalue())  # the user's own prints; torch's are only on failure
    return program


def _told(
    complaint: str,
    error: BaseException,
    module: nn.Module,
    example: _Example,
    shapes: dict[str, Any] | None,
    views: Mapping[str, str],
) -> str:
    """The complaint in terms of the arguments, with what is wrong with inputs and attributes."""
    complaint = with_arguments(complaint, module, example)
    complaint += of_one_size(complaint, module, example, shapes)
    hints = wrong_inputs(module, example, error) or dropped_inputs(module, complaint)
    hints = hints or faults_of_attributes(module)
    hints = hints or ("" if "\n  at " in complaint else hint_of_views(views))
    return complaint + hints + failed_layer(module, error)


def _check_exported(
    program: ExportedProgram, name: str, lines: UsersLines, branches: Branches
) -> None:
    _check_layouts(name, program)
    _check_unasked(program, name, branches)
    lend_lines(program.graph_module)
    replace_plain_views(program)
    check_memory(program, name, lines.found)
    check_shapes_kept(program, name)


def _check_unasked(program: ExportedProgram, name: str, branches: Branches) -> None:
    """Refuse ``(n == 3) is True`` of a number that data decide: torch.export sees no question."""
    if line := branches.unasked(program):
        raise TraceError(
            f"exporting {name}: the model asks whether a comparison of numbers that the data "
            "decide is True or False itself, and for torch.export it is neither; accepted are "
            f"conditions: write 'if n == 3', or bool(n == 3)\n  at {shown_frame(line)}"
        )


def _check_layouts(name: str, program: ExportedProgram) -> None:
    """Refuse attributes that the program reads and that are no dense tensors."""
    for place, one in program.constants.items():
        if isinstance(one, torch.Tensor) and (fault := fault_of_layout(one)):
            raise TraceError(f"exporting {name}: the attribute {place} {fault}")


def _distinct(module: nn.Module, example: _Example) -> _Example:
    """The example with distinct tensors for all arguments, none of them a weight or a view.

    torch.export treats a tensor passed twice as one input and leaves the others unused. Of a view
    it guards the base, which no program has.
    """
    taken = {id(tensor) for tensor in (*module.parameters(), *module.buffers())}

    def own(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        leaf = leaf.clone() if id(leaf) in taken else leaf
        if type(leaf) is torch.Tensor and leaf._base is not None and is_ready(leaf):
            place = leaf.untyped_storage(), leaf.storage_offset(), leaf.shape, leaf.stride()
            leaf = torch.empty(0, dtype=leaf.dtype, device=leaf.device).set_(*place)
        taken.add(id(leaf))
        return leaf

    distinct: _Example = pytree.tree_map(own, example)
    return distinct


def _check(program: ExportedProgram, name: str) -> None:
    """Refuse what torch recorded, and a package cannot do."""
    check_parts(program, name)
    check_branch_shapes(name, program)
    check_roundings(name, program)
    check_memory(program, name, {})
    check_shapes_kept(program, name)
    check_conditional_copies(name, program)


def decompose(
    program: ExportedProgram,
    *,
    name: str,
    whole: frozenset[str] | None = None,
    triton: TritonPort | None = None,
) -> ExportedProgram:
    """The program without mutation; operators not in ``whole`` are decomposed."""
    _check(program, name)
    _separate_empty(program)
    fixed = fixed_sizes(program)
    try:
        analysis = nullcontext() if triton is None else triton.analysis()
        with (
            quiet_inference(),
            AlsoInside(DetectionCalls, RegisteredLowerings, WithoutStreams, RecurrentLoops),
            analysis,
            _config.patch(backed_size_oblivious=attempt_of(program) > PLAIN),  # type: ignore[attr-defined]
            shapes_of_any_length(),
            kept_layouts(program),
            plain_views(program),
            copied_windows(program),
            converted_copies(program),
            separate_operands(program),
            copied_results(program),
            distinct_names(program) as others,
        ):
            decomposed = run_decompositions(program, whole)
        decomposed.state_dict.update(others)
        check_sizes_kept(decomposed, program, fixed)
        keep_counted_ranges(decomposed, program)
        log = program.graph_module.meta.get(CONDITIONS, ConditionLog())
        decomposed.graph_module.meta[CONDITIONS] = log
        _assume_again(decomposed, program)
        return decomposed
    except UnsupportedError as error:
        raise UnsupportedError(f"tracing {name}: {error}") from None
    except Exception as error:
        raise _unfunctional(name, program, error) from error


def _assume_again(decomposed: ExportedProgram, program: ExportedProgram) -> None:
    """Leave out of the decomposed program, too, what the exported one assumes of sizes."""
    both = (program.graph_module.meta, decomposed.graph_module.meta)
    if not both[0].get(ASSUMED):
        both[1].update({ASSUMED: ()} if ASSUMED in both[0] else {})
        return
    if refused := drop_assumed(decomposed, ()):
        shown = " and ".join(with_names(program, one) for one in refused)
        raise UnsupportedError(
            f"torch decomposes an operator for sizes alone where {shown}; give the dimensions "
            "ranges where this holds"
        )
    both[0][ASSUMED] = both[1][ASSUMED] = (*both[0][ASSUMED], *both[1][ASSUMED])


def _separate_empty(program: ExportedProgram) -> None:
    """Give tensors without elements memory of their own: export takes tied ones for two."""
    for tensors in (program.state_dict, program.constants):
        for name, tensor in tensors.items():
            if isinstance(tensor, torch.Tensor) and not tensor.numel():
                empty = torch.empty_like(tensor)
                is_weight = isinstance(tensor, nn.Parameter)
                tensors[name] = nn.Parameter(empty, tensor.requires_grad) if is_weight else empty


def _unfunctional(name: str, program: ExportedProgram, error: Exception) -> TraceError:
    """Why a program has no form without mutation."""
    doing, cause = f"functionalising {name}", condensed(error)
    kinds = {type(one).__name__ for one in program.state_dict.values() if _is_object(one)}
    if kinds:
        return TraceError(
            f"{doing}: torch cannot take weights of the kind {' and '.join(sorted(kinds))} apart: "
            f"{cause} Quantise weights alone, or build the float model with --quantize"
        )
    shared = _views_of_one_memory(program)
    what = f"{' and '.join(shared)} share memory; give each its own" if shared else ""
    return TraceError(f"{doing}: {what or cause}")


def _views_of_one_memory(program: ExportedProgram) -> list[str]:
    """Weights that are different views of one storage; none may be changed in place."""
    by_storage: dict[int, dict[tuple[object, ...], str]] = {}
    for name, tensor in program.state_dict.items():
        if _is_object(tensor) or not tensor.numel():
            continue
        layout = (tuple(tensor.shape), tensor.stride(), tensor.storage_offset())
        views = by_storage.setdefault(tensor.untyped_storage().data_ptr(), {})
        views.setdefault(layout, name)
    return next((list(views.values()) for views in by_storage.values() if len(views) > 1), [])


def _is_object(tensor: object) -> bool:
    """True for a tensor that is made of others, as of torchao."""
    return isinstance(tensor, torch.Tensor) and is_traceable_wrapper_subclass(tensor)


def _leave_levels(depth: int) -> None:
    """Leave the levels of ``torch.func`` above ``depth``, and that of forward derivatives."""
    if func_levels.get_dynamic_layer_stack_depth() == depth:
        return
    func_levels.pop_dynamic_layer_stack_and_undo_to_depth(depth)
    with suppress(RuntimeError):  # there is one at most, and none without jvp
        torch._C._exit_dual_level(level=0)


@contextmanager
def replaced_functions() -> Iterator[None]:
    """Inside the block, functions that export cannot take are others that give the same."""
    with (
        in_bodies(WithoutDataChecks, CopiedElements),
        WithoutStreams(),
        WithoutKeywords(),
        OnHost(),
        RecurrentLoops(),
        DetectionCalls(),
        shapes_of_any_length(),
        without_count_branches(),
    ):
        yield


@contextmanager
def quiet_inference() -> Iterator[None]:
    """No gradients, no fused encoder kernels (which hide operators), no torch log on stderr.

    What torch's compiler changes in the process is put back: whether distributions check arguments.
    So are the levels of ``torch.func`` that a program entered, where an error kept it from leaving.
    """
    depth = func_levels.get_dynamic_layer_stack_depth()
    validates = Distribution._validate_args
    fast_path = torch.backends.mha.get_fastpath_enabled()
    disabled = [log.disabled for log in _CHATTY]
    for log in _CHATTY:
        log.disabled = True
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with torch.no_grad(), warnings.catch_warnings(), merged_results(), shared_operands():
            warnings.simplefilter("ignore")
            yield
    finally:
        _leave_levels(depth)
        Distribution.set_default_validate_args(validates)
        torch.backends.mha.set_fastpath_enabled(fast_path)
        for log, before in zip(_CHATTY, disabled, strict=True):
            log.disabled = before
