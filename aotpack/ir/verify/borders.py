"""The memory order of what callers give and get."""

from aotpack.ir.program import Program
from aotpack.ir.verify.invalid import InvalidProgram


def check_orders(program: Program) -> None:
    """An order is one of the buffer's dimensions; weights have none, and updates keep theirs."""
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
