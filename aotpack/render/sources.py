"""Sources of kernels by content: texts that are equal, comments aside, are one source."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from aotpack.early_start import MOST_PROGRAMS
from aotpack.ir.kernels.kernel import Kernel, Schedule
from aotpack.ir.kernels.tiles import MAX_ARCH, MatmulTile, Variant, cluster_size, shared_split
from aotpack.ir.symbolic.facts import bounds
from aotpack.ir.symbolic.integers import Int
from aotpack.render.emit.language import Language, RenderedKernel
from aotpack.render.emit.source_text import digest, without_comments
from aotpack.stages import KernelArg, KernelSource, TorchCall
from aotpack.target import Target


@dataclass(frozen=True, slots=True)
class Launched:
    """A kernel, its number of programs and its arguments."""

    kernel: str
    programs: Int
    arguments: tuple[str, ...]  # buffers, then sizes, in the order of the source's parameters
    planes: tuple[Int, Int] = (Int.of(1), Int.of(1))  # programs along the grid's other axes


@dataclass(frozen=True, slots=True)
class Called:
    """A call of torch, by its name in the manifest, with tensors and their shapes, or integers."""

    kernel: str
    arguments: tuple[tuple[str, tuple[Int, ...]] | Int, ...]

    @property
    def programs(self) -> int:
        """One: a call of torch has no grid."""
        return 1


@dataclass(frozen=True, slots=True)
class Choice:
    """A variant of a launch: its condition, and its forms, best guess first.

    A form is one launch, or several launches in order with the same results.
    """

    variant: Variant
    forms: tuple[tuple[Launched | Called, ...], ...]

    @property
    def key(self) -> str:
        """The key of measurements: the kernel's text and programs, and the range of sizes."""
        (first, *_), *_ = self.forms
        variant = self.variant
        limit = "" if variant.at_most is None else f" while {variant.measure} <= {variant.at_most}"
        limit += "".join(f" where {size} % {factor} == 0" for size, factor in variant.divisibility)
        return f"{first.kernel} x {first.programs}{limit}"


@dataclass(frozen=True, slots=True)
class Alternatives:
    """The choices of a launch; a processor runs all of ``separate`` instead, if any."""

    kernels: tuple[Kernel, ...]
    choices: tuple[Choice, ...]
    separate: tuple[Choice, ...] = ()


@dataclass(frozen=True, slots=True)
class Nested:
    """A branch or loop: the steps of its parts.

    A loop may have choices that are its turns in one launch, for some architectures and sizes. If
    it ``is_held`` these are for all; then it has no steps for the turns.
    """

    kernel: Kernel
    parts: tuple[tuple[Step, ...], ...]
    choices: tuple[Choice, ...] = ()
    is_held: bool = False


Step: TypeAlias = "Alternatives | Nested"


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """A schedule with a step for each launch, and its targets; ``weights`` runs once before."""

    schedule: Schedule
    steps: tuple[Step, ...]
    targets: tuple[Target, ...]
    weights: LaunchPlan | None = None


Ranges: TypeAlias = tuple[tuple[int, int], ...]
"""Architectures, each from the first to the second."""


@dataclass(slots=True)
class Sources:
    """The sources so far, by a digest of their text; ``spare``: an addition may be left out.

    An addition is for the architectures ``within`` alone. One that is ``streamed_after`` has a
    launch behind it that begins with reads of weights; one that is ``filled_after`` a launch whose
    programs share no multiprocessor, or one of another call.
    """

    known: dict[str, KernelSource] = field(default_factory=dict)
    calls: dict[str, TorchCall] = field(default_factory=dict)
    spare: bool = False
    streamed_after: bool = False
    filled_after: bool = False
    within: Ranges = ((0, MAX_ARCH),)

    def add(self, kernel: RenderedKernel, variant: Variant, language: Language) -> str:
        """The full name of a kernel in a language, for the architectures of a variant."""
        arches = self._arches(variant)
        without = language.without_early_start if kernel.is_ours else None
        early = without is not None and (kernel.streams or is_small(kernel.programs))
        admits = early and self.streamed_after and not kernel.streams
        text = _admitting_first(kernel, language) if admits else kernel.text
        shown = text(kernel.name)
        shown = shown if early or without is None else without(shown)
        shown = _compared(kernel, shown, language)
        gluon_text = self._gluon_text(kernel, language, early=early)
        launch = f"{_launch(kernel)}{gluon_text(kernel.name)}"
        key = digest(f"{shown} {_types(kernel.parameters)} {launch}")
        if key in self.known:
            return self._again(key, arches)
        name = f"{kernel.name}_{key}"
        whole = text(name)
        late = without(whole) if without else whole
        self.known[key] = KernelSource(
            name=name,
            text=whole if early else late,
            args=kernel.parameters,
            num_warps=kernel.tile.num_warps,
            num_stages=kernel.tile.num_stages,
            arches=arches,
            language=language.name,
            is_spare=self.spare,
            work=kernel.work,
            cluster_size=cluster_size(kernel.tile),
            shared_split=shared_split(kernel.tile),
            ring_bytes=kernel.ring_bytes,
            starts_early=early,
            reads_early=early and kernel.reads_early,
            late_text=late if early else "",
            maps=kernel.maps,
            gluon_text=gluon_text(name),
            gluon_maps=kernel.gluon_maps,
            gluon_warps=kernel.gluon_warps,
        )
        return name

    def _gluon_text(
        self, kernel: RenderedKernel, language: Language, *, early: bool
    ) -> Callable[[str], str]:
        """Gluon's text under a name, "" if the kernel has none; it starts as early as the other."""
        text = kernel.gluon_text
        if text is None:
            return lambda name: ""
        change = language.without_early_start
        if early:
            change = None if self.filled_after else language.admitting_at_end
        return text if change is None else lambda name: change(text(name))

    def _arches(self, variant: Variant) -> Ranges:
        """The architectures of a variant that an addition is for."""
        return tuple(
            (max(low, variant.arch_low), min(high, variant.arch_high))
            for low, high in self.within
            if low <= variant.arch_high and variant.arch_low <= high
        )

    def _again(self, key: str, arches: Ranges) -> str:
        """The name of a known source, which is for these architectures too from now on."""
        found = self.known[key]
        self.known[key] = replace(
            found,
            arches=tuple(sorted({*found.arches, *arches})),
            is_spare=found.is_spare and self.spare,
        )
        return found.name


def _admitting_first(kernel: RenderedKernel, language: Language) -> Callable[[str], str]:
    """The text of a kernel that lets the next launch request its weights at once."""
    change = language.admitting_first
    return kernel.text if change is None else lambda name: change(kernel.text(name))


def _compared(kernel: RenderedKernel, text: str, language: Language) -> str:
    """The text by which equal kernels are found, once its stores are checked."""
    shown = without_comments(text, language.comment_mark)
    if kernel.is_ours and language.stores is not None:
        check_written(kernel.name, shown, kernel.parameters, language.stores)
    return shown


def check_written(
    name: str, text: str, parameters: tuple[KernelArg, ...], stores: re.Pattern[str]
) -> None:
    """Whoever a kernel stores through says so: the order of launches in graphs rests on it."""
    stored = set(stores.findall(text))
    silent = [one.name for one in parameters if one.name in stored and not one.is_written]
    if silent:
        raise ValueError(f"the kernel {name} stores through {silent[0]}, which is not written")


def is_small(programs: Int) -> bool:
    """True when a launch is small enough to gain by starting early."""
    return bounds(programs)[1] <= MOST_PROGRAMS


def _launch(kernel: RenderedKernel) -> str:
    """What a kernel is besides its text: another text for the matrix unit is another kernel."""
    tile = kernel.tile
    has_unit = isinstance(tile, MatmulTile) and tile.in_matrix_unit
    return f"{tile.num_warps} {tile.num_stages}" + " matrix unit" * has_unit


def _types(parameters: tuple[KernelArg, ...]) -> str:
    return " ".join(
        f"{parameter.dtype} {parameter.multiple}" + " in place" * parameter.is_in_place
        for parameter in parameters
    )
