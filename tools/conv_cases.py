"""Convolutions to measure: the layers of networks, and shapes of other kinds, by groups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from tools.cnn_models import CNNS, IMAGE

BATCHES = (1, 8, 32)
CONVS: tuple[type[nn.Module], ...] = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
TRANSPOSED: tuple[type[nn.Module], ...] = (
    nn.ConvTranspose1d,
    nn.ConvTranspose2d,
    nn.ConvTranspose3d,
)
CHANNELS_LAST = {2: torch.channels_last, 3: torch.channels_last_3d}
Sizes = tuple[int, ...]


class Convolution(nn.Module):
    """A convolution with its bias, and a relu."""

    def __init__(self, conv: nn.Module) -> None:
        super().__init__()
        self.conv = conv

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.conv(x))


@dataclass(frozen=True, slots=True)
class Case:
    """A convolution of images of one to three dimensions."""

    batch: int
    channels: int
    out: int
    size: Sizes
    kernel: Sizes
    stride: Sizes
    padding: Sizes
    dilation: Sizes
    groups: int = 1
    is_transposed: bool = False

    @classmethod
    def of(
        cls,
        batch: int,
        channels: int,
        out: int,
        size: int | Sizes,
        kernel: int | Sizes,
        stride: int = 1,
        groups: int = 1,
        *,
        padding: int | None = None,
        dilation: int = 1,
        dims: int = 2,
        transposed: bool = False,
    ) -> Case:
        """Numbers stand for all dimensions; the padding is half of the kernel unless given."""
        kernels = _each(kernel, dims)
        half = tuple(dilation * (k - 1) // 2 for k in kernels)
        return cls(
            batch,
            channels,
            out,
            _each(size, dims),
            kernels,
            _each(stride, dims),
            half if padding is None else _each(padding, dims),
            _each(dilation, dims),
            groups,
            transposed,
        )

    @property
    def dims(self) -> int:
        return len(self.size)

    @property
    def is_depthwise(self) -> bool:
        return self.groups == self.channels > 1

    @property
    def name(self) -> str:
        """Its numbers, such as 32x64x56x56-64_k3_s1_p1; letters fit a file's name."""
        parts = ["x".join(map(str, (self.batch, self.channels, *self.size))) + f"-{self.out}"]
        parts += [f"k{_short(self.kernel)}", f"s{_short(self.stride)}", f"p{_short(self.padding)}"]
        parts += [f"d{_short(self.dilation)}"] * (max(self.dilation) > 1)
        parts += [f"g{self.groups}"] * (self.groups > 1)
        parts += ["transposed"] * self.is_transposed
        return "_".join(parts)

    @property
    def memory_format(self) -> torch.memory_format | None:
        """Channels-last, where torch has it."""
        return CHANNELS_LAST.get(self.dims)

    def module(self) -> nn.Module:
        """The convolution with bias and relu; its weights are a function of the case."""
        torch.manual_seed(0)
        kinds: Any = TRANSPOSED if self.is_transposed else CONVS
        conv = kinds[self.dims - 1](
            self.channels,
            self.out,
            self.kernel,
            self.stride,
            self.padding,
            dilation=self.dilation,
            groups=self.groups,
        )
        return Convolution(conv).eval()

    def input(self, device: str, dtype: torch.dtype) -> torch.Tensor:
        """Random numbers."""
        return torch.randn((self.batch, self.channels, *self.size), device=device, dtype=dtype)


def _each(number: int | Sizes, dims: int) -> Sizes:
    return (number,) * dims if isinstance(number, int) else number


def _short(sizes: Sizes) -> str:
    """One number if all are the same."""
    return str(sizes[0]) if len(set(sizes)) == 1 else "x".join(map(str, sizes))


TABLE = (
    (3, 64, 224, 7, 2, 1),
    (64, 64, 56, 1, 1, 1),
    (64, 64, 56, 3, 1, 1),
    (128, 128, 28, 3, 1, 1),
    (256, 256, 14, 3, 1, 1),
    (512, 512, 7, 3, 1, 1),
    (1024, 2048, 14, 1, 2, 1),
    (96, 96, 56, 7, 1, 96),
    (320, 320, 64, 3, 1, 1),
)


def _table() -> list[Case]:
    """The rows of docs/measurements/h200_convolution.csv."""
    return [Case.of(1, *row) for row in TABLE]


def _layers(network: str) -> list[Case]:
    """The distinct convolutions of a network, in the order of their first use."""
    found: dict[Case, None] = {}

    def note(conv: Any, args: tuple[torch.Tensor, ...]) -> None:
        (x,) = args
        sizes = (conv.kernel_size, conv.stride, conv.padding, conv.dilation)
        case = Case(1, x.shape[1], conv.out_channels, tuple(x.shape[2:]), *sizes, conv.groups)
        found[case] = None

    with torch.device("meta"), torch.no_grad():
        module = CNNS[network]().eval()
        for part in module.modules():
            if isinstance(part, nn.Conv2d):
                part.register_forward_pre_hook(note)
        module(torch.empty(1, *IMAGE))
    return list(found)


def _unet() -> list[Case]:
    """A UNet of latent diffusion: levels of 320, 640 and 1280 channels, down and up."""
    levels = ((320, 64), (640, 32), (1280, 16))
    cases = [Case.of(1, 4, 320, 64, 3), Case.of(1, 320, 4, 64, 3)]
    for number, (channels, size) in enumerate(levels):
        cases += [Case.of(1, channels, channels, size, 3), Case.of(1, channels, channels, size, 1)]
        if number:
            before, larger = levels[number - 1]
            cases.append(Case.of(1, before, before, larger, 3, 2))
            cases += [Case.of(1, before, channels, size, kernel) for kernel in (3, 1)]
            joined = before + channels
            cases += [Case.of(1, joined, before, larger, kernel) for kernel in (3, 1)]
            cases.append(Case.of(1, channels, channels, larger, 3))  # after the image is enlarged
    return cases


def _depthwise() -> list[Case]:
    layers = [case for name in GROUPS if name in NETWORKS for case in GROUPS[name]()]
    return list(dict.fromkeys(case for case in layers if case.is_depthwise))


def _other() -> list[Case]:
    """30 shapes with batches of their own."""
    of = Case.of
    return [
        of(8, 256, 128, 16, 4, 2, padding=1, transposed=True),
        of(8, 128, 64, 32, 4, 2, padding=1, transposed=True),
        of(8, 64, 3, 64, 4, 2, padding=1, transposed=True),
        of(1, 512, 256, 28, 2, 2, padding=0, transposed=True),
        of(1, 128, 64, 112, 2, 2, padding=0, transposed=True),
        of(4, 64, 64, 56, 3, 1, padding=1, transposed=True),
        of(1, 512, 256, 400, 16, 8, padding=4, dims=1, transposed=True),
        of(1, 64, 32, (8, 32, 32), 2, 2, padding=0, dims=3, transposed=True),
        of(1, 3, 64, (16, 112, 112), (3, 7, 7), 2, dims=3),
        of(1, 64, 64, (16, 56, 56), 3, dims=3),
        of(8, 64, 64, (8, 28, 28), 3, dims=3),
        of(1, 32, 64, (64, 64, 64), 3, 2, dims=3),
        of(1, 128, 128, (16, 28, 28), (3, 1, 1), dims=3),
        of(1, 256, 256, (8, 14, 14), (1, 3, 3), dims=3),
        of(1, 512, 512, (4, 7, 7), 1, dims=3),
        of(1, 80, 512, 3000, 3, dims=1),
        of(1, 512, 512, 3000, 3, 2, dims=1),
        of(8, 1, 512, 16000, 10, 5, padding=0, dims=1),
        of(8, 512, 512, 3199, 3, 2, padding=0, dims=1),
        of(8, 768, 768, 499, 128, 1, 16, padding=64, dims=1),
        of(32, 256, 256, 200, 31, 1, 256, dims=1),
        of(8, 128, 128, 1024, 3, dilation=4, dims=1),
        of(8, 512, 512, 28, 3, dilation=2),
        of(1, 2048, 256, 33, 3, dilation=6),
        of(1, 2048, 256, 33, 3, dilation=12),
        of(1, 64, 64, 128, 5, dilation=3),
        of(8, 128, 128, 56, 3, 1, 32),
        of(8, 256, 256, 28, 3, 1, 32),
        of(32, 512, 512, 14, 3, 2, 32),
        of(8, 384, 384, 14, 3, 1, 4),
    ]


NETWORKS = {
    "resnet50": "resnet50",
    "convnext": "convnext_t",
    "efficientnet": "efficientnet_b0",
    "mobilenet": "mobilenet_v3_large",
    "vgg": "vgg16",
}


def _layers_of(network: str) -> Callable[[], list[Case]]:
    return lambda: _layers(network)


GROUPS: dict[str, Callable[[], list[Case]]] = {
    "table": _table,
    **{group: _layers_of(network) for group, network in NETWORKS.items()},
    "unet": _unet,
    "depthwise": _depthwise,
    "other": _other,
}


def cases_of(group: str, batches: tuple[int, ...] | None) -> list[Case]:
    """The cases of a group for each batch; the shapes of ``other`` keep their own."""
    cases = GROUPS[group]()
    if group == "other":
        return cases
    usual = (1, 32) if group == "table" else BATCHES
    return [replace(case, batch=batch) for case in cases for batch in batches or usual]
