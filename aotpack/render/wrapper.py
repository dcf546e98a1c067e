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
from aotpack.render.sources import Alternatives, Choice
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
    context = WrapperContext(
        title=f"{signature.name} {signature.version}: {len(steps)} launches",
        parameters=tuple(size.name for size in signature.sizes),
        buffers=_buffers(schedule),
        outputs=tuple(_tuple(spec.shape) for spec in signature.outputs),
        launches=tuple(launch for step in steps for launch in _launches(step, names, targets)),
    )
    return render_template("wrapper.py.jinja", context)


def peak_bytes(schedule: Schedule) -> int:
    """Bytes of intermediates alive at once at the largest admitted sizes."""
    spans = [(_largest(text), first, last) for _, text, first, last in _storages(schedule)]
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


def _buffers(schedule: Schedule) -> tuple[tuple[str, str, int, int], ...]:
    return tuple((name, str(size), first, last) for name, size, first, last in _storages(schedule))


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
    together = tuple(_rendered_choice(c, step.choices, names, targets) for c in step.choices)
    if not step.separate:
        return (LaunchContext(_comment(step.kernels), together),)
    if not step.choices:
        pairs = zip(step.kernels, step.separate, strict=True)
        return tuple(
            LaunchContext(_comment((kernel,)), (("", _text(choice, names)),))
            for kernel, choice in pairs
        )
    gpu = ("arch > 0", _tuple(text for _, text in together))
    host = ("", _tuple(_text(choice, names) for choice in step.separate))
    return (LaunchContext(_comment(step.kernels), (gpu, host), several=True),)


def _comment(kernels: tuple[Kernel, ...]) -> str:
    """The last source line behind the kernels; without one, the name of the first."""
    sources = [s for k in kernels for member in k.members for s in member.operation.origin.sources]
    return sources[-1] if sources else kernels[0].name


def _text(choice: Choice, names: dict[str, str]) -> str:
    """The Launch expression."""
    arguments = [repr(names[a]) if a in names else a for a in choice.arguments]
    return f'Launch("{choice.kernel}", ({choice.programs}, 1, 1), {_tuple(arguments)})'


def _rendered_choice(
    choice: Choice, choices: tuple[Choice, ...], names: dict[str, str], targets: tuple[Target, ...]
) -> tuple[str, str]:
    """(condition, the Launch expression); the last choice needs no condition."""
    return "" if choice is choices[-1] else _condition(choice, targets), _text(choice, names)


def _condition(choice: Choice, targets: tuple[Target, ...]) -> str:
    variant = choice.variant
    tests = []
    if any(target.arch > variant.arch_high for target in targets):
        tests.append(f"arch <= {variant.arch_high}")
    if any(target.arch < variant.arch_low for target in targets):
        tests.append(f"arch >= {variant.arch_low}")
    if variant.at_most is not None:
        tests.append(f"{variant.measure} <= {variant.at_most}")
    return " and ".join(tests)


def _tuple(items: Iterable[object]) -> str:
    texts = [str(item) for item in items]
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"
