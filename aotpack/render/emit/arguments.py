"""Kernel parameters: readable pointer names that do not depend on a kernel's place in the model."""

import re
from collections.abc import Mapping

from aotpack.ir.dtypes import DType
from aotpack.ir.program import Buffer, Program
from aotpack.ir.symbolic.integers import Int, Var
from aotpack.stages import KernelArg

POINTER_MULTIPLE = 16  # bytes: the runtime copies inputs that are less aligned


class Arguments:
    """Collects the buffers and sizes a kernel touches, in order of first use.

    Pointers come first, then sizes in the order of the signature, so that the text of equal kernels
    in different layers is equal and is compiled once.
    """

    def __init__(
        self,
        program: Program,
        stored: tuple[str, ...],
        *,
        wide: bool,
        exchange: tuple[Buffer, ...] = (),
    ) -> None:
        self._program = program
        self._stored = stored
        self._written = {*stored, *(buffer.name for buffer in exchange)}
        self._buffers = {**program.buffers, **{buffer.name: buffer for buffer in exchange}}
        self._pointers: dict[str, str] = {}
        self._sizes: set[Var] = set()
        self._wide = wide

    def pointer(self, buffer: str) -> str:
        """The parameter name for a buffer."""
        if buffer not in self._pointers:
            role = "out" if buffer in self._stored else _role(buffer, self._program)
            taken = set(self._pointers.values())
            name, number = f"{role}_ptr", 1
            while name in taken:
                number += 1
                name = f"{role}{number}_ptr"
            self._pointers[buffer] = name
        return self._pointers[buffer]

    def dtype(self, buffer: str) -> DType:
        """The element type of a buffer in memory."""
        return self._buffers[buffer].dtype

    def use_sizes(self, expression: Int) -> None:
        """Note the sizes an expression needs at run time."""
        self._sizes.update(leaf for leaf in expression.leaves() if isinstance(leaf, Var))

    @property
    def buffers(self) -> tuple[str, ...]:
        """The buffers behind the pointers, in parameter order."""
        return tuple(self._pointers)

    @property
    def sizes(self) -> tuple[Var, ...]:
        """The size parameters, in the order of the signature."""
        return tuple(size for size in self._program.sizes if size in self._sizes)

    @property
    def names(self) -> tuple[str, ...]:
        """The arguments: buffers, then sizes, in the order of the parameters."""
        return (*self.buffers, *(size.name for size in self.sizes))

    def parameters(self, divisibility: Mapping[Var, int] = {}) -> tuple[KernelArg, ...]:
        """The kernel's parameters in order; ``divisibility`` has divisors of sizes."""
        pointers = [
            KernelArg(
                name,
                self.dtype(buffer),
                is_pointer=True,
                multiple=POINTER_MULTIPLE,
                is_written=buffer in self._written,
            )
            for buffer, name in self._pointers.items()
        ]
        width = DType.INT64 if self._wide else DType.INT32
        sizes = [
            KernelArg(
                size.name,
                width,
                is_pointer=False,
                multiple=max(_power_of_two_in(size), divisibility.get(size, 1)),
                is_written=False,
            )
            for size in self.sizes
        ]
        return (*pointers, *sizes)


def _power_of_two_in(size: Var) -> int:
    """The largest power of two that divides all values of a size; compilers use no other."""
    return size.multiple & -size.multiple


def _role(buffer: str, program: Program) -> str:
    """``encoder.layer.3.output.dense.weight`` -> ``weight``; ``layer_norm_7`` -> ``layer_norm``."""
    last = buffer.split(".")[-1] if buffer in program.weights else buffer
    role = re.sub(r"_\d+(?=_|$)", "", re.sub(r"\W", "_", last)).strip("_")
    return role if role and not role[0].isdigit() else "in"
