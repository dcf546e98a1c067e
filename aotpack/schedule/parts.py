"""Parts of branches, loops and calls, and the weight program: scheduled by the same passes.

A part has one schedule for all architectures, the weight program one for each that the program has.
Their kernels have one form, but for those of calls.
"""

from collections.abc import Mapping
from dataclasses import replace

from aotpack.ir.kernels.kernel import Kernel, Schedule
from aotpack.ir.program import Call, Control, Operation, Program, targets
from aotpack.ir.verify.control import check_state
from aotpack.schedule.bodies import Bodies
from aotpack.schedule.draft import Draft


def schedule_parts(draft: Draft) -> tuple[Program, Mapping[str, tuple[Schedule, ...]]]:
    """Schedule the parts of branches and loops, each by all passes, and once the body of calls."""
    parts: dict[str, tuple[Schedule, ...]] = {}
    operations: list[Operation] = []
    bodies = Bodies(draft)
    calls = [one for one in draft.program.operations if isinstance(one, Call)]
    for operation in draft.program.operations:
        if isinstance(operation, Control) and targets(operation)[0] in draft.parts:
            pass  # of the weight program: it was scheduled with its readers
        elif isinstance(operation, Call):
            same = [one for one in calls if one.body is operation.body]
            operation = bodies.scheduled(operation, same)
        elif isinstance(operation, Control):
            made = parts[targets(operation)[0]] = _planned(draft, operation)
            operation = operation.with_parts(tuple(part.program for part in made))
        operations.append(operation)
    found = {**draft.parts, **parts, **bodies.parts}
    if len(found) == len(draft.parts):
        return draft.program, draft.parts
    return bodies.program(tuple(operations)), found


def _planned(draft: Draft, operation: Control) -> tuple[Schedule, ...]:
    """The schedules of an operation's parts."""
    options = replace(draft.options, offers_unfused=False)
    around = f" of {targets(operation)[0]}" + (draft.part and f", {draft.part}")
    drafts = (
        replace(draft, program=part, options=options, part=f"part {number}{around}")
        for number, part in enumerate(operation.parts, 1)
    )
    return tuple(part.prepared().planned() for part in drafts)


def attach_parts(
    kernels: tuple[Kernel, ...], parts: Mapping[str, tuple[Schedule, ...]]
) -> tuple[Kernel, ...]:
    """Give each branch, loop and call the schedules of its parts."""
    return tuple(
        replace(kernel, parts=parts[targets(kernel.control)[0]])
        if kernel.control is not None
        else kernel
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
    check_state(program, draft.options.state)
    own = Draft(
        program.weight_program,
        parts=draft.parts,
        given={name: draft.strides[name] for name in program.derived},
        options=replace(draft.options, offers_unfused=False, partition=None),
        part="the weight program",
        arches=draft.arches,
        passes=draft.passes,
        after=draft.after,
    )
    made = own.prepared().planned()
    return replace(program, weight_program=made.program), made
