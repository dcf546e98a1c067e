"""ExportedProgram -> ``stages.Graph``: straight-line operator calls, free of torch objects.

Size arithmetic, assertions on sizes, device and layout arguments, copies and unused nodes are
removed. In-place changes of forward become updates, as do the flags of assertions on data.
"""

from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind, OutputSpec, TensorArgument
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from aotpack.errors import TraceError, UnsupportedError
from aotpack.ir.kernels.access import memory_order
from aotpack.ir.symbolic.integers import Int
from aotpack.stages import Graph, GraphNode, Ref, Signature, TensorSpec, Weight, every_node
from aotpack.trace.changes import updates_of
from aotpack.trace.complex_pairs import REALS
from aotpack.trace.diagnostics.collectives import check_collectives
from aotpack.trace.diagnostics.declared import check_declared
from aotpack.trace.diagnostics.guards import LeafSpec, by_path, check_guards, check_shapes
from aotpack.trace.operators.admitted import check_calls
from aotpack.trace.operators.assertions import flags_of
from aotpack.trace.operators.counted.bindings import find_counted
from aotpack.trace.operators.counted.conditions import with_counted
from aotpack.trace.operators.counted.elements import check_demands
from aotpack.trace.operators.operators import OperatorReader
from aotpack.trace.operators.strided import check_strided
from aotpack.trace.sizes import Sizes, find_sizes
from aotpack.trace.source import source_of, users_source_of
from aotpack.trace.tree import check_counters, children_of, leaf_of, leaf_paths, tree_of
from aotpack.trace.weights import Weights, collect_weights, dtype_of
from aotpack.trees import Tree

_READS = (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.item.default)


def build_graph(
    program: ExportedProgram,
    leaves: Sequence[LeafSpec],
    name: str,
    version: str,
    reserved: Container[str] = (),
    **options: Any,
) -> Graph:
    """Convert the program; ``leaves`` are its inputs' dynamic specs, ``options`` the reader's."""
    placeholders = _placeholders(name, program)
    values, weights = _values(program, placeholders), collect_weights(program)
    given = find_sizes(program, values, leaves, weights.tensors, reserved)
    _check_sizes(name, program, leaves, [value for _, value in values], given)
    sizes, counted = find_counted(program, given, {*weights.tensors, *(one for one, _ in values)})
    inputs = _inputs(values, sizes, set(weights.tensors))
    refs = {placeholders[place]: ref for place, ref in _refs(weights, inputs).items()}
    reader = OperatorReader(name, sizes, refs, counted, **options)
    results, updates = _outputs(program), updates_of(name, program, weights, inputs)
    nodes = reader.read(_with_purpose(name, program, [*results, *updates.values()]))
    assertions, flags, flag_updates = flags_of(reader.asserted, reader.unused)
    _check_results(name, program, sizes, nodes, tuple(inputs.values()))
    changes = tuple((target, reader.ref(node)) for target, node in updates.items())
    outputs, (args, kwargs) = tuple(map(reader.ref, results)), _input_trees(program)
    kept = _kept(weights, {*updates}, (*outputs, *(ref for _, ref in changes)), nodes)
    signature = Signature(
        name=name,
        version=version,
        sizes=tuple(given.variables.values()),
        inputs=tuple(inputs.values()),
        outputs=_output_specs(results, {*inputs, *weights.tensors}, sizes),
        args=args,
        kwargs=kwargs,
        result=_result_tree(program, kwargs, name),
        updates=tuple(updates),
        assertions=assertions,
        unused=_unused(program, kept),
    )
    signature = with_counted(signature, program.graph, sizes, counted, reader.counting)
    unchecked = tuple(inputs[one].name for one in inputs if placeholders[one] in reader.unchecked)
    return Graph(signature, kept, (*nodes, *flags), outputs, (*changes, *flag_updates), unchecked)


def _check_sizes(
    name: str,
    program: ExportedProgram,
    leaves: Sequence[LeafSpec],
    values: Sequence[Any],
    sizes: Sizes,
) -> None:
    """Check the sizes of inputs, and conditions on them, if the inputs' paths are known."""
    if leaves:
        shapes = [
            tuple(map(sizes.convert, one.shape)) if isinstance(one, torch.Tensor) else None
            for one in values
        ]
        check_declared(name, program, values, leaves, shapes, sizes.variables)
        check_guards(name, program, by_path(leaves, shapes))


def _check_results(
    name: str,
    program: ExportedProgram,
    sizes: Sizes,
    nodes: Sequence[GraphNode],
    inputs: Sequence[TensorSpec],
) -> None:
    """Check that results have their shapes for all admitted sizes."""
    check_shapes(name, tuple(every_node(nodes)), inputs)
    check_strided(name, program, sizes)
    check_calls(name, program, sizes)
    check_demands(name, program, sizes)


def _with_purpose(
    name: str, program: ExportedProgram, results: Sequence[fx.Node]
) -> Sequence[fx.Node]:
    """The results, if there are any, and none is a number that is not known before a call."""
    paths = leaf_paths(program.call_spec.out_spec)
    returned = [one for one, spec in _ends(program) if spec.kind is OutputKind.USER_OUTPUT]
    for path, node in zip(paths, returned, strict=True):
        value = node.meta.get("val") if isinstance(node, fx.Node) else None
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            raise _returned_number(name, node, path, value)
    if not results:
        raise TraceError(
            f"tracing {name}: forward returns no tensor; return what should be computed"
        )
    return results


def _returned_number(name: str, node: fx.Node, path: str, value: Any) -> UnsupportedError:
    what, line = "that depends on a size", users_source_of(node)
    of_it = "compare" if isinstance(value, torch.SymBool) else "return"
    remedy = f"Make a tensor of the size n, torch.full((), n), and {of_it} that."
    if _is_read(node):
        what = "that is read from a tensor, by item() or tolist()"
        remedy = "Return the tensor; callers make numbers of the result."
    elif free_unbacked_symbols(value):
        what = "that depends on a size which the data decide"
    return UnsupportedError(
        f"tracing {name}: the result has a number {what}{f' ({path})' if path else ''}; tensors "
        f"and fixed Python values are accepted. {remedy}" + (f"\n  at {line}" if line else "")
    )


def _is_read(node: fx.Node) -> bool:
    """True for a number that is computed from an element of a tensor, not from sizes alone."""
    if isinstance(node.meta.get("val"), torch.Tensor):
        return False
    return node.target in _READS or any(map(_is_read, node.all_input_nodes))


def _kept(
    weights: Weights, changed: set[str], results: Sequence[Ref], nodes: Sequence[GraphNode]
) -> tuple[Weight, ...]:
    """The weights that nodes read, that are returned, or that are changed."""
    used = {ref.name for ref in (*results, *(ref for node in nodes for ref in node.refs()))}
    return tuple(weights.weight(one) for one in weights.tensors if one in used | changed)


def _unused(program: ExportedProgram, kept: Sequence[Weight]) -> tuple[str, ...]:
    """The names in the model's state_dict of tensors that are not kept."""
    used = {name for weight in kept for name in weight.names}
    return tuple(name for name in program.state_dict if name not in used)


def _placeholders(name: str, program: ExportedProgram) -> dict[str, fx.Node]:
    """The placeholders by name; communication that lowerings brought is refused, as are objects.

    Inputs are tensors and Python values; the first user of another input is named.
    """
    check_collectives(program, name)
    placeholders = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    objects = [
        placeholders[spec.arg.name]
        for spec in program.graph_signature.input_specs
        if spec.kind in (InputKind.CUSTOM_OBJ, InputKind.TOKEN)
    ]
    if objects:
        node = next(iter(objects[0].users), objects[0])
        operator = next((one for one in node.args if isinstance(one, OpOverload)), node.target)
        source = source_of(node)
        place = f"  ({source})" if source else ""
        raise UnsupportedError(
            f"tracing {name}: {operator}: it takes {objects[0].name}; script objects and effect "
            f"tokens cannot be packaged; tensors and Python values are accepted{place}"
        )
    return placeholders


def _user_inputs(program: ExportedProgram) -> list[Any]:
    specs = program.graph_signature.input_specs
    return [spec for spec in specs if spec.kind is InputKind.USER_INPUT]


def _values(program: ExportedProgram, placeholders: Mapping[str, fx.Node]) -> list[tuple[str, Any]]:
    """The name of each input, and the tensor or Python value that torch traced it with."""
    names = [spec.arg.name for spec in _user_inputs(program)]
    return [(name, placeholders[name].meta.get("val")) for name in names]


def _inputs(
    values: Sequence[tuple[str, Any]], sizes: Sizes, taken: set[str]
) -> dict[str, TensorSpec]:
    """The tensor inputs by placeholder, renamed if a weight has the name."""
    inputs = {}
    for name, value in values:
        if isinstance(value, torch.Tensor):
            shown = f"{name}_input" if name in taken else name
            inputs[name] = _spec(shown, value, sizes)
    return inputs


def _refs(weights: Weights, inputs: Mapping[str, TensorSpec]) -> dict[str, Ref]:
    """Weights and inputs by placeholder."""
    names = {**weights.by_placeholder, **{place: spec.name for place, spec in inputs.items()}}
    return {place: Ref(name) for place, name in names.items()}


def _spec(name: str, value: torch.Tensor, sizes: Sizes) -> TensorSpec:
    shape = tuple(map(sizes.convert, value.shape))
    dtype = dtype_of(REALS.get(value.dtype, value.dtype), f"the tensor {name}")
    order = _order(value, shape, sizes)
    if value.dtype not in REALS:
        return TensorSpec(name, dtype, shape, order)
    order = (*order, len(shape)) if order else ()
    return TensorSpec(name, dtype, (*shape, Int.of(2)), order, pairs=True)


def _order(value: torch.Tensor, shape: tuple[Int, ...], sizes: Sizes) -> tuple[int, ...]:
    """The memory order that torch.export reports; row-major where its strides are not known."""
    try:
        return memory_order(shape, tuple(map(sizes.convert, value.stride())))
    except (UnsupportedError, RuntimeError):  # a stride that no size gives, or no strides
        return ()


def _outputs(program: ExportedProgram) -> list[fx.Node]:
    """The tensor nodes that forward returns, in order."""
    return [node for node, spec in _ends(program) if is_returned(spec)]


def _ends(program: ExportedProgram) -> Iterator[tuple[Any, OutputSpec]]:
    """What the program ends with, each with what it is for."""
    (output,) = program.graph.find_nodes(op="output")
    return zip(output.args[0], program.graph_signature.output_specs, strict=True)


def is_returned(spec: OutputSpec) -> bool:
    """True for a tensor that forward returns, False for the new value of a changed one."""
    return spec.kind is OutputKind.USER_OUTPUT and isinstance(spec.arg, TensorArgument)


def _output_specs(
    results: Sequence[fx.Node], taken: Collection[str], sizes: Sizes
) -> tuple[TensorSpec, ...]:
    pairs = enumerate(results)
    return tuple(_spec(_output_name(i, taken), n.meta["val"], sizes) for i, n in pairs)


def _output_name(number: int, taken: Collection[str]) -> str:
    """``output0``, with underscores added if an input or a weight has that name."""
    name = f"output{number}"
    while name in taken:
        name += "_"
    return name


def _input_trees(program: ExportedProgram) -> tuple[Tree, Tree]:
    leaves = iter([leaf_of(spec.arg, "input") for spec in _user_inputs(program)])
    args, kwargs = children_of(program.call_spec.in_spec)
    return tree_of(args, leaves, "input"), tree_of(kwargs, leaves, "input")


def _result_tree(program: ExportedProgram, kwargs: Tree, name: str) -> Tree:
    specs = program.graph_signature.output_specs
    results = [one.arg for one in specs if one.kind is OutputKind.USER_OUTPUT]
    spec = program.call_spec.out_spec
    paths = leaf_paths(spec)
    leaves = [leaf_of(one, "result", path) for path, one in zip(paths, results, strict=True)]
    result = tree_of(spec, iter(leaves), "result")
    check_counters(kwargs, result, name)
    return result
