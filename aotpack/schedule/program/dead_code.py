"""Dead code elimination: drop operations that reach no result, and their buffers."""

from collections.abc import Iterable
from dataclasses import replace

from aotpack.ir.program import Operation, Program, reads, targets


def remove_dead_code(program: Program) -> Program:
    """Drop operations that reach no result; the same object if there is none."""
    needed = set(program.results)
    kept: list[Operation] = []
    for operation in reversed(program.operations):
        if needed.intersection(targets(operation)):
            kept.append(operation)
            needed.update(reads(operation))
    if len(kept) == len(program.operations):
        return program
    return with_operations(program, kept[::-1])


def with_operations(program: Program, operations: Iterable[Operation]) -> Program:
    """The program of some operations, without the buffers that they leave unwritten."""
    operations = tuple(operations)
    written = {name for operation in operations for name in targets(operation)}
    alive = written.union(program.inputs, program.weights)
    buffers = {name: buffer for name, buffer in program.buffers.items() if name in alive}
    return replace(program, operations=operations, buffers=buffers)
