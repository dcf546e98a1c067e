"""Runs every configuration of the user's Triton kernels once: all must give the same.

A package may launch any of them, by measurements. What differs by more than sums in another order
would be a wrong answer of the package.
"""

import math

import torch
from torch import fx

from aotpack.errors import UnsupportedError
from aotpack.trace.golden.reference import Changed, Eager, Run
from aotpack.trace.triton.triton_kernels import Launch


class EveryConfiguration(Eager):
    """Runs the graph as it is; its values are those of the first configurations."""

    def inner(self, module: fx.GraphModule) -> Eager:
        return EveryConfiguration(module, self.triton, self.turns)

    def configured(self, launch: Launch, results: Changed, run: Run) -> None:
        for kernel, grid in launch.others:
            for name, found in run(kernel, grid).items():
                if _is_other(results[name], found):
                    constants = {n: text for n, text in kernel.parameters if text}
                    raise UnsupportedError(
                        f"the Triton kernel {kernel.function} gives another {name} in the "
                        f"configuration {_shown(constants)} than in its first; a package may "
                        "launch either. Leave out what changes results"
                    )


def _shown(constants: dict[str, str]) -> str:
    return ", ".join(f"{name}={text}" for name, text in constants.items())


def _is_other(first: torch.Tensor, found: torch.Tensor) -> bool:
    """True for numbers that differ by more than half of their type's digits."""
    if not first.is_floating_point():
        return not torch.equal(first, found)
    a, b = first.double(), found.double()
    finite = a.isfinite()
    largest = float(a[finite].abs().max()) if bool(finite.any()) else 0.0
    limit = math.sqrt(torch.finfo(first.dtype).eps) * largest
    return not torch.allclose(a, b, rtol=0.0, atol=limit, equal_nan=True)
