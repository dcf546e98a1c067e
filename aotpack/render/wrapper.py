"""The rendered wrapper: launches, intermediates and output shapes, tables of plain expressions.

Rows S:E4, C:H15.
"""

from collections.abc import Iterable

from aotpack.ir.facts import bounds
from aotpack.ir.integers import Int, product
from aotpack.ir.nodes import Buffer, Program
from aotpack.ir.schedule import Kernel, Schedule, launches
from aotpack.render.contexts import LaunchContext, WrapperContext
from aotpack.render.environment import render_template
from aotpack.render.sources import Alternatives, Called, Choice, Launched
from aotpack.stages import Signature
from aotpack.target import Target

ALIGNMENT = 256  # bytes, of every intermediate


def render_wrapper(
    signature: Signature,
    schedule: Schedule,
    steps: tuple[Alternatives, ...],
    targets: tuple[Target, ...],
) -> str:
    """The text of ``wrapper.py``."""
    names = _tensor_names(signature, schedule)
    names |= {name: name for name, *_ in _passed(schedule, steps)}
    context = WrapperContext(
        title=f"{signature.name} {signature.version}: {len(steps)} launches",
        parameters=tuple(size.name for size in signature.sizes),
        buffers=_buffers(schedule, steps),
        outputs=tuple(_tuple(spec.shape) for spec in signature.outputs),
        launches=tuple(launch for step in steps for launch in _launches(step, names, targets)),
        has_calls=any(
            isinstance(launched, Called)
            for step in steps
            for choice in step.choices
            for form in choice.forms
            for launched in form
        ),
        has_choices=any(
            len(choice.forms) > 1 for step in steps for choice in (*step.choices, *step.separate)
        ),
    )
    return render_template("wrapper.py.jinja", context)


def peak_bytes(schedule: Schedule, steps: tuple[Alternatives, ...]) -> int:
    """Bytes of intermediates alive at once at the largest admitted sizes."""
    storages = (*_storages(schedule), *_passed(schedule, steps))
    spans = [(_largest(text), first, last) for _, text, first, last in storages]
    times = range(len(launches(schedule.kernels)))
    return max((sum(n for n, a, b in spans if a <= t <= b) for t in times), default=0)


def _largest(size: Int) -> int:
    return -(-int(bounds(size)[1]) // ALIGNMENT) * ALIGNMENT


def _storages(schedule: Schedule) -> list[tuple[str, Int, int, int]]:
    """(name, bytes, first launch, last launch) for each storage; in-place results extend it."""
    spans: dict[str, tuple[int, int]] = {}
    for lifetime in schedule.lifetimes:
        if not schedule.is_own(lifetime):
            continue
        first, last = spans.get(lifetime.storage, (lifetime.first, lifetime.last))
        spans[lifetime.storage] = (min(first, lifetime.first), max(last, lifetime.last))
    buffers = schedule.program.buffers
    return [
        *((name, _bytes(buffers[name]), *span) for name, span in spans.items()),
        *(
            (buffer.name, _bytes(buffer), step, step)
            for step, together in enumerate(launches(schedule.kernels))
            for kernel in together
            for buffer in kernel.exchange
        ),
    ]


def _bytes(buffer: Buffer) -> Int:
    return product(buffer.shape) * buffer.dtype.itemsize


def _passed(schedule: Schedule, steps: tuple[Alternatives, ...]) -> list[tuple[str, Int, int, int]]:
    """What the launches of a form pass on to each other: as ``_storages``, at one place each."""
    buffers, kept = schedule.program.buffers, {life.buffer for life in schedule.lifetimes}
    found = {}
    for place, step in enumerate(steps):
        choices = (*step.choices, *step.separate)
        several = [form for choice in choices for form in choice.forms if len(form) > 1]
        inside = {
            name for kernel in step.kernels for part in kernel.unfused for name in part.stored
        }
        for name in (a for form in several for launched in form for a in launched.arguments):
            if name in inside - kept and name not in schedule.program.results:
                size = _bytes(buffers[name])
                found[name] = (name, size, place, place)
    return list(found.values())


def _buffers(
    schedule: Schedule, steps: tuple[Alternatives, ...]
) -> tuple[tuple[str, str, int, int], ...]:
    storages = (*_storages(schedule), *_passed(schedule, steps))
    return tuple((name, str(size), first, last) for name, size, first, last in storages)


def _tensor_names(signature: Signature, schedule: Schedule) -> dict[str, str]:
    """What the wrapper calls each buffer: its storage, or the name of the output it is."""
    program: Program = schedule.program
    names = {name: name for name in (*program.inputs, *program.weights)}
    names |= {packed.name: packed.parts[0] for packed in program.packed}
    given = zip(program.outputs, signature.outputs, strict=True)
    outputs = {name: output.name for name, output in given}
    names |= {life.buffer: outputs.get(life.storage, life.storage) for life in schedule.lifetimes}
    names |= {buffer.name: buffer.name for k in schedule.kernels for buffer in k.exchange}
    names |= outputs
    return names | {update.value: names[update.name] for update in program.updates}


def _launches(
    step: Alternatives, names: dict[str, str], targets: tuple[Target, ...]
) -> tuple[LaunchContext, ...]:
    """One launch; of kernels that share it on GPUs alone, one each where no GPU is meant."""
    texts = [_text(choice, names) for choice in step.choices]
    conditions = [_condition(choice, targets) for choice in step.choices]
    if step.separate and not step.choices:
        return tuple(
            LaunchContext(_comment((kernel,)), (("", _text(choice, names)),))
            for kernel, choice in zip(step.kernels, step.separate, strict=True)
        )
    if step.separate:
        texts.append(_tuple(_text(choice, names) for choice in step.separate))
    pairs = zip([*conditions, ""], texts, strict=False)
    last = len(texts) - 1
    together = tuple((c if n < last else "", text) for n, (c, text) in enumerate(pairs))
    return (LaunchContext(_comment(step.kernels), together),)


def _comment(kernels: tuple[Kernel, ...]) -> str:
    """The last source line behind the kernels; without one, the name of the first."""
    sources = [s for k in kernels for member in k.members for s in member.operation.origin.sources]
    return sources[-1] if sources else kernels[0].name


def _text(choice: Choice, names: dict[str, str]) -> str:
    """The Launch expression; where there are several forms, the runtime picks."""
    forms = [_form(form, names) for form in choice.forms]
    return forms[0] if len(forms) == 1 else f'pick("{choice.key}", {", ".join(forms)})'


def _form(form: tuple[Launched | Called, ...], names: dict[str, str]) -> str:
    texts = []
    for launched in form:
        if isinstance(launched, Called):
            passed = (_argument(argument, names) for argument in launched.arguments)
            texts.append(f'Call("{launched.kernel}", {_tuple(passed)})')
            continue
        arguments = _tuple(repr(names[a]) if a in names else a for a in launched.arguments)
        grid = _tuple((launched.programs, *launched.planes))
        texts.append(f'Launch("{launched.kernel}", {grid}, {arguments})')
    return texts[0] if len(texts) == 1 else _tuple(texts)


def _argument(argument: tuple[str, tuple[Int, ...]] | Int, names: dict[str, str]) -> str:
    """A tensor's name and shape, or an integer."""
    if isinstance(argument, Int):
        return str(argument)
    name, shape = argument
    return f"({names[name]!r}, {_tuple(shape)})"


def _condition(choice: Choice, targets: tuple[Target, ...]) -> str:
    variant = choice.variant
    tests = []
    if any(target.arch > variant.arch_high for target in targets):
        tests.append(f"arch <= {variant.arch_high}")
    if any(target.arch < variant.arch_low for target in targets):
        tests.append(f"arch >= {variant.arch_low}")
    if variant.at_most is not None:
        tests.append(f"{variant.measure} <= {variant.at_most}")
    tests += [f"{size} % {factor} == 0" for size, factor in variant.promises]
    return " and ".join(tests)


def _tuple(items: Iterable[object]) -> str:
    texts = [str(item) for item in items]
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"
