"""The error of a program that breaks an invariant."""

from aotpack.ir.program import Program, program_text


class InvalidProgram(Exception):
    """An invariant of the IR is broken. Its text is the program, marked under the operation."""

    def __init__(self, program: Program, position: int | None, message: str) -> None:
        notes = {} if position is None else {position: message}
        super().__init__(f"{message}\n\n{program_text(program, notes)}")
