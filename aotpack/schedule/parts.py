"""Parts of branches and loops, and the weight program: scheduled by the same passes.

A part has one schedule for all architectures, the weight program one for each that the program has.
Their kernels have one form.
"""

from collections.abc import Mapping
from dataclasses import replace

from aotpack.ir.kernels.kernel import Kernel, Schedule
from aotpack.ir.program import Control, Operation, Program, targets
from aotpack.schedule.draft import Draft


def schedule_parts(draft: Draft) -> tuple[Program, Mapping[Operation, tuple[Schedule, ...]]]:
    """Schedule the parts of branches and loops, each by all passes."""
    options = replace(draft.options, offers_unfused=False)
    parts: dict[Operation, tuple[Schedule, ...]] = {}
    operations: list[Operation] = []
    for operation in draft.program.operations:
        if isinstance(operation, Control):
            around = f" of {targets(operation)[0]}" + (draft.part and f", {draft.part}")
            drafts = (
                replace(draft, program=part, options=options, part=f"part {number}{around}")
                for number, part in enumerate(operation.parts, 1)
            )
            made = tuple(part.prepared().planned() for part in drafts)
            operation = operation.with_parts(tuple(part.program for part in made))
            parts[operation] = made
        operations.append(operation)
    if not parts:
        return draft.program, draft.parts
    return replace(draft.program, operations=tuple(operations)), parts


def attach_parts(
    kernels: tuple[Kernel, ...], parts: Mapping[Operation, tuple[Schedule, ...]]
) -> tuple[Kernel, ...]:
    """Give each branch and loop the schedules of its parts."""
    return tuple(
        replace(kernel, parts=parts[kernel.control]) if kernel.control is not None else kernel
        for kernel in kernels
    )


def schedule_weight_program(draft: Draft) -> tuple[Program, Schedule | None]:
    """Schedule the weight program, which writes derived weights as their readers chose.

    It packs no weights, which the program may have packed, and shares no launches: so equal kernels
    of a model, such as copies, are one.
    """
    program = draft.program
    if program.weight_program is None:
        return program, None
    own = Draft(
        program.weight_program,
        given={name: draft.strides[name] for name in program.derived},
        options=replace(draft.options, offers_unfused=False, partition=None),
        part="the weight program",
        arches=draft.arches,
        passes=draft.passes,
        after=draft.after,
    )
    made = own.prepared().planned()
    return replace(program, weight_program=made.program), made
