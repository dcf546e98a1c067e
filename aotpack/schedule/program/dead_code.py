"""Drop operations whose results nobody reads, and the buffers, inputs' excepted, nobody uses."""

from dataclasses import replace

from aotpack.ir.program import Operation, Program, reads, targets


def remove_dead_code(program: Program) -> Program:
    """The program without operations that do not reach an output; same object if none."""
    needed = set(program.results)
    kept: list[Operation] = []
    for operation in reversed(program.operations):
        if needed.intersection(targets(operation)):
            kept.append(operation)
            needed.update(reads(operation))
    if len(kept) == len(program.operations):
        return program
    written = {name for operation in kept for name in targets(operation)}
    alive = written | set(program.inputs) | set(program.weights)
    buffers = {name: buffer for name, buffer in program.buffers.items() if name in alive}
    return replace(program, operations=tuple(reversed(kept)), buffers=buffers)
