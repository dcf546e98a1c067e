"""Several small kernels in one launch: a function each, and a search by program number (C:J6, J17).

program = tl.program_id(0)
if program < 12:
    add(p0, p1, p2, program)
else:
    mul(p0, p3, p4, program - 12)

Rows C:J7-J11, J13.
"""

from dataclasses import dataclass, replace

from aotpack.ir.integers import Int
from aotpack.ir.schedule import (
    Kernel,
    PointwiseTile,
    ReductionTile,
    Schedule,
    Variant,
    block_count,
    gpu_variants,
)
from aotpack.ir.traffic import NO_WORK, work_of
from aotpack.render.contexts import CombinedContext, LoopContext
from aotpack.render.environment import render_template
from aotpack.render.loops import loop_context, loop_workshop
from aotpack.render.regions import INDENT
from aotpack.render.sources import Launched, Sources, digest, without_comments
from aotpack.render.workshop import Workshop
from aotpack.stages import KernelArg

PROGRAM = "program"  # the parameter of member functions


@dataclass(frozen=True, slots=True)
class _Call:
    """A member's function, what it is called with, and its first program."""

    function: str
    arguments: tuple[str, ...]
    start: int


def combined_launch(
    schedule: Schedule, kernels: tuple[Kernel, ...], own: Variant, sources: Sources
) -> Launched:
    """One source for all kernels of a launch, for an architecture's own part of their variant."""
    passed: dict[tuple[str, KernelArg], str] = {}
    members: dict[str, LoopContext] = {}
    functions: dict[str, str] = {}
    calls: list[_Call] = []
    programs = 0
    for kernel in kernels:
        (variant,) = gpu_variants(kernel)
        tile = variant.tile
        assert isinstance(tile, (PointwiseTile, ReductionTile))
        shop = loop_workshop(schedule, kernel, tile, PROGRAM)
        member = member_function(loop_context(schedule, kernel, tile, shop, PROGRAM))
        members.setdefault(member.name, member)
        functions |= shop.functions
        calls.append(_Call(member.name, _passed(shop, passed), programs))
        programs += int(block_count(kernel, tile))
    context = CombinedContext(
        name="",
        functions=tuple(functions.values()),
        members=tuple(members.values()),
        parameters=tuple(passed.values()),
        lines=tuple(_search(calls, "")),
    )
    parameters = tuple(replace(arg, name=name) for (_, arg), name in passed.items())
    name = sources.add(
        _name(kernels),
        lambda name: render_template("kernel_combined.py.jinja", replace(context, name=name)),
        parameters,
        own.tile,
        own,
        "triton",
        sum((work_of(kernel, schedule.program) for kernel in kernels), NO_WORK),
    )
    return Launched(name, Int.of(programs), tuple(text for text, _ in passed))


def member_function(context: LoopContext) -> LoopContext:
    """A loop kernel as a function of its program number, named by its text."""
    parameters = (*context.parameters, PROGRAM)
    function = replace(context, parameters=parameters, comments=())
    text = without_comments(render_template("loop_function.py.jinja", function), "triton")
    return replace(function, name=f"{context.name}_{digest(text)}")


def _passed(shop: Workshop, passed: dict[tuple[str, KernelArg], str]) -> tuple[str, ...]:
    """The names of a member's arguments in the launch; a tensor of several members is one."""
    names = []
    for text, arg in zip(shop.arguments.names, shop.arguments.parameters(), strict=True):
        key = (text, replace(arg, name=""))
        names.append(passed.setdefault(key, f"p{len(passed)}"))
    return tuple(names)


def _search(calls: list[_Call], indent: str) -> list[str]:
    """The lines that halve the calls until one is left."""
    if len(calls) == 1:
        (call,) = calls
        number = f"{PROGRAM} - {call.start}" if call.start else PROGRAM
        return [f"{indent}{call.function}({', '.join([*call.arguments, number])})"]
    half = len(calls) // 2
    return [
        f"{indent}if {PROGRAM} < {calls[half].start}:",
        *_search(calls[:half], indent + INDENT),
        f"{indent}else:",
        *_search(calls[half:], indent + INDENT),
    ]


def _name(kernels: tuple[Kernel, ...]) -> str:
    """The first kernel's name, and how many more there are."""
    return f"{kernels[0].name}_and_{len(kernels) - 1}_more"
