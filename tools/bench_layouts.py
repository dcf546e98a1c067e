"""Transposes, and reductions over axes before the last, compared with a copy and torch.compile.

    python tools/bench_layouts.py [--patterns ...] [--dtype bfloat16] [--alone]

Figures are taken as in ``bench_kernels.py``: medians in a replayed graph, inputs in turn from
several sets, percentages of a copy that moves the same bytes. Needs a GPU.
"""

import argparse
import statistics
from collections.abc import Callable

import torch
from bench_kernels import ALL_SETS_BYTES, against_compile, microseconds
from torch import nn
from torch.nn.functional import gelu, layer_norm, softmax

import aotpack

Shape = tuple[int, ...]
LINES, IMAGES = (32, 512, 2048), (32, 256, 56, 56)


class Layout(nn.Module):
    """A function of tensors of the given shapes as a module."""

    def __init__(self, function: Callable[..., torch.Tensor], *shapes: Shape) -> None:
        super().__init__()
        self.function, self.shapes = function, shapes

    def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
        return self.function(*tensors)


def centred(x: torch.Tensor) -> torch.Tensor:
    """Reads a row's neighbours to reduce, and writes them as rows."""
    return (x - x.mean(1, keepdim=True)).transpose(1, 2).contiguous()


def norm_of_transposed(x: torch.Tensor) -> torch.Tensor:
    y = x.transpose(1, 2)
    return layer_norm(y, (y.shape[-1],))


def channel_norm(x: torch.Tensor) -> torch.Tensor:
    return layer_norm(x.permute(0, 2, 3, 1), (x.shape[1],)).permute(0, 3, 1, 2).contiguous()


def three_ways(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    """Each tensor is contiguous along another dimension of the result."""
    return x + y.permute(1, 2, 0) + z.permute(2, 0, 1)


def to_channels_last(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return gelu(x.permute(0, 2, 3, 1) * scale).contiguous()


def to_channels_first(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return gelu(x * scale).permute(0, 3, 1, 2).contiguous()


PATTERNS = {
    "permute_021": Layout(lambda x: x.permute(0, 2, 1).contiguous(), LINES),
    "permute_201": Layout(lambda x: x.permute(2, 0, 1).contiguous(), LINES),
    "permute_210": Layout(lambda x: x.permute(2, 1, 0).contiguous(), LINES),
    "permute_102": Layout(lambda x: x.permute(1, 0, 2).contiguous(), (512, 512, 96)),
    "permute_021_small": Layout(lambda x: x.permute(0, 2, 1).contiguous(), (8192, 64, 64)),
    "permute_021_odd": Layout(lambda x: x.permute(0, 2, 1).contiguous(), (32, 515, 2043)),
    "permute_0213": Layout(lambda x: x.transpose(1, 2).contiguous(), (32, 512, 16, 128)),
    "transpose": Layout(lambda x: x.t().contiguous(), (8192, 8192)),
    "add_transposed": Layout(lambda x, y: x + y.transpose(1, 2), LINES, (32, 2048, 512)),
    "three_ways": Layout(three_ways, (256, 320, 384), (384, 256, 320), (320, 384, 256)),
    "to_channels_last": Layout(to_channels_last, IMAGES, (256,)),
    "to_channels_first": Layout(to_channels_first, (32, 56, 56, 256), (256,)),
    "middle_sum": Layout(lambda x: x.sum(1), LINES),
    "middle_softmax": Layout(lambda x: softmax(x, 1), LINES),
    "centred": Layout(centred, LINES),
    "norm_of_transposed": Layout(norm_of_transposed, LINES),
    "channel_norm": Layout(channel_norm, IMAGES),
}


def bench(name: str, dtype: torch.dtype, *, alone: bool) -> tuple[float, float]:
    """Print a line; the fraction of a copy's speed, and the speed against torch.compile, or 1."""
    pattern = PATTERNS[name]

    def inputs() -> tuple[torch.Tensor, ...]:
        return tuple(torch.randn(shape, dtype=dtype, device="cuda") for shape in pattern.shapes)

    args = inputs()
    result = pattern(*args)
    moved = sum(tensor.nbytes for tensor in (*args, result))
    sets = [args, *(inputs() for _ in range(max(1, ALL_SETS_BYTES // moved)))]
    ours = aotpack.compile(pattern, tuple(tensor.cpu() for tensor in args), target="native")
    halves = [
        torch.empty(moved // 2, dtype=torch.uint8, device="cuda") for _ in range(2 * len(sets))
    ]
    copies = list(zip(halves[::2], halves[1::2], strict=True))
    copied = microseconds(lambda x, y: y.copy_(x), copies, graph=False)
    exact = pattern(*[a.double() for a in args])
    wrong = (ours(*args).double() - exact).abs().max().item()
    eager = (result.double() - exact).abs().max().item()
    del exact, result, halves
    time = microseconds(ours, sets)
    line = (
        f"{name:20} {str(dtype)[6:]:9} {moved >> 20:5} MB ours {time:7.1f} us {copied / time:6.1%}"
    )
    line += f" of copy  error {wrong:.2g}, eager's {eager:.2g}"
    beside, gain = ("", 1.0) if alone else against_compile(pattern, ours, sets)
    print(line + beside, flush=True)
    return copied / time, gain


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--patterns", default=",".join(PATTERNS))
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--alone", action="store_true")
    given = parser.parse_args()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    dtype = getattr(torch, given.dtype)
    found = [bench(name, dtype, alone=given.alone) for name in given.patterns.split(",")]
    shares, gains = zip(*found, strict=True)
    print(
        f"geomean: {statistics.geometric_mean(shares):.1%} of copy,"
        f" {statistics.geometric_mean(gains):.2f}x torch.compile"
    )


if __name__ == "__main__":
    with torch.no_grad():
        main()
