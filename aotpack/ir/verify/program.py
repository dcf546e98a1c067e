"""The legality of a Program: one ``check_<property>`` for each invariant.

Each raises InvalidProgram: a defect of aotpack, never of the user's model.
"""

from collections.abc import Callable, Iterator

from aotpack.ir.dtypes import DType
from aotpack.ir.foreign import Foreign
from aotpack.ir.operations import (
    SCATTER_KINDS,
    Attention,
    Matmul,
    Pointwise,
    Reduction,
    Scan,
    Scatter,
    Sort,
)
from aotpack.ir.ops.monoids import MONOIDS
from aotpack.ir.ops.value_types import result_types, type_complaint
from aotpack.ir.program import (
    Control,
    Operation,
    Program,
    all_axes,
    concats_by_part,
    expand_concats,
    in_place_pairs,
    reads,
    store_index,
    targets,
    values,
)
from aotpack.ir.symbolic.facts import known_equal, known_le, known_lt
from aotpack.ir.symbolic.integers import Axis, Int, Var, product, total
from aotpack.ir.uses import operation_uses
from aotpack.ir.values import Guarded, IndexValue, Load, Value, children, walk
from aotpack.ir.verify.borders import check_orders
from aotpack.ir.verify.control import CONTROL_CHECKS
from aotpack.ir.verify.invalid import InvalidProgram


def verify(program: Program) -> None:
    """Check every invariant, those of parts first; the first broken one is raised."""
    if program.weight_program is not None:
        verify(program.weight_program)
    controls = [one for one in program.operations if isinstance(one, Control)]
    for part in {id(part): part for one in controls for part in one.parts}.values():
        verify(part)
    for check in CHECKS:
        check(program)


# --- buffers -----------------------------------------------------------------------------------


def check_declared(program: Program) -> None:
    """Every buffer that is read, written, given or returned is declared under its own name."""
    for name, buffer in program.buffers.items():
        if name != buffer.name:
            raise InvalidProgram(program, None, f"buffer {buffer} is declared as {name}")
    for name in (*program.inputs, *program.weights, *program.results):
        if name not in program.buffers:
            raise InvalidProgram(program, None, f"buffer {name} is not declared")
    for position, operation in enumerate(program.operations):
        for name in (*targets(operation), *reads(operation)):
            if name not in program.buffers:
                raise InvalidProgram(program, position, f"buffer {name} is not declared")


def check_single_writer(program: Program) -> None:
    """Inputs and weights are never written, any other buffer by exactly one operation."""
    written = {*program.inputs, *program.weights}
    if len(written) != len(program.inputs) + len(program.weights):
        raise InvalidProgram(program, None, "an input or weight is listed twice")
    for position, operation in enumerate(program.operations):
        for name in targets(operation):
            if name in written:
                raise InvalidProgram(program, position, f"{name} already has its value")
            written.add(name)
    written |= {concat.name for concat in program.concats}
    for name in program.buffers:
        if name not in written:
            raise InvalidProgram(program, None, f"nothing writes {name}")


def check_defined_before_use(program: Program) -> None:
    """An operation reads only buffers that are written before it."""
    defined = {*program.inputs, *program.weights}
    for position, operation in enumerate(program.operations):
        for name in expand_concats(reads(operation), program):
            if name not in defined:
                message = f"{name} is read before it is written"
                raise InvalidProgram(program, position, message)
        defined.update(targets(operation))


def check_packed(program: Program) -> None:
    """A packed weight is a stored weight, with its parts' type and their total length."""
    stored = {*program.weights} - {*program.derived}
    for packed in program.packed:
        names = [name for name in (packed.name, *packed.parts) if name not in stored]
        if names or not packed.parts:
            message = f"{packed.name} is packed of {packed.parts}: {names} are no stored weights"
            raise InvalidProgram(program, None, message)
        whole, *parts = (program.buffers[name] for name in (packed.name, *packed.parts))
        length = total(part.shape[0] for part in parts)
        same = all((p.dtype, p.shape[1:]) == (whole.dtype, whole.shape[1:]) for p in parts)
        if not same or length is not whole.shape[0]:
            raise InvalidProgram(program, None, f"{whole} is not {', '.join(map(str, parts))}")


def check_concats(program: Program) -> None:
    """Parts of a concat buffer have pointwise writers and no readers; together they fill it."""
    uses = operation_uses(program.operations)
    writers = uses.producers
    taken = {*uses.readers, *program.inputs, *program.weights, *program.results}
    if len(concats_by_part(program)) < sum(len(concat.parts) for concat in program.concats):
        raise InvalidProgram(program, None, "a buffer is two parts")
    for concat in program.concats:
        whole = program.buffers[concat.name]
        if concat.name in writers or concat.name in {*program.inputs, *program.weights}:
            message = f"{whole} is a concat of {concat.parts}, and written"
            raise InvalidProgram(program, None, message)
        points: list[Int] = []
        for name in concat.parts:
            part, writer = program.buffers[name], writers.get(name)
            same = (part.dtype, part.shape) == (whole.dtype, whole.shape)
            if not same or name in taken or not isinstance(writer, Pointwise):
                raise InvalidProgram(program, None, f"{part} is no part of {whole}")
            points.append(product(axis.extent for axis in writer.axes))
        if not known_equal(total(points), product(whole.shape)):
            raise InvalidProgram(program, None, f"{concat.parts} do not fill {whole}")


def check_updates(program: Program) -> None:
    """An updated tensor is an input or unpacked weight; its new value is computed only for it."""
    given = {*program.inputs, *program.weights} - {p.name for p in program.packed}
    given -= {part for packed in program.packed for part in packed.parts}
    written = {name for operation in program.operations for name in targets(operation)}
    if len({*program.results}) < len(program.results):
        raise InvalidProgram(program, None, "a buffer is two results")
    for update in program.updates:
        if update.name not in given or update.value not in written:
            raise InvalidProgram(program, None, f"{update.name} cannot become {update.value}")
        given.remove(update.name)
        before, after = program.buffers[update.name], program.buffers[update.value]
        if (before.dtype, before.shape) != (after.dtype, after.shape):
            raise InvalidProgram(program, None, f"{before} cannot become {after}")


# --- axes and indices --------------------------------------------------------------------------


def check_axis_names(program: Program) -> None:
    """The axes of an operation differ in name from each other and from the sizes."""
    for position, operation in enumerate(program.operations):
        taken = [size.name for size in program.sizes]
        for axis in all_axes(operation):
            if axis.name in taken:
                message = f"the name {axis.name} stands for two things"
                raise InvalidProgram(program, position, message)
            taken.append(axis.name)


def check_axes_used(program: Program) -> None:
    """Each value uses only axes in its scope, and sizes of the program."""
    for position, operation in enumerate(program.operations):
        for value, axes in _places(operation):
            for integer in _integers(value):
                _check_leaves(program, position, integer, axes)
        for axis in all_axes(operation):
            _check_leaves(program, position, axis.extent, ())
        if isinstance(operation, Pointwise):
            for integer in operation.index:
                _check_leaves(program, position, integer, operation.axes)


def check_scan_axis(program: Program) -> None:
    """A scan or sort runs along one of its axes."""
    for position, operation in enumerate(program.operations):
        if isinstance(operation, (Scan, Sort)) and operation.along not in operation.axes:
            kind = type(operation).__name__.lower()
            raise InvalidProgram(program, position, f"{operation.along} is no axis of the {kind}")


def check_index_rank(program: Program) -> None:
    """An index has one integer for each dimension of its buffer."""
    for position, operation in enumerate(program.operations):
        for name, index in _accesses(operation):
            rank = len(program.buffers[name].shape)
            if len(index) != rank:
                shown = ", ".join(map(str, index))
                message = f"{name}[{shown}] has {len(index)} indices, the buffer {rank} dimensions"
                raise InvalidProgram(program, position, message)


def check_index_bounds(program: Program) -> None:
    """No unguarded index is known to lie outside its buffer."""
    for position, operation in enumerate(program.operations):
        for name, index in _accesses(operation, unguarded=True):
            buffer = program.buffers[name]
            for part, extent in zip(index, buffer.shape, strict=True):
                outside = known_lt(part, 0) or known_le(extent, part)
                if outside and not known_le(extent, 0):
                    message = f"index {part} is outside [0, {extent}) of {buffer}"
                    raise InvalidProgram(program, position, message)


def check_target_shape(program: Program) -> None:
    """The axes of a reduction, scan or template have the extents of its targets."""
    for position, operation in enumerate(program.operations):
        if isinstance(operation, (Pointwise, Scatter, Foreign, Control)):
            continue
        for name in targets(operation):
            buffer = program.buffers[name]
            for axis, size in zip(operation.axes, buffer.shape, strict=True):
                if known_lt(axis.extent, size) or known_lt(size, axis.extent):
                    message = f"axis {axis} < {axis.extent} does not span {buffer}"
                    raise InvalidProgram(program, position, message)


# --- types -------------------------------------------------------------------------------------


def check_compute_types(program: Program) -> None:
    """No value has a 16-bit float type: these exist in memory only."""
    for position, value in _all_values(program):
        if value.dtype is not value.dtype.compute:
            raise InvalidProgram(program, position, f"{value} has the type {value.dtype}")


def check_value_types(program: Program) -> None:
    """Loads, constants, guards and operators have the types that their parts imply."""
    for position, value in _all_values(program):
        message = type_complaint(program.buffers, value)
        if message:
            raise InvalidProgram(program, position, message)


def check_monoids(program: Program) -> None:
    """A reduction or scan is of a known kind, with its number of arguments and targets."""
    for position, operation in enumerate(program.operations):
        if not isinstance(operation, (Reduction, Scan)):
            continue
        monoid = MONOIDS.get(operation.kind)
        if monoid is None:
            raise InvalidProgram(program, position, f"there is no reduction {operation.kind}")
        if len(operation.args) != monoid.inputs or len(operation.targets) != monoid.outputs:
            message = f"{monoid.name} takes {monoid.inputs} values and gives {monoid.outputs}"
            raise InvalidProgram(program, position, message)
        if not all(monoid.accepts(arg.dtype) for arg in operation.args):
            message = f"{monoid.name} is not defined on {operation.args[0].dtype}"
            raise InvalidProgram(program, position, message)
        if any(arg.dtype not in (DType.INT32, DType.INT64) for arg in operation.args[1:]):
            message = f"{monoid.name} takes int32 or int64 positions, not {operation.args[1].dtype}"
            raise InvalidProgram(program, position, message)


def check_scatters(program: Program) -> None:
    """A scatter's base has its target's shape and type, and its kind works on that type."""
    for position, operation in enumerate(program.operations):
        if not isinstance(operation, Scatter):
            continue
        target, base = (program.buffers[name] for name in (operation.target, operation.base))
        if (target.dtype, target.shape) != (base.dtype, base.shape):
            raise InvalidProgram(program, position, f"{target} is no version of {base}")
        kind, dtype = operation.kind, target.dtype
        is_atomic = dtype.itemsize >= 4 and MONOIDS.get(kind) and MONOIDS[kind].accepts(dtype)
        if kind not in SCATTER_KINDS or (kind != "set" and not is_atomic):
            raise InvalidProgram(program, position, f"{kind} does not scatter into {dtype}")


def check_foreign(program: Program) -> None:
    """A call passes the arguments of its kernel; bases have the shapes and types of targets."""
    for position, operation in enumerate(program.operations):
        if not isinstance(operation, Foreign):
            continue
        names = {name for name in operation.arguments if isinstance(name, str)}
        count = len(operation.kernel.passed)
        others = {other.kernel.passed for other in operation.others} - {operation.kernel.passed}
        if others or len(operation.arguments) != count or not names >= {*operation.targets}:
            message = f"{operation.kernel.function} takes {count} arguments, its targets among them"
            raise InvalidProgram(program, position, message)
        for pair in in_place_pairs(operation):
            target, base = (program.buffers[name] for name in pair)
            if (target.dtype, target.shape) != (base.dtype, base.shape):
                raise InvalidProgram(program, position, f"{target} is no version of {base}")
        numbers = (number for number in operation.arguments if isinstance(number, Int))
        for number in (*operation.grids, *numbers):
            _check_leaves(program, position, number, ())


def check_stored_types(program: Program) -> None:
    """A stored value has the compute type of its buffer."""
    for position, operation in enumerate(program.operations):
        if isinstance(operation, (Foreign, Control)):
            continue
        for name, dtype in zip(targets(operation), result_types(operation), strict=True):
            buffer = program.buffers[name]
            if buffer.dtype.compute is not dtype.compute:
                raise InvalidProgram(program, position, f"{dtype} is stored into {buffer}")


CHECKS: tuple[Callable[[Program], None], ...] = (
    check_declared,
    check_single_writer,
    check_defined_before_use,
    check_packed,
    check_concats,
    check_updates,
    check_orders,
    check_axis_names,
    check_axes_used,
    check_scan_axis,
    check_index_rank,
    check_index_bounds,
    check_target_shape,
    check_compute_types,
    check_value_types,
    check_monoids,
    check_scatters,
    check_foreign,
    check_stored_types,
    *CONTROL_CHECKS,
)


# --- traversal ---------------------------------------------------------------------------------


def _places(operation: Operation) -> Iterator[tuple[Value, tuple[Axis, ...]]]:
    """Each value of an operation with the axes in its scope."""
    match operation:
        case Matmul():
            yield operation.lhs, (*operation.batch, operation.m, operation.k)
            yield operation.rhs, (*operation.batch, operation.k, operation.n)
        case Attention():
            outer = (operation.batch, operation.head)
            yield operation.query, (*outer, operation.i, operation.d)
            yield operation.key, (*outer, operation.j, operation.d)
            yield operation.value, (*outer, operation.j, operation.e)
            for slot in (operation.bias, operation.mask):
                if slot is not None:
                    yield slot, (*outer, operation.i, operation.j)
        case _:
            for value in values(operation):
                yield value, all_axes(operation)


def _integers(value: Value) -> Iterator[Int]:
    for part in walk((value,)):
        if isinstance(part, Load):
            yield from part.index
        elif isinstance(part, IndexValue):
            yield part.index


def _check_leaves(program: Program, position: int, integer: Int, axes: tuple[Axis, ...]) -> None:
    for leaf in integer.leaves():
        if isinstance(leaf, Axis) and leaf not in axes:
            message = f"{integer} uses the axis {leaf} < {leaf.extent}, which is not at hand here"
            raise InvalidProgram(program, position, message)
        if isinstance(leaf, Var) and leaf not in program.sizes:
            raise InvalidProgram(
                program, position, f"{leaf} in {integer} is no size of the program"
            )


def _accesses(
    operation: Operation, *, unguarded: bool = False
) -> Iterator[tuple[str, tuple[Int, ...]]]:
    """Every (buffer, index) read or written; with ``unguarded``, without those under a guard."""
    seen: set[Value] = set()
    stack = list(values(operation))
    while stack:
        value = stack.pop()
        if value in seen:
            continue
        seen.add(value)
        if isinstance(value, Load):
            yield value.buffer, value.index
        if unguarded and isinstance(value, Guarded):
            stack += (value.condition, value.otherwise)
        else:
            stack += children(value)
    if isinstance(operation, (Foreign, Control)):
        return
    if not (unguarded and isinstance(operation, Scatter)):
        for name in targets(operation):
            yield name, store_index(operation)


def _all_values(program: Program) -> Iterator[tuple[int, Value]]:
    for position, operation in enumerate(program.operations):
        for value in walk(values(operation)):
            yield position, value
