"""Sources of kernels by what they say: equal text, comments aside, is one source with one name.

Rows S:I1, I2, C:B21, H17.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from hashlib import sha256

from aotpack.ir.integers import Int
from aotpack.ir.schedule import Kernel, Variant, programs
from aotpack.stages import KernelArg, KernelSource


@dataclass(frozen=True, slots=True)
class Choice:
    """A variant a launch may take: when, which kernel, how many programs, with which arguments."""

    variant: Variant
    kernel: str
    programs: Int
    arguments: tuple[str, ...]  # buffers, then sizes, in the order of the source's parameters


@dataclass(frozen=True, slots=True)
class Alternatives:
    """What a launch may be: one of ``choices``; on a processor all of ``separate``, if any."""

    kernels: tuple[Kernel, ...]
    choices: tuple[Choice, ...]
    separate: tuple[Choice, ...] = ()


@dataclass(slots=True)
class Sources:
    """The sources so far, by a digest of their text."""

    known: dict[str, KernelSource] = field(default_factory=dict)

    def add(
        self,
        name: str,
        text: Callable[[str], str],
        parameters: tuple[KernelArg, ...],
        variant: Variant,
        language: str,
    ) -> str:
        """The full name of a kernel; ``text`` gives its text under a name."""
        tile, arches = variant.tile, (variant.arch_low, variant.arch_high)
        types = " ".join(str(parameter.dtype) for parameter in parameters)
        shown = without_comments(text(name), language)
        key = digest(f"{shown} {types} {tile.num_warps} {tile.num_stages}")
        if key in self.known:
            found = self.known[key]
            self.known[key] = replace(found, arches=tuple(sorted({*found.arches, arches})))
            return found.name
        full = f"{name}_{key}"
        warps, stages = tile.num_warps, tile.num_stages
        launch = (warps, stages, (arches,), language, programs(tile))
        self.known[key] = KernelSource(full, text(full), parameters, *launch)
        return full


def digest(text: str) -> str:
    """A short name for a text."""
    return sha256(text.encode()).hexdigest()[:8]


def without_comments(text: str, language: str) -> str:
    """The text without lines that are comments."""
    mark = "//" if language == "c" else "#"
    return re.sub(rf"^\s*{mark}.*\n", "", text, flags=re.MULTILINE)
