"""Kernel parameters in C: pointers and sizes, read from the cells of a call."""

from aotpack.render.c.dialect import C
from aotpack.render.c.types import C_STORED
from aotpack.render.emit.arguments import Arguments


def parameter_lines(arguments: Arguments, stored: tuple[str, ...]) -> tuple[str, ...]:
    """A constant for each parameter, in the order of ``arguments.parameters()``."""
    lines: list[str] = []
    for buffer in arguments.buffers:
        kind = C_STORED[arguments.dtype(buffer)]
        kind = kind if buffer in stored else f"const {kind}"
        name = arguments.pointer(buffer)
        lines.append(f"{kind} *const {name} = ({kind} *)(uintptr_t){_cell(len(lines))};")
    for size in arguments.sizes:
        lines.append(f"const int64_t {C.size(size.name)} = (int64_t){_cell(len(lines))};")
    return tuple(lines)


def _cell(number: int) -> str:
    return f"call->cells[call->slots[{number}]]"
