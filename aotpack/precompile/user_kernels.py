"""The user's Triton kernels: which arguments they write, and their run on example inputs.

Both need no GPU: torch asks Triton for the current target to analyse a kernel, and gets a fixed
one; launches run in Triton's interpreter.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from triton.backends.compiler import GPUTarget
from triton.runtime import driver

from aotpack.ir.foreign import TritonKernel
from aotpack.precompile.interpreter.device import (
    HostKernel,
    interpretable,
    launch,
    pointer_type,
    scalar_type,
)

_ENTRY = "entry"
_INT32 = 2**31


class _Driver:
    """A driver for analyses of kernels: the oldest target, so results are always the same."""

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 80, 32)

    def get_current_device(self) -> int:
        return 0


class UserKernels:
    """The port of tracing (``trace.triton_kernels.TritonPort``)."""

    @contextmanager
    def analysis(self) -> Iterator[None]:
        """Triton sees the oldest target inside the block."""
        before = driver._active
        driver.set_active(_Driver())
        try:
            yield
        finally:
            driver._active = before

    def run(
        self,
        kernel: TritonKernel,
        grid: tuple[int, int, int],
        arguments: Sequence[tuple[str, int]],
    ) -> None:
        """Launch on host memory; arguments are (element type, address) or ("", integer)."""
        types = tuple(
            pointer_type(dtype) if dtype else scalar_type(_integer_type(value))
            for dtype, value in arguments
        )
        function = interpretable(_ENTRY, kernel.text(_ENTRY))
        mask = 2**64 - 1
        host = HostKernel(kernel.function, function, types)
        launch(host, grid, [value & mask for _, value in arguments])


def _integer_type(value: int) -> str:
    return "int32" if -_INT32 <= value < _INT32 else "int64"
