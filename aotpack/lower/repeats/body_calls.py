"""Lowers a call of a body; the first call of a body lowers it."""

from collections.abc import Mapping

from aotpack.ir.graph import CALL
from aotpack.ir.program import Call, Program
from aotpack.lower.builder import Builder
from aotpack.lower.calls import lower_calls
from aotpack.lower.context import Context
from aotpack.lower.registry import lowering
from aotpack.stages import Arg, GraphNode, Ref


@lowering(CALL)
def call(context: Context, arguments: tuple[Ref, ...]) -> None:
    """A call of a body that several calls share."""
    builder, node = context.builder, context.node
    (body,) = node.bodies
    if id(body) not in builder.bodies:
        builder.bodies[id(body)] = _program(builder, node)
    program, parameters = builder.bodies[id(body)]
    given = dict(zip(parameters, (builder.buffer(ref).name for ref in arguments), strict=True))
    names = (given.get(name, name) for name in (*program.inputs, *program.weights))
    results = (context.result(number) for number in range(len(node.results)))
    targets = tuple(builder.buffer(ref).name for ref in results)
    builder.append(Call(targets, tuple(names), program, context.origin))


def _program(builder: Builder, node: GraphNode) -> tuple[Program, tuple[str, ...]]:
    """The program of a call's body, and the buffers of its parameters, in order.

    Its weights are parameters and constants that lowering computes, which keep their names.
    """
    (body,) = node.bodies
    parameters = [builder.declare(spec) for spec in body.slices]
    names = tuple(builder.buffer(ref).name for ref in parameters)
    changed = [parameters[number] for number in node.changes]
    kept = node.results[: len(body.outputs) - len(changed)]
    results = [builder.temporary(f"{node.name}_result", spec.dtype, spec.shape) for spec in kept]

    def run() -> Mapping[Ref, Ref]:
        lower_calls(builder, body.nodes)
        return {
            new: _tensor(value)
            for new, value in zip((*results, *changed), body.outputs, strict=True)
        }

    part = builder.part(run)
    own = {builder.buffer(ref).name for ref in results}
    read = [name for name in part.inputs if name not in own]
    given = [name for name in names[: len(names) - body.stored] if name in read]
    weights = [name for name in read if name not in given]
    buffers = {name: part.buffers[name] for name in (*given, *weights)}
    made = {name: one for name, one in part.buffers.items() if name not in own}
    program = Program(
        part.sizes,
        buffers | made,
        tuple(given),
        tuple(weights),
        part.operations,
        tuple(update.value for update in part.updates if update.name in own),
        updates=tuple(update for update in part.updates if update.name not in own),
    )
    return program, names


def _tensor(value: Arg) -> Ref:
    """An output of a body, which is no number."""
    assert isinstance(value, Ref)
    return value
