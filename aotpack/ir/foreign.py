"""Foreign calls: the user's Triton kernels, and operators that torch runs.

    target = base; kernel[grid](operand, target, n)

A call takes and gives whole row-major buffers. Its body is unknown, so nothing fuses with it, and
it has no axes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from aotpack.ir.dtypes import DType
from aotpack.ir.origin import Origin
from aotpack.ir.symbolic.integers import Axis, Int

ENTRY = "aotpack_entry"


@dataclass(frozen=True, slots=True)
class TritonKernel:
    """A Triton kernel of the user, in one configuration.

    ``parameters`` are those of ``function`` in order. One with a text has this value in every
    launch; one with None is passed by the launch. ``source`` is complete; its kernel ``ENTRY``
    takes only the passed parameters.
    """

    function: str
    source: str
    parameters: tuple[tuple[str, str | None], ...]
    num_warps: int
    num_stages: int

    @property
    def passed(self) -> tuple[str, ...]:
        """The parameters that a launch passes."""
        return tuple(name for name, text in self.parameters if text is None)

    def text(self, name: str) -> str:
        """The source with another name for its entry."""
        return self.source.replace(ENTRY, name)


@dataclass(frozen=True, slots=True)
class Configuration:
    """A kernel in one configuration, with the grid of a launch."""

    kernel: TritonKernel
    grid: tuple[Int, Int, Int]


@dataclass(frozen=True, slots=True)
class Passed:
    """Argument ``number`` of a call."""

    number: int


Fixed: TypeAlias = "Passed | DType | bool | int | float | str | tuple[Fixed, ...] | None"


@dataclass(frozen=True, slots=True)
class TorchOperator:
    """An operator that torch runs, with the arguments that are the same for every call.

    ``passed`` names the arguments of a call: tensors and sizes, then the results. ``reason`` says
    why the operator has no lowering.
    """

    function: str  # "aten.linalg_lstsq.default"
    args: tuple[Fixed, ...]
    kwargs: tuple[tuple[str, Fixed], ...]
    passed: tuple[str, ...]
    reason: str

    @property
    def parameters(self) -> tuple[tuple[str, str | None], ...]:
        """The passed parameters, then the fixed ones, for printing."""
        fixed = [(f"args[{n}]", str(value)) for n, value in enumerate(self.args)]
        fixed += [(name, str(value)) for name, value in self.kwargs]
        return (*((name, None) for name in self.passed), *fixed)


@dataclass(frozen=True, slots=True)
class Foreign:
    """A call: ``kernel`` changes ``targets``, which begin as copies of ``bases``.

    A base has the shape and type of its target, and the target lies in its memory; a target without
    a base (None) begins undefined. ``arguments`` are those of ``kernel.passed``: names of operands
    (read) or targets, and integers over the sizes. Two arguments name one buffer only if the kernel
    reads both. The ``others`` are configurations of the same kernel that give the same.
    """

    targets: tuple[str, ...]
    bases: tuple[str | None, ...]
    kernel: TritonKernel | TorchOperator
    arguments: tuple[str | Int, ...]
    grid: tuple[Int, Int, Int]  # of a Triton kernel
    origin: Origin
    others: tuple[Configuration, ...] = ()

    @property
    def grids(self) -> tuple[Int, ...]:
        """The numbers of programs, in all configurations."""
        return (*self.grid, *(side for other in self.others for side in other.grid))

    @property
    def axes(self) -> tuple[Axis, ...]:
        """A call has no axes."""
        return ()

    @property
    def in_place(self) -> tuple[tuple[str, str], ...]:
        """(target, base) for each target with a base."""
        pairs = zip(self.targets, self.bases, strict=True)
        return tuple((target, base) for target, base in pairs if base is not None)

    @property
    def operands(self) -> tuple[str, ...]:
        """The buffers that the call reads, except bases, each once."""
        names = (name for name in self.arguments if isinstance(name, str))
        return tuple(dict.fromkeys(name for name in names if name not in self.targets))


def foreign_text(operation: Foreign) -> str:
    """The copies of bases, then the call."""
    lines = [f"{target} = {base}" for target, base in operation.in_place]
    passed = zip(operation.kernel.passed, operation.arguments, strict=False)  # may be illegal
    arguments = dict(operation.kernel.parameters) | dict(passed)
    shown = ", ".join(f"{name}={argument}" for name, argument in arguments.items())
    lines.append(f"{operation.kernel.function}[{index_tuple(operation.grid)}]({shown})")
    for other in operation.others:
        constants = ", ".join(f"{name}={text}" for name, text in other.kernel.parameters if text)
        lines.append(f"or {other.kernel.function}[{index_tuple(other.grid)}]({constants})")
    return "once:" + operation.origin.comment + "".join(f"\n    {line}" for line in lines)


def index_tuple(numbers: Iterable[Int]) -> str:
    """``(1, n)``."""
    return f"({', '.join(map(str, numbers))})"
