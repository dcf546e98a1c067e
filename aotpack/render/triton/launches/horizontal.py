"""Horizontal fusion: one launch of small kernels, a function each, found by a binary search.

program = tl.program_id(0)
if program < 12:
    add(p0, p1, p2, program)
else:
    mul(p0, p3, p4, program - 12)

Programs of dynamic sizes are counted by size expressions: ``start1 = (b + 7)//8``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.kernel import Kernel, Schedule, block_count
from aotpack.ir.kernels.tiles import PointwiseTile, ReductionTile, Tile
from aotpack.ir.kernels.traffic import NO_WORK, work_of
from aotpack.ir.symbolic.integers import Int, Var
from aotpack.render.emit.kernel_builder import KernelBuilder
from aotpack.render.emit.language import Divisibility, RenderedKernel
from aotpack.render.emit.regions import INDENT
from aotpack.render.emit.source_text import digest, without_comments
from aotpack.render.environment import render_template
from aotpack.render.triton.contexts import HorizontalContext, LoopContext
from aotpack.render.triton.loops.loops import loop_kernel
from aotpack.render.triton.reserved import COMMENT_MARK
from aotpack.stages import KernelArg

PROGRAM = "program"  # the parameter of member functions
MAX_COMMENTS = 12


@dataclass(frozen=True, slots=True)
class _Call:
    """A call of a member's function without its last argument, and the member's first program."""

    text: str
    start: str


def horizontal_launch(
    schedule: Schedule,
    kernels: tuple[Kernel, ...],
    tiles: tuple[Tile, ...],
    divisibility: Divisibility,
) -> RenderedKernel:
    """One kernel for all of a launch."""
    builders: list[KernelBuilder] = []
    members: list[LoopContext] = []
    starts: list[Int] = []
    programs = Int.of(0)
    for kernel, tile in zip(kernels, tiles, strict=True):
        assert isinstance(tile, (PointwiseTile, ReductionTile))
        made = loop_kernel(schedule, kernel, tile, PROGRAM)
        members.append(member_function(made.context))
        builders.append(made.builder)
        starts.append(programs)
        programs += block_count(kernel, tile)
    passed = launch_parameters(builders)
    named, lines = _starts_of(starts)
    calls = map(_Call, member_calls(builders, members, passed), named)
    context = horizontal_context(builders, members, passed, [*lines, *_search(list(calls), "")])
    return RenderedKernel(
        _name(kernels),
        lambda name: render_template("kernel_horizontal.py.jinja", replace(context, name=name)),
        tuple(passed.values()),
        tuple(passed),
        tiles[0],
        sum((work_of(kernel, schedule.program) for kernel in kernels), NO_WORK),
        programs,
    )


def member_function(context: LoopContext) -> LoopContext:
    """A loop kernel as a function of its program number, named by a digest of its text."""
    parameters = (*context.parameters, PROGRAM)
    function = replace(context, parameters=parameters, comments=())
    text = without_comments(render_template("loop_function.py.jinja", function), COMMENT_MARK)
    return replace(function, name=f"{context.name}_{digest(text)}")


def launch_parameters(
    builders: Sequence[KernelBuilder],
    divisibility: Mapping[Var, int] = {},
    more: Mapping[str, KernelArg] = {},
) -> dict[str, KernelArg]:
    """The launch's parameters by argument: those of the members and ``more``, tensors before sizes.

    A shared argument is passed once; a size has the widest type that a member needs.
    """
    found: dict[str, KernelArg] = {}
    for builder in builders:
        arguments = builder.arguments
        for text, arg in zip(arguments.names, arguments.parameters(divisibility), strict=True):
            known = found.get(text, replace(arg, name=f"p{len(found)}") if arg.is_pointer else arg)
            wide = DType.INT64 in (known.dtype, arg.dtype) and not arg.is_pointer
            found[text] = replace(
                known,
                dtype=DType.INT64 if wide else known.dtype,
                is_written=known.is_written or arg.is_written,
            )
    return dict(sorted({**found, **more}.items(), key=lambda item: not item[1].is_pointer))


def member_calls(
    builders: Sequence[KernelBuilder],
    members: Sequence[LoopContext],
    passed: Mapping[str, KernelArg],
) -> list[str]:
    """A call of each member's function, without its last argument, the program number."""
    return [
        f"{member.name}({', '.join(passed[text].name for text in builder.arguments.names)}"
        for builder, member in zip(builders, members, strict=True)
    ]


def horizontal_context(
    builders: Sequence[KernelBuilder],
    members: Sequence[LoopContext],
    passed: Mapping[str, KernelArg],
    lines: Sequence[str],
) -> HorizontalContext:
    """The template's context: each function and member once, and the lines that call them."""
    functions = {name: text for builder in builders for name, text in builder.functions.items()}
    comments = dict.fromkeys(line for builder in builders for line in builder.comments)
    return HorizontalContext(
        name="",
        comments=tuple(comments)[:MAX_COMMENTS],
        functions=tuple(functions.values()),
        members=tuple({member.name: member for member in members}.values()),
        parameters=tuple(arg.name for arg in passed.values()),
        lines=tuple(lines),
    )


def _starts_of(starts: list[Int]) -> tuple[list[str], list[str]]:
    """The first program of each member as text, and the lines that compute those of sizes."""
    texts = [
        f"start{number}" if start.constant is None else str(start)
        for number, start in enumerate(starts)
    ]
    pairs = zip(texts, starts, strict=True)
    return texts, [f"{text} = {start}" for text, start in pairs if start.constant is None]


def _search(calls: list[_Call], indent: str) -> list[str]:
    """The lines of the binary search."""
    if len(calls) == 1:
        (call,) = calls
        number = PROGRAM if call.start == "0" else f"{PROGRAM} - {call.start}"
        return [f"{indent}{call.text}, {number})"]
    half = len(calls) // 2
    return [
        f"{indent}if {PROGRAM} < {calls[half].start}:",
        *_search(calls[:half], indent + INDENT),
        f"{indent}else:",
        *_search(calls[half:], indent + INDENT),
    ]


def _name(kernels: tuple[Kernel, ...]) -> str:
    """The first kernel's name, and the number of the others."""
    return f"{kernels[0].name}_and_{len(kernels) - 1}_more"
