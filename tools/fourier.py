"""Fourier transforms of many lengths against eager, under the accuracy law.

python -m tools.fourier --target cpu --lengths 97,1000 --transforms rfft,ifft
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from aotpack import compile
from tests.e2e.law import accuracy_complaint

LENGTHS = (1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 97, 100, 128, 243, 1000, 1024, 4096, 44100)
ROWS = 2
NORMS = ("backward", "ortho", "forward")
_HALF = ("irfft", "hfft")
_REAL = ("rfft", "ihfft")


@dataclass(frozen=True, slots=True)
class Transform:
    """One of torch's transforms of a number of dimensions; the last has the length.

    Its inputs are the real and the imaginary parts.
    """

    name: str
    length: int
    dims: int = 1
    norm: str = "backward"

    def __str__(self) -> str:
        return f"{self.name} {self.length} {self.dims}d {self.norm}"

    @property
    def shape(self) -> tuple[int, ...]:
        """Short dimensions in front of the last."""
        last = self.length // 2 + 1 if self.name in _HALF else self.length
        return (ROWS, *(3, 4)[: self.dims - 1], last)

    def __call__(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """The result as reals."""
        function: Callable[..., torch.Tensor] = getattr(torch.fft, self._function)
        given = x if self.name in _REAL else torch.complex(x, y)
        dims = tuple(range(-self.dims, 0))
        sizes = tuple(given.shape[d] for d in dims[:-1])
        n: Any = self.length if self.dims == 1 else (*sizes, self.length)
        over: dict[str, Any] = {"dim": -1, "n": n} if self.dims == 1 else {"dim": dims, "s": n}
        found = function(given, norm=self.norm, **over)
        return torch.view_as_real(found.resolve_conj()) if found.is_complex() else found

    @property
    def _function(self) -> str:
        return self.name if self.dims == 1 else self.name + "n"


def transforms(lengths: Sequence[int], names: Sequence[str]) -> Iterator[Transform]:
    """Each transform of each length, in one to three dimensions, with the norms in turn."""
    for length in lengths:
        for place, name in enumerate(names):
            for dims in (1, 2, 3):
                yield Transform(name, length, dims, NORMS[(place + dims) % len(NORMS)])


class Each(nn.Module):
    """Several transforms, each of two inputs of its own."""

    def __init__(self, each: Sequence[Transform]) -> None:
        super().__init__()
        self.each = tuple(each)

    def forward(self, *parts: torch.Tensor) -> tuple[torch.Tensor, ...]:
        pairs = zip(self.each, parts[::2], parts[1::2], strict=True)
        return tuple(transform(x, y) for transform, x, y in pairs)


def inputs(each: Sequence[Transform], dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    """Random parts for each transform."""
    generator = torch.Generator().manual_seed(0)
    return [
        torch.randn(one.shape, generator=generator, dtype=dtype) for one in each for _ in range(2)
    ]


def complaint(transform: Transform, target: str) -> str | None:
    """How a compiled transform breaks the law."""
    model, given = Each([transform]).eval(), inputs([transform])
    compiled = compile(model, tuple(given), target=target)
    (found,), (eager,) = compiled(*given), model(*given)
    (exact,) = model(*(part.double() for part in given))
    return accuracy_complaint(found, eager, exact)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each transform; 1 if one is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--lengths", default=",".join(map(str, LENGTHS)))
    parser.add_argument("--transforms", default="fft,ifft,rfft,irfft,hfft,ihfft")
    options = parser.parse_args(arguments)
    lengths = [int(length) for length in options.lengths.split(",")]
    wrong = 0
    for transform in transforms(lengths, options.transforms.split(",")):
        words = complaint(transform, options.target)
        wrong += words is not None
        print(transform, words or "agrees", flush=True)
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
