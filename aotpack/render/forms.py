"""The forms of a launch that a package holds: the measured one, else the first few.

A measurement is for one target, so a variant for several targets is then split by target.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from aotpack.ir.kernels.tiles import Variant
from aotpack.render.sources import Called, Choice, Launched, Sources
from aotpack.stages import Decisions
from aotpack.target import Target

Form: TypeAlias = Callable[[Variant, Sources], tuple[Launched | Called, ...]]


@dataclass(slots=True)
class FormSelector:
    """Makes choices, and records the keys of the open and of the settled ones."""

    sources: Sources
    decisions: Decisions
    opened: dict[str, None] = field(default_factory=dict)
    settled: dict[tuple[str, str], None] = field(default_factory=dict)

    def choices(
        self, variant: Variant, forms: Sequence[Form], targets: Sequence[Target]
    ) -> tuple[Choice, ...]:
        """The choices of a variant for its targets."""
        if not self.decisions.measured or len(forms) == 1:
            return (self._open(variant, forms),)
        picks = {target.arch: self._measured(variant, forms, target) for target in targets}
        if set(picks.values()) == {None}:
            return (self._open(variant, forms),)
        return tuple(self._split(variant, forms, picks))

    def _split(
        self, variant: Variant, forms: Sequence[Form], picks: dict[int, int | None]
    ) -> Iterator[Choice]:
        for arch, pick in sorted(picks.items()):
            own = replace(variant, arch_low=arch, arch_high=arch)
            yield self._open(own, forms if pick is None else forms[pick : pick + 1])

    def _open(self, variant: Variant, forms: Sequence[Form]) -> Choice:
        """As many forms as a package may hold; equal forms count once."""
        made = []
        for number, form in enumerate(forms[: self.decisions.candidates]):
            self.sources.spare = number > 0
            made.append(form(variant, self.sources))
        choice = Choice(variant, tuple(dict.fromkeys(made)))
        if len(choice.forms) > 1:
            self.opened[choice.key] = None
        return choice

    def _measured(self, variant: Variant, forms: Sequence[Form], target: Target) -> int | None:
        """The index of the quickest form; None where none of these forms was measured."""
        first = forms[0](variant, Sources())
        key = (str(target), Choice(variant, (first,)).key)
        quickest = self.decisions.measured.get(key)
        if quickest is None:
            return None
        for number, form in enumerate(forms):
            if form_name(form(variant, Sources())) == quickest:
                self.settled[key] = None
                return number
        return None


def form_name(form: tuple[Launched | Called, ...]) -> str:
    """The name of a form in measurements: its kernels."""
    return "+".join(launched.kernel for launched in form)
