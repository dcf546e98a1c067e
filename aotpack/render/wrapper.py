"""The rendered wrapper: launches, intermediates and output shapes, tables of plain expressions."""

from collections.abc import Iterable

from aotpack.ir.facts import bounds
from aotpack.ir.integers import Int, product
from aotpack.ir.nodes import Program
from aotpack.ir.schedule import Kernel, Schedule
from aotpack.render.contexts import LaunchContext, WrapperContext
from aotpack.render.environment import render_template
from aotpack.render.kernels import Choice
from aotpack.stages import Signature
from aotpack.target import Target

ALIGNMENT = 256  # bytes, of every intermediate

Launches = tuple[tuple[Choice, ...], ...]


def render_wrapper(
    signature: Signature, schedule: Schedule, launches: Launches, targets: tuple[Target, ...]
) -> str:
    """The text of ``wrapper.py``."""
    names = _tensor_names(signature, schedule)
    pairs = zip(schedule.kernels, launches, strict=True)
    context = WrapperContext(
        title=f"{signature.name} {signature.version}: {len(launches)} launches",
        parameters=tuple(size.name for size in signature.sizes),
        buffers=_buffers(schedule),
        outputs=tuple(_tuple(spec.shape) for spec in signature.outputs),
        launches=tuple(_launch(k, choices, names, targets) for k, choices in pairs),
    )
    return render_template("wrapper.py.jinja", context)


def peak_bytes(schedule: Schedule) -> int:
    """Bytes of intermediates alive at once at the largest admitted sizes."""
    spans = [(_largest(text), first, last) for _, text, first, last in _storages(schedule)]
    times = range(len(schedule.kernels))
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
        (name, product(buffers[name].shape) * buffers[name].dtype.itemsize, first, last)
        for name, (first, last) in spans.items()
    ]


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
    names |= outputs
    return names | {update.value: names[update.name] for update in program.updates}


def _launch(
    kernel: Kernel, choices: tuple[Choice, ...], names: dict[str, str], targets: tuple[Target, ...]
) -> LaunchContext:
    sources = [s for member in kernel.members for s in member.operation.origin.sources]
    return LaunchContext(
        comment=sources[-1] if sources else kernel.name,
        choices=tuple(_rendered_choice(c, choices, names, targets) for c in choices),
    )


def _rendered_choice(
    choice: Choice, choices: tuple[Choice, ...], names: dict[str, str], targets: tuple[Target, ...]
) -> tuple[str, str]:
    """(condition, the Launch expression); the last choice needs no condition."""
    arguments = [repr(names[a]) if a in names else a for a in choice.arguments]
    launch = f'Launch("{choice.kernel}", ({choice.programs}, 1, 1), {_tuple(arguments)})'
    return "" if choice is choices[-1] else _condition(choice, targets), launch


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
