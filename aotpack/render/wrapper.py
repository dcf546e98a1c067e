"""The rendered wrapper: launches, intermediates and output shapes as tables of expressions."""

from collections.abc import Iterator
from typing import TypeAlias

from aotpack.ir.kernels.kernel import Kernel, Schedule, launches
from aotpack.ir.kernels.rows import buffer_bytes, storage_bytes
from aotpack.ir.program import Branch, Call, Loop, Program, SizeRead
from aotpack.ir.symbolic.facts import bounds
from aotpack.ir.symbolic.integers import Int
from aotpack.render.contexts import (
    BodyContext,
    LaunchContext,
    NestedContext,
    PartContext,
    PlanContext,
    WrapperContext,
)
from aotpack.render.emit.reserved import Reserved
from aotpack.render.environment import render_template
from aotpack.render.launch_texts import (
    comment_of,
    held_choices,
    launch_context,
    part_names,
    tuple_text,
)
from aotpack.render.sources import Called, Choice, LaunchPlan, Nested, Step
from aotpack.stages import DerivedWeight, Signature, TensorSpec
from aotpack.target import Target

ALIGNMENT = 256  # bytes, of every intermediate
CONTROL = ("Branch", "Loop", "Part")  # what a wrapper imports for control flow
WRAPPER_NAMES = Reserved(
    frozenset(
        [*CONTROL, *"SizeRead Body Buffer Call Counters Launch Plan Repeat arch pick".split()]
    )
)
Bodies: TypeAlias = dict[int, BodyContext]


def render_wrapper(signature: Signature, plans: tuple[LaunchPlan, ...]) -> str:
    """The text of ``wrapper.py``."""
    weights = _weight_plans(plans)
    every = (*plans, *weights)
    has_calls = any(_has_calls(plan.schedule) for plan in every)
    choices = [choice for plan in every for choice in _choices(plan.steps)]
    forms = [launched for choice in choices for form in choice.forms for launched in form]
    imported = {"Buffer", "Launch", "Plan"}.union(*(_controls(plan.steps) for plan in every))
    imported |= {"Call"} if any(isinstance(launched, Called) for launched in forms) else set()
    has_counters = any(k.counters for plan in every for k in _kernels(plan.schedule.kernels))
    imported |= {"Counters"} if has_counters else set()
    imported |= {"Body", "Part", "Repeat", "unrolled"} if has_calls else set()
    has_choices = any(len(choice.forms) > 1 for choice in choices)
    context = WrapperContext(
        title=f"{signature.name} {signature.version}",
        imported=(*sorted(imported), *(["first"] if has_choices else [])),
        parameters=tuple(size.name for size in signature.sizes),
        outputs=tuple(_output(spec, signature) for spec in signature.outputs),
        plans=_plans(plans, signature),
        has_choices=has_choices,
        weights=_plans(weights, signature),
        has_calls=has_calls,
    )
    return render_template("wrapper.py.jinja", context)


def _output(spec: TensorSpec, signature: Signature) -> str:
    """The shape of an output; None where it waits for sizes."""
    counted = {one.size for one in signature.counted}
    waits = any(counted.intersection(size.leaves()) for size in spec.shape)
    return "None" if waits else tuple_text(spec.shape)


def _weight_plans(plans: tuple[LaunchPlan, ...]) -> tuple[LaunchPlan, ...]:
    """The plans that compute derived weights, without launches for architectures without any."""
    if all(plan.weights is None for plan in plans):
        return ()
    nothing = Schedule(Program((), {}, (), (), (), ()), (), {}, ())
    return tuple(plan.weights or LaunchPlan(nothing, (), plan.targets) for plan in plans)


def _plans(plans: tuple[LaunchPlan, ...], signature: Signature) -> tuple[PlanContext, ...]:
    """Plans with the conditions under which they are taken, the last without one."""
    found = []
    for plan in plans:
        arches = tuple_text(sorted({target.arch for target in plan.targets}))
        names = _tensor_names(signature, plan.schedule)
        bodies = _bodies(plan.steps, plan.targets, {})
        body = _part("", plan.schedule, plan.steps, names, plan.targets, bodies)
        condition = "" if plan is plans[-1] else f"arch in {arches}"
        found.append(PlanContext(condition, body, tuple(bodies.values())))
    return tuple(found)


def _has_calls(schedule: Schedule) -> bool:
    return any(isinstance(kernel.control, Call) for kernel in schedule.kernels)


def _bodies(steps: tuple[Step, ...], targets: tuple[Target, ...], known: Bodies) -> Bodies:
    """The bodies of calls, by their schedules; those that others call come first."""
    for step in steps:
        if not isinstance(step, Nested) or not isinstance(step.kernel.control, Call):
            continue
        (part,), (inner,) = step.kernel.parts, step.parts
        if id(part) not in known:
            _bodies(inner, targets, known)
            names = _own_names(part)
            own = _part("", part, inner, names, targets, known)
            program = part.program
            given = (*program.inputs, *program.weights, *program.outputs)
            name = f"body{len(known) + 1}"
            known[id(part)] = BodyContext(name, tuple_text(map(repr, given)), own)
    return known


def _own_names(part: Schedule) -> dict[str, str]:
    """The names of buffers in a body: parameters, results, and the storages of others."""
    program = part.program
    names = {name: name for name in (*program.inputs, *program.weights, *program.outputs)}
    names |= {life.buffer: life.storage for life in part.lifetimes}
    names |= {update.value: update.name for update in program.updates}
    return names


def derived_weights(plans: tuple[LaunchPlan, ...]) -> tuple[DerivedWeight, ...]:
    """The weights that weight programs compute, with the bytes of the widest layout."""
    found: dict[str, DerivedWeight] = {}
    for schedule in (plan.schedule for plan in plans):
        for name in schedule.program.derived:
            buffer = schedule.program.buffers[name]
            size = int(storage_bytes(buffer, schedule.strides))
            size = max(size, found[name].bytes if name in found else 0)
            found[name] = DerivedWeight(name, buffer.dtype, tuple(map(int, buffer.shape)), size)
    return tuple(found.values())


def _kernels(kernels: tuple[Kernel, ...]) -> Iterator[Kernel]:
    """All kernels of steps, with those inside branches and loops."""
    for kernel in kernels:
        yield kernel
        for part in kernel.parts:
            yield from _kernels(part.kernels)


def _controls(steps: tuple[Step, ...]) -> set[str]:
    """What the wrapper imports for control flow and size reads."""
    found: set[str] = set()
    for step in steps:
        if isinstance(step, Nested):
            is_read = isinstance(step.kernel.control, SizeRead)
            if not isinstance(step.kernel.control, Call) and not step.is_held:
                found.update(("SizeRead", "Part") if is_read else CONTROL)
            found.update(*map(_controls, step.parts))
    return found


def _choices(steps: tuple[Step, ...]) -> Iterator[Choice]:
    """All choices of steps, with those inside branches and loops."""
    for step in steps:
        if isinstance(step, Nested):
            yield from step.choices
            for part in step.parts:
                yield from _choices(part)
        else:
            yield from (*step.choices, *step.separate)


def _part(
    name: str,
    schedule: Schedule,
    steps: tuple[Step, ...],
    names: dict[str, str],
    targets: tuple[Target, ...],
    bodies: Bodies,
) -> PartContext:
    """The intermediates and launches of a schedule, whose buffers have these ``names``."""
    names = names | {name: name for name, *_ in _passed(schedule, steps)}
    own = (b for kernel in schedule.kernels for b in (*kernel.exchange, *kernel.counters))
    names |= {buffer.name: buffer.name for buffer in own}
    launched = tuple(
        _nested(step, names, targets, bodies)
        if isinstance(step, Nested)
        else launch_context(step, names, targets)
        for step in steps
    )
    return PartContext(name, _buffers(schedule, steps), launched, _counters(schedule))


def _nested(
    step: Nested, names: dict[str, str], targets: tuple[Target, ...], bodies: Bodies
) -> NestedContext | LaunchContext:
    """A step with parts; iteration numbers and sizes keep their names."""
    control = step.kernel.control
    assert control is not None
    if isinstance(control, Call):
        results = control.targets[: len(control.body.outputs)]
        passed = tuple_text(repr(names[name]) for name in (*control.arguments, *results))
        text = f"Repeat({bodies[id(step.kernel.parts[0])].name}, {passed})"
        return LaunchContext((("", text),))
    held = held_choices(step, names, targets) if step.choices else ()
    if step.is_held:
        return LaunchContext((*held[:-1], ("", held[-1][1])))
    head, labels = _opening(control, names)
    turn = control.turn.name if isinstance(control, Loop) and control.turn else ""
    numbered = {turn: turn} if turn else {}
    parts = zip(labels, step.kernel.parts, step.parts, strict=True)
    return NestedContext(
        comment_of((step.kernel,)),
        head,
        tuple(
            _part(label, part, inner, part_names(part, {**names, **numbered}), targets, bodies)
            for label, part, inner in parts
        ),
        held,
    )


def _opening(
    control: Branch | Loop | SizeRead, names: dict[str, str]
) -> tuple[str, tuple[str, ...]]:
    """The beginning of the step's call, and what stands before each part."""
    if isinstance(control, SizeRead):
        sizes = tuple(size.name for size in control.sizes)
        counts = tuple_text(repr(names[name]) for name in control.counts)
        head = f"SizeRead({tuple_text(map(repr, sizes))}, {counts}, {tuple_text(control.most)}"
        return head, (f"lambda {', '.join(sizes)}: ",)
    condition = control.predicate if isinstance(control, Branch) else control.condition
    shown = repr(names[condition]) if isinstance(condition, str) else str(condition)
    if isinstance(control, Branch):
        return f"Branch({shown}", ("", "")
    turn = control.turn.name if control.turn is not None else ""
    labels = ("entry=", "body=") if control.test is None else ("entry=", "test=", "body=")
    return f"Loop({shown}, {turn!r}", labels


def peak_bytes(schedule: Schedule, steps: tuple[Step, ...]) -> int:
    """Bytes of intermediates alive at once, and of counters, at the largest admitted sizes."""
    storages = (*_storages(schedule), *_passed(schedule, steps))
    spans = [(_largest(text), first, last) for _, text, first, last in storages]
    for place, step in enumerate(steps):
        if isinstance(step, Nested):
            parts = zip(step.kernel.parts, step.parts, strict=True)
            spans.append((max(peak_bytes(*part) for part in parts), place, place))
    times = range(len(launches(schedule.kernels)))
    counters = (counter for kernel in schedule.kernels for counter in kernel.counters)
    always = sum(_largest(buffer_bytes(counter)) for counter in counters)
    return always + max((sum(n for n, a, b in spans if a <= t <= b) for t in times), default=0)


def _largest(size: Int) -> int:
    return -(-int(bounds(size)[1]) // ALIGNMENT) * ALIGNMENT


def _storages(schedule: Schedule) -> list[tuple[str, Int, int, int]]:
    """(name, bytes, first launch, last launch) for each storage; in-place results extend it."""
    spans: dict[str, tuple[int, int]] = {}
    results = schedule.result_storages
    for lifetime in schedule.lifetimes:
        if lifetime.storage in results:
            continue
        first, last = spans.get(lifetime.storage, (lifetime.first, lifetime.last))
        spans[lifetime.storage] = (min(first, lifetime.first), max(last, lifetime.last))
    buffers = schedule.program.buffers
    return [
        *((n, storage_bytes(buffers[n], schedule.strides), *span) for n, span in spans.items()),
        *(
            (buffer.name, buffer_bytes(buffer), step, step)
            for step, together in enumerate(launches(schedule.kernels))
            for kernel in together
            for buffer in kernel.exchange
        ),
    ]


def _passed(schedule: Schedule, steps: tuple[Step, ...]) -> list[tuple[str, Int, int, int]]:
    """Intermediates between the launches of one form, as ``_storages``, each alive in one step."""
    buffers = schedule.program.buffers
    kept = {*schedule.program.results, *(life.buffer for life in schedule.lifetimes)}
    found = {}
    for place, step in enumerate(steps):
        if isinstance(step, Nested):
            continue
        choices = (*step.choices, *step.separate)
        several = [form for choice in choices for form in choice.forms if len(form) > 1]
        inside = {
            name for kernel in step.kernels for part in kernel.unfused for name in part.stored
        }
        for name in (a for form in several for launched in form for a in launched.arguments):
            if name in inside and name not in kept:
                size = storage_bytes(buffers[name], schedule.strides)
                found[name] = (name, size, place, place)
    return list(found.values())


def _buffers(schedule: Schedule, steps: tuple[Step, ...]) -> tuple[tuple[str, str, int, int], ...]:
    storages = (*_storages(schedule), *_passed(schedule, steps))
    return tuple((name, str(size), first, last) for name, size, first, last in storages)


def _counters(schedule: Schedule) -> tuple[tuple[str, str], ...]:
    counters = (counter for kernel in schedule.kernels for counter in kernel.counters)
    return tuple((counter.name, str(buffer_bytes(counter))) for counter in counters)


def _tensor_names(signature: Signature, schedule: Schedule) -> dict[str, str]:
    """The wrapper's name of each buffer: its storage, or the output that it is."""
    program: Program = schedule.program
    names = {name: name for name in (*program.inputs, *program.weights)}
    names |= {packed.name: packed.parts[0] for packed in program.packed}
    outputs = {name: name for name in schedule.given}
    if program.outputs and not outputs:
        given = zip(program.outputs, signature.outputs, strict=True)
        outputs = {name: output.name for name, output in given}
    names |= {life.buffer: outputs.get(life.storage, life.storage) for life in schedule.lifetimes}
    names |= outputs
    return names | {update.value: names[update.name] for update in program.updates}
