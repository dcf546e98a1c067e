"""Calls of code that is not ours: whole buffers in, whole buffers out, all in row-major order.

    target = base; kernel[grid](operand, target, n)

Nothing is known of what happens inside, so nothing fuses with it and no axes are its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from aotpack.ir.dtypes import DType
from aotpack.ir.origin import Origin
from aotpack.ir.symbolic.integers import Axis, Int

ENTRY = "aotpack_entry"


@dataclass(frozen=True, slots=True)
class TritonKernel:
    """A Triton kernel of the user's in one configuration.

    ``parameters`` are those of ``function`` in order, with the text of their value where it is the
    same for every launch, else None: what is passed. ``source`` is a complete text, whose kernel
    ``ENTRY`` has the passed parameters alone.
    """

    function: str
    source: str
    parameters: tuple[tuple[str, str | None], ...]
    num_warps: int
    num_stages: int

    @property
    def passed(self) -> tuple[str, ...]:
        """The parameters a launch gives a value to."""
        return tuple(name for name, text in self.parameters if text is None)

    def text(self, name: str) -> str:
        """The text, with another name for its entry."""
        return self.source.replace(ENTRY, name)


@dataclass(frozen=True, slots=True)
class Passed:
    """The argument number ``number`` of those a call passes."""

    number: int


Fixed: TypeAlias = "Passed | DType | bool | int | float | str | tuple[Fixed, ...] | None"


@dataclass(frozen=True, slots=True)
class TorchOperator:
    """An operator that torch itself runs, with the arguments that are the same for every call.

    ``passed`` are names for what a call passes: tensors and sizes, then the results. ``reason``
    says why it has no lowering.
    """

    function: str  # "aten.igamma.default"
    args: tuple[Fixed, ...]
    kwargs: tuple[tuple[str, Fixed], ...]
    passed: tuple[str, ...]
    reason: str

    @property
    def parameters(self) -> tuple[tuple[str, str | None], ...]:
        """What is passed and what is fixed, for printing."""
        fixed = [(f"args[{n}]", str(value)) for n, value in enumerate(self.args)]
        fixed += [(name, str(value)) for name, value in self.kwargs]
        return (*((name, None) for name in self.passed), *fixed)


@dataclass(frozen=True, slots=True)
class Foreign:
    """``targets``, which begin as ``bases``, are what a call of ``kernel`` leaves in them.

    A base is of its target's shape and type, and the target lies in its memory; with None the
    target begins undefined. ``arguments`` are those of ``kernel.passed``: names of operands, which
    are read, or of targets, and integers in the sizes. The kernel does not overlap with itself: two
    arguments are one buffer only where it reads both.
    """

    targets: tuple[str, ...]
    bases: tuple[str | None, ...]
    kernel: TritonKernel | TorchOperator
    arguments: tuple[str | Int, ...]
    grid: tuple[Int, Int, Int]  # of a Triton kernel
    origin: Origin

    @property
    def axes(self) -> tuple[Axis, ...]:
        """A call has no points of its own."""
        return ()

    @property
    def operands(self) -> tuple[str, ...]:
        """The buffers it reads but the bases, each once."""
        names = (name for name in self.arguments if isinstance(name, str))
        return tuple(dict.fromkeys(name for name in names if name not in self.targets))
