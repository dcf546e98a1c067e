"""The memory order of what callers give and get."""

from aotpack.ir.foreign import Foreign
from aotpack.ir.program import Program
from aotpack.ir.verify.invalid import InvalidProgram


def check_orders(program: Program) -> None:
    """An order is of the buffer's dimensions. Weights and operands of others have none."""
    weights = {*program.weights}
    for name, buffer in program.buffers.items():
        is_order = sorted(buffer.order) == list(range(len(buffer.shape)))
        if buffer.order and (name in weights or not is_order):
            raise InvalidProgram(program, None, f"{buffer} has the order {buffer.order}")
    for update in program.updates:
        before, after = program.buffers[update.name], program.buffers[update.value]
        if before.order != after.order:
            message = f"{before} of order {before.order} becomes {after} of order {after.order}"
            raise InvalidProgram(program, None, message)
    for position, operation in enumerate(program.operations):
        operands = operation.operands if isinstance(operation, Foreign) else ()
        for name in operands:
            if order := program.buffers[name].order:
                message = f"an operator of others reads {name} of order {order}"
                raise InvalidProgram(program, position, message)
