"""The entry of the stage: modules and example inputs in, a ``Traced`` for each method out.

The user's modules are never changed: copies that share their weights are put into eval mode,
exported and run. Sizes are at least 1; a size without an upper bound ends at ``LARGEST_SIZE``.
"""

from collections.abc import Callable, Container, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from torch import nn
from torch.export import ExportedProgram

from aotpack.errors import AotpackError, TraceError, UsageError
from aotpack.ir.dtypes import DType
from aotpack.ir.golden import SIZE
from aotpack.ir.ops.quantization import Quantization
from aotpack.stages import Graph, Traced
from aotpack.trace.agreement.attributes import Attributes
from aotpack.trace.agreement.lowerings import check_lowerings
from aotpack.trace.agreement.other_inputs.keys import with_key_order
from aotpack.trace.agreement.other_methods import check_other_methods
from aotpack.trace.agreement.own_seeds import check_own_seed, own_seed
from aotpack.trace.agreement.surroundings import without_caches
from aotpack.trace.capture import cast_floats, decompose, export
from aotpack.trace.diagnostics.asked.branches import Branches
from aotpack.trace.diagnostics.attempts import ASSERTING, PLAIN, attempt_of
from aotpack.trace.diagnostics.collectives import check_collectives
from aotpack.trace.diagnostics.derived import check_asserted
from aotpack.trace.diagnostics.guards import LeafSpec
from aotpack.trace.diagnostics.multiples import SomeSizesError
from aotpack.trace.dynamic import leaf_specs, specs_by_argument
from aotpack.trace.eager import Call, in_program_order
from aotpack.trace.golden.budget import why_not_compared
from aotpack.trace.golden.ways import Ways
from aotpack.trace.graph import build_graph
from aotpack.trace.host.copies import HostCopies
from aotpack.trace.host.inputs import check_arrays, given_example
from aotpack.trace.host.program_inputs import check_program_inputs
from aotpack.trace.host.turns import one_at_a_time
from aotpack.trace.host.values import check_results, check_values, without_values
from aotpack.trace.layers.adapters import with_scaling
from aotpack.trace.layers.named_arguments import name_arguments
from aotpack.trace.methods import Method, evaluation_copies, module_of, root_of
from aotpack.trace.names import with_common_names
from aotpack.trace.operators.control_flow.control import without_subgraphs
from aotpack.trace.operators.random.functions import Asked
from aotpack.trace.operators.random.seeds import (
    Example,
    check_drawn,
    draws,
    reads_seed,
    seeded,
    with_example_seed,
)
from aotpack.trace.operators.state import check_caches, with_state
from aotpack.trace.parameters import with_parameters
from aotpack.trace.quantize.exponents import with_bytes
from aotpack.trace.quantize.layers import quantize
from aotpack.trace.quantize.subclasses import with_plain_weights
from aotpack.trace.triton.triton_kernels import TritonPort, launches_kernels
from aotpack.trace.weights import memory_of_names

Exported: TypeAlias = tuple[ExportedProgram, nn.Module, Example, tuple[LeafSpec, ...], Branches]


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """What holds for all methods of a package.

    ``dtype`` casts weights and floating inputs first, ``quantize`` makes codes of weights.
    ``check_indices`` asserts that indices read
    from data are in range. Operators not in ``whole`` are decomposed where torch can (None: no
    operator is). ``refusal`` says why an operator has no lowering, or None if it has one: errors
    list the former too. ``triton`` runs models that launch Triton kernels. ``reserved`` are names
    that no size may have. ``golden`` are the bytes of golden data: infinity for whole data, 0 for
    none; with ``fp32_precision`` "tf32" they admit the errors of factors in tf32.
    Without ``needs_weights``, they may be on meta.
    """

    name: str
    version: str
    dtype: DType | None = None
    quantize: Quantization | None = None
    strict: bool = False
    check_indices: bool = False
    whole: frozenset[str] | None = None
    refusal: Callable[[str], str | None] | None = None
    triton: TritonPort | None = None
    reserved: Container[str] = ()
    golden: float = SIZE
    fp32_precision: str = "ieee"
    needs_weights: bool = True


@dataclass(frozen=True, slots=True)
class _Given:
    """A method as given, checked."""

    label: str  # in errors, and the name of its products
    module: nn.Module | ExportedProgram
    example: Example
    dynamic_shapes: Any


@dataclass(frozen=True, slots=True)
class _Made:
    """A method's product, with its own names of weights, the program that has them, and the call
    of the model, None where eager cannot run."""

    traced: Traced
    program: ExportedProgram
    call: Call | None


@dataclass(frozen=True, slots=True)
class _Read:
    """The graph, the program that it was read from and the exported one, with what it runs on.

    ``absent`` are weights and inputs without values.
    """

    graph: Graph
    program: ExportedProgram
    exported: ExportedProgram
    run: nn.Module
    example: Example
    branches: Branches
    absent: str


def trace(
    module: nn.Module | ExportedProgram,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    **options: Any,
) -> Traced:
    """Export the module for inference and record golden data on the example inputs.

    ``dynamic_shapes`` has torch.export's form; ``options`` are those of ``TraceOptions``.
    """
    method = Method(module, args, kwargs, dynamic_shapes)
    return trace_methods({"": method}, TraceOptions(**options))[""]


def trace_methods(methods: Mapping[str, Method], options: TraceOptions) -> dict[str, Traced]:
    """The same for each method of a package; a tensor has one name in all of them.

    A method's product is called as in a call, ``llm.decode``; the only method "" as the package.
    """
    with one_at_a_time():
        return _trace_methods(methods, options)


def _trace_methods(methods: Mapping[str, Method], options: TraceOptions) -> dict[str, Traced]:
    copies = HostCopies()
    given = {name: _given(name, method, options) for name, method in methods.items()}
    modules = {n: one.module for n, one in given.items() if isinstance(one.module, nn.Module)}
    runs = evaluation_copies(modules, options.dtype, copies)
    with_plain_weights([*map(root_of, runs.values())])
    given = {n: replace(one, example=_example(one, copies, options)) for n, one in given.items()}
    calls = {name: (run, given[name].example) for name, run in runs.items()}
    with_scaling(calls, copies)
    lines = quantize(calls, options.quantize, options.name, copies)
    each = replace(options, golden=options.golden / len(given))
    found = {n: _traced(one, runs.get(n), copies, each) for n, one in given.items()}
    if [*methods] == [""]:
        return {"": replace(found[""].traced, quantized=lines)}
    check_other_methods(options.name, {n: one.call for n, one in found.items() if one.call})
    own = {
        n: (replace(one.traced, quantized=lines), memory_of_names(one.program))
        for n, one in found.items()
    }
    return with_common_names(options.name, own)  # programs live: no address stands for two tensors


def _given(name: str, method: Method, options: TraceOptions) -> _Given:
    label = f"{options.name}.{name}" if name else options.name
    example = given_example(label, method.args, method.kwargs)
    module = module_of(label, method.function)
    check_arrays(label, module, example)
    if isinstance(module, ExportedProgram):
        _refuse_changes(label, method.dynamic_shapes, options)
        check_program_inputs(label, module, example)
    else:
        check_caches(label, module)
        check_values(label, module, example)
    return _Given(label, module, example, method.dynamic_shapes)


def _traced(
    given: _Given, run: nn.Module | None, copies: HostCopies, options: TraceOptions
) -> _Made:
    if run is not None:
        shapes = specs_by_argument(run, *given.example, given.dynamic_shapes)
        given = replace(given, dynamic_shapes=shapes)
        if shapes:
            name_arguments(run, *given.example)
    found = _read(given, run, copies, options)
    graph = with_parameters(found.graph, given.module, found.program)
    runs = not found.absent and not launches_kernels(found.exported)
    is_module = isinstance(given.module, nn.Module)
    own = options.triton, options.fp32_precision, found.branches.noted
    ways = Ways(found.exported, found.program, found.run if runs else None, is_module, *own)
    golden = ways.golden(found.example, graph, options.golden, found.absent)
    call = None
    if found.run is not None and runs and is_module:
        call = Call(found.run, found.exported, found.example, graph.signature)
    cheap = None if why_not_compared(found.program) else call
    graph = replace(graph, signature=with_key_order(graph.signature, given.module, cheap))
    return _Made(Traced(graph, golden), found.program, call)


def _read(
    given: _Given,
    run: nn.Module | None,
    copies: HostCopies,
    options: TraceOptions,
    attempt: int = PLAIN,
) -> _Read:
    """The graph; if it is right for some sizes only, that of a later attempt to export."""
    forward: Any = getattr(run, "forward", None)
    found = _exported(given, run, copies, options, attempt)
    made = attempt_of(found[0])
    try:
        return _graph(found, run, copies, options, given.label)
    except SomeSizesError:
        if run is not None and given.dynamic_shapes and made < ASSERTING:
            if run.forward != forward:  # it takes a seed by now
                run.forward = forward
            with suppress(AotpackError):  # the first is told
                return _read(given, run, copies, options, made + 1)
        raise


def _graph(
    found: Exported, given: nn.Module | None, copies: HostCopies, options: TraceOptions, name: str
) -> _Read:
    """The graph of an exported program; ``given`` is the model as it was given."""
    exported, run, example, leaves, branches = found
    exported = without_subgraphs(exported)
    exported = with_state(exported, run if given is None else root_of(run), name)
    check_collectives(exported, name)
    in_order = in_program_order(exported, *example)
    absent = without_values(name, exported, in_order, copies, needs_weights=options.needs_weights)
    if not absent:
        check_results(name, exported)
    runs = not absent and not launches_kernels(exported)
    check_lowerings(exported, in_order if runs else None, name)
    program = with_bytes(decompose(exported, name=name, whole=options.whole, triton=options.triton))
    check_drawn(program, name)
    graph = build_graph(
        program,
        leaves,
        name,
        options.version,
        options.reserved,
        check_indices=options.check_indices,
        refusal=options.refusal,
    )
    return _Read(graph, program, exported, run, example, branches, absent)


def _exported(
    given: _Given,
    run: nn.Module | None,
    copies: HostCopies,
    options: TraceOptions,
    attempt: int = PLAIN,
) -> Exported:
    """The program and its inputs on the host; a model that draws random numbers takes a seed."""
    name, example = given.label, given.example
    if isinstance(given.module, ExportedProgram):
        program = copies.program(given.module)
        check_asserted(name, program)
        program = with_state(program, None, name)
        return program, program.module(), example, (), Branches()
    assert run is not None
    shapes, strict = given.dynamic_shapes, options.strict
    return _exported_on(run, example, shapes, name=name, strict=strict, attempt=attempt)


def _exported_on(
    run: nn.Module,
    example: Example,
    shapes: dict[str, Any] | None,
    *,
    name: str,
    strict: bool,
    attempt: int,
) -> Exported:
    """The program that torch.export makes on an example, from a seed where the model draws.

    torch cannot export some models that draw in ``vmap`` beside dynamic sizes; from a seed, it can.
    """
    with Branches(strict) as branches:
        options = {"name": name, "strict": strict, "attempt": attempt}
        failure: TraceError | None = None
        asked = Asked()
        try:
            with nullcontext() if strict else asked:
                program = _export(run, example, shapes, branches, **options)
        except TraceError as error:
            if not (shapes and asked.draws):
                raise
            failure = error
        if failure is not None or draws(program):
            try:
                own = own_seed(run, example)
                run, example = seeded(run, name), with_example_seed(example)
                check_own_seed(name, run, example, own)
                shapes = specs_by_argument(run, *example, shapes)
                program = _export(run, example, shapes, branches, **options)
            except AotpackError:
                if failure is not None:
                    raise failure from failure.__cause__
                raise
            if failure is not None and not reads_seed(program):
                raise failure
    leaves = leaf_specs(run, program.call_spec.in_spec, *example, shapes)
    return program, run, example, leaves, branches


def _example(given: _Given, copies: HostCopies, options: TraceOptions) -> Example:
    """The inputs on the host, cast as the weights are; those of a program stay as they are."""
    example = copies.example(given.example)
    if options.dtype is None or isinstance(given.module, ExportedProgram):
        return example
    return cast_floats(example, options.dtype)


def _export(
    run: nn.Module,
    example: Example,
    shapes: dict[str, Any] | None,
    branches: Branches,
    **options: Any,
) -> ExportedProgram:
    """``export``; what forward changes in Python meanwhile is put back."""
    before = Attributes({"": run})
    try:
        with without_caches([root_of(run)]), before.values_kept(run):
            program = export(run, *example, shapes, branches=branches, **options)
        new = [one.path for one in before.changes() if one.is_registered]
        if new:
            raise TraceError(
                f"exporting {options['name']}: forward registers the buffer {', '.join(new)}, "
                "which torch.export takes for another tensor; register it in __init__, or call the "
                "model once before"
            )
        return program
    finally:
        before.restore()


def _refuse_changes(name: str, dynamic_shapes: Any, options: TraceOptions) -> None:
    given = {
        "dynamic shapes": dynamic_shapes,
        "dtype": options.dtype,
        "quantization": options.quantize,
        "strict mode": options.strict,
    }
    for option in [option for option, value in given.items() if value]:
        raise UsageError(
            f"tracing {name}: {option} given for a program that is already exported; its sizes, "
            "types and operators are fixed in it. Give the nn.Module, or export again with what "
            "you want."
        )
