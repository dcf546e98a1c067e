"""The legality of branches, loops, size reads and weight programs, beyond that of programs."""

from collections.abc import Collection

from aotpack.ir.dtypes import DType
from aotpack.ir.program import Branch, Call, Control, Loop, Program, SizeRead
from aotpack.ir.verify.invalid import InvalidProgram


def check_part_programs(program: Program) -> None:
    """A part reads outer buffers and sizes, and updates only targets of its operation."""
    for position, operation in enumerate(program.operations):
        if isinstance(operation, Call):
            _check_call(program, position, operation)
        if isinstance(operation, Call) or not isinstance(operation, Control):
            continue
        written = {update.name for part in operation.parts for update in part.updates}
        if written != {*operation.targets}:
            shown = f"the parts write {sorted(written)}, the targets are {operation.targets}"
            raise InvalidProgram(program, position, shown)
        for part in operation.parts:
            pairs = ((part.buffers[name], program.buffers[name]) for name in part.inputs)
            own = [
                inner.name
                for inner, outer in pairs
                if (inner.dtype, inner.shape, inner.order)
                != (outer.dtype, outer.shape, outer.order)
            ]
            if own or part.weights or part.outputs or not {*program.sizes} <= {*part.sizes}:
                message = f"a part has inputs {own}, weights or outputs of its own, or lacks sizes"
                raise InvalidProgram(program, position, message)


def _check_call(program: Program, position: int, call: Call) -> None:
    """Arguments and targets are like the tensors of the body, which knows the program's sizes."""
    body = call.body
    inside = (*body.inputs, *body.weights, *body.results)
    outside = (*call.arguments, *call.targets)
    if len(inside) != len(outside) or not {*program.sizes} <= {*body.sizes}:
        message = f"the body takes and gives {inside}, the call has {outside}, or sizes are missing"
        raise InvalidProgram(program, position, message)
    for own, other in zip(inside, outside, strict=True):
        inner, outer = body.buffers[own], program.buffers[other]
        if (inner.dtype, inner.shape, inner.order) != (outer.dtype, outer.shape, outer.order):
            raise InvalidProgram(program, position, f"{inner} of the body is {outer}")
    given = {*body.inputs}
    wrong = [update.name for update in body.updates if update.name not in given]
    if wrong:
        raise InvalidProgram(program, position, f"the body updates the weight {wrong[0]}")


def check_conditions(program: Program) -> None:
    """Each side of a branch writes all targets. A condition is one bool; a test writes it."""
    for position, operation in enumerate(program.operations):
        writers: tuple[Program, ...] = ()
        if isinstance(operation, SizeRead):
            _check_counts(program, position, operation)
            continue
        if isinstance(operation, Branch):
            writers, condition, expected = operation.sides, operation.predicate, operation.targets
        elif isinstance(operation, Loop):
            writers = () if operation.test is None else (operation.test,)
            condition = operation.condition
            expected = (condition,) if isinstance(condition, str) else ()
        else:
            continue
        for writer in writers:
            if {update.name for update in writer.updates} != {*expected}:
                message = f"a part should write {', '.join(expected) or 'nothing'}"
                raise InvalidProgram(program, position, message)
        if isinstance(condition, str):
            asked = program.buffers[condition]
            if asked.shape or asked.dtype is not DType.BOOL:
                raise InvalidProgram(program, position, f"{asked} is no condition")
        else:
            unknown = [leaf for leaf in condition.leaves() if leaf not in program.sizes]
            if unknown:
                message = f"{unknown[0]} in {condition} is no size of the program"
                raise InvalidProgram(program, position, message)


def _check_counts(program: Program, position: int, operation: SizeRead) -> None:
    """Each new size has one count and a bound in known sizes, and its name is free."""
    counts = [program.buffers[name] for name in operation.counts]
    if any(count.shape or count.dtype is not DType.INT64 for count in counts):
        raise InvalidProgram(program, position, "a count is no int64 without dimensions")
    known = {size.name for size in program.sizes}
    new = [size.name for size in operation.sizes]
    lengths = {len(new), len({*new}), len(counts), len(operation.most)}
    if len(lengths) > 1 or known.intersection(new):
        raise InvalidProgram(program, position, f"{new} are not distinct, or not counted once")
    unknown = [one for most in operation.most for one in most.leaves() if one not in program.sizes]
    if unknown or {*operation.sizes} - {*operation.rest.sizes}:
        message = f"the rest lacks a size, or a bound uses {unknown}"
        raise InvalidProgram(program, position, message)


def check_weight_program(program: Program) -> None:
    """It computes weights from weights that no run changes; it has no inputs, sizes, updates."""
    made = program.weight_program
    if made is None:
        return
    more = (made.inputs, made.sizes, made.updates, made.packed, made.weight_program)
    if any(more) or not made.outputs:
        message = "a weight program has inputs, sizes, updates, packed weights or no outputs"
        raise InvalidProgram(program, None, message)
    changed = {update.name for update in program.updates}
    names = [*made.weights, *made.outputs]
    wrong = [name for name in names if name in changed or name not in program.weights]
    if wrong or len({*names}) < len(names):
        message = f"the weight program reads {made.weights} and makes {made.outputs}"
        raise InvalidProgram(program, None, f"{message}: {wrong or 'some'} may not be")
    for name in names:
        inner, outer = made.buffers[name], program.buffers[name]
        if (inner.dtype, inner.shape) != (outer.dtype, outer.shape):
            raise InvalidProgram(program, None, f"{inner} of the weight program is {outer}")


def check_state(program: Program, state: Collection[str]) -> None:
    """The weight program reads nothing of the ``state`` that other methods of a package change."""
    made, parts = program.weight_program, {one.name: one.parts for one in program.packed}
    read = () if made is None else (p for w in made.weights for p in parts.get(w, (w,)))
    if changed := [name for name in read if name in state]:
        message = f"the weight program reads {changed}, which other methods change"
        raise InvalidProgram(program, None, message)


CONTROL_CHECKS = (check_part_programs, check_conditions, check_weight_program)
