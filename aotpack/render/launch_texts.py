"""The text of launches in the wrapper: forms, conditions, and loops in one launch."""

from collections.abc import Iterable

from aotpack.ir.kernels.kernel import Kernel, Schedule
from aotpack.ir.symbolic.integers import Int
from aotpack.render.contexts import LaunchContext
from aotpack.render.sources import Alternatives, Called, Choice, Launched, Nested
from aotpack.target import Target


def part_names(part: Schedule, around: dict[str, str]) -> dict[str, str]:
    """A part's name of each buffer: for outer buffers the outer name, for others the storage."""
    given = {name: around[name] for name in part.program.inputs}
    own = {life.buffer: given.get(life.storage, life.storage) for life in part.lifetimes}
    new = {update.value: given[update.name] for update in part.program.updates}
    turns = {size.name: size.name for size in part.program.sizes if size.name in around}
    return given | own | new | turns


def held_choices(
    step: Nested, names: dict[str, str], targets: tuple[Target, ...]
) -> tuple[tuple[str, str], ...]:
    """(condition, launches) for each form of a loop as its entry and one launch."""
    own = part_names(step.kernel.parts[0], names)
    entry = [
        _expression(launch_context(one, own, targets))
        for one in step.parts[0]
        if isinstance(one, Alternatives)
    ]
    source = comment_of((step.kernel,))
    return tuple(
        (condition_of(choice, targets), tuple_text([*entry, choice_text(choice, names, source)]))
        for choice in step.choices
    )


def _expression(launch: LaunchContext) -> str:
    """A launch as one expression."""
    texts = [f"{text} if {condition}" if condition else text for condition, text in launch.choices]
    return texts[0] if len(texts) == 1 else f"({' else '.join(texts)})"


def launch_context(
    step: Alternatives, names: dict[str, str], targets: tuple[Target, ...]
) -> LaunchContext:
    """One launch; kernels that share a launch on GPUs have one each on a processor."""
    source = comment_of(step.kernels)
    texts = [choice_text(choice, names, source) for choice in step.choices]
    conditions = [condition_of(choice, targets) for choice in step.choices]
    if step.separate:
        texts.append(tuple_text(choice_text(choice, names, source) for choice in step.separate))
    pairs = zip([*conditions, ""], texts, strict=False)
    last = len(texts) - 1
    together = tuple((c if n < last else "", text) for n, (c, text) in enumerate(pairs))
    return LaunchContext(together)


def comment_of(kernels: tuple[Kernel, ...]) -> str:
    """The last source line behind the kernels; without one, the name of the first."""
    sources = [s for k in kernels for member in k.members for s in member.operation.origin.sources]
    return sources[-1] if sources else kernels[0].name


def choice_text(choice: Choice, names: dict[str, str], source: str) -> str:
    """The Launch expression; the runtime picks one of several forms."""
    forms = [_form(form, names, source) for form in choice.forms]
    return forms[0] if len(forms) == 1 else f'pick("{choice.key}", {", ".join(forms)})'


def _form(form: tuple[Launched | Called, ...], names: dict[str, str], source: str) -> str:
    texts = []
    for launched in form:
        if isinstance(launched, Called):
            passed = (_argument(argument, names) for argument in launched.arguments)
            texts.append(f'Call("{launched.kernel}", {tuple_text(passed)})')
            continue
        arguments = tuple_text(repr(names[a]) if a in names else a for a in launched.arguments)
        grid = tuple_text((launched.programs, *launched.planes))
        texts.append(f'Launch("{launched.kernel}", {grid}, {arguments}, {source!r})')
    return texts[0] if len(texts) == 1 else tuple_text(texts)


def _argument(argument: tuple[str, tuple[Int, ...]] | Int, names: dict[str, str]) -> str:
    """A tensor's name and shape, or an integer."""
    if isinstance(argument, Int):
        return str(argument)
    name, shape = argument
    return f"({names[name]!r}, {tuple_text(shape)})"


def condition_of(choice: Choice, targets: tuple[Target, ...]) -> str:
    variant = choice.variant
    tests = []
    if any(target.arch > variant.arch_high for target in targets):
        tests.append(f"arch <= {variant.arch_high}")
    if any(target.arch < variant.arch_low for target in targets):
        tests.append(f"arch >= {variant.arch_low}")
    if variant.at_most is not None:
        tests.append(f"{variant.measure} <= {variant.at_most}")
    tests += [f"{size} % {factor} == 0" for size, factor in variant.divisibility]
    return " and ".join(tests)


def tuple_text(items: Iterable[object]) -> str:
    texts = [str(item) for item in items]
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"
