"""Convolutional networks for benchmarks, from their papers, with random weights.

``CNNS`` maps names to functions that make a module; each takes images (batch, 3, 224, 224), and
``unet_block`` what ``unet_inputs`` makes. Batch norms have statistics as after training: none is
the identity.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import nn
from torch.nn import functional as F

IMAGE = (3, 224, 224)


class ConvNorm(nn.Sequential):
    """A convolution without bias, a batch norm and an activation; padded to the same size."""

    def __init__(
        self,
        channels: int,
        out: int,
        kernel: int = 1,
        stride: int = 1,
        *,
        groups: int = 1,
        act: type[nn.Module] | None = nn.ReLU,
    ) -> None:
        conv = nn.Conv2d(channels, out, kernel, stride, kernel // 2, groups=groups, bias=False)
        super().__init__(conv, nn.BatchNorm2d(out), *([] if act is None else [act()]))


class Head(nn.Sequential):
    """The mean of an image, then linears."""

    def __init__(self, *linears: nn.Module) -> None:
        super().__init__(nn.AdaptiveAvgPool2d(1), nn.Flatten(), *linears)


# --- ResNet-50 (He et al. 2015), the stride in the 3x3 convolution


class Bottleneck(nn.Module):
    def __init__(self, channels: int, middle: int, stride: int) -> None:
        super().__init__()
        out = 4 * middle
        self.branch = nn.Sequential(
            ConvNorm(channels, middle),
            ConvNorm(middle, middle, 3, stride),
            ConvNorm(middle, out, act=None),
        )
        same = channels == out and stride == 1
        self.shortcut = nn.Identity() if same else ConvNorm(channels, out, 1, stride, act=None)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.branch(x) + self.shortcut(x))


def resnet50() -> nn.Module:
    layers: list[nn.Module] = [ConvNorm(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        for block in range(blocks):
            middle, stride = 64 << stage, 2 if stage and not block else 1
            layers.append(Bottleneck(channels, middle, stride))
            channels = 4 * middle
    return nn.Sequential(*layers, Head(nn.Linear(channels, 1000)))


# --- ConvNeXt-T (Liu et al. 2022)


class ChannelNorm(nn.LayerNorm):
    """A layer norm over the channels of images."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvNextBlock(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.norm = nn.LayerNorm(channels, eps=1e-6)
        self.wide = nn.Linear(channels, 4 * channels)
        self.narrow = nn.Linear(4 * channels, channels)
        self.scale = nn.Parameter(torch.full((channels,), 0.1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.narrow(F.gelu(self.wide(y))) * self.scale
        return x + y.permute(0, 3, 1, 2)


def convnext_t() -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(3, 96, 4, 4), ChannelNorm(96, eps=1e-6)]
    for stage, blocks in enumerate((3, 3, 9, 3)):
        channels = 96 << stage
        if stage:
            half = channels // 2
            layers += [ChannelNorm(half, eps=1e-6), nn.Conv2d(half, channels, 2, 2)]
        layers += [ConvNextBlock(channels) for _ in range(blocks)]
    return nn.Sequential(*layers, Head(nn.LayerNorm(768, eps=1e-6), nn.Linear(768, 1000)))


# --- inverted residuals: EfficientNet-B0 (Tan, Le 2019), MobileNetV3-L (Howard et al. 2019)


class SqueezeExcite(nn.Module):
    """Channels scaled by a function of their means."""

    def __init__(
        self, channels: int, middle: int, act: type[nn.Module], gate: type[nn.Module]
    ) -> None:
        super().__init__()
        self.scale = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(channels, middle, 1),
            act(),
            nn.Conv2d(middle, channels, 1),
            gate(),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale(x)


class InvertedResidual(nn.Module):
    """Widen, convolve each channel, squeeze and excite, narrow."""

    def __init__(
        self,
        channels: int,
        wide: int,
        out: int,
        kernel: int,
        stride: int,
        *,
        act: type[nn.Module],
        squeeze: nn.Module | None,
    ) -> None:
        super().__init__()
        parts: list[nn.Module] = [] if wide == channels else [ConvNorm(channels, wide, act=act)]
        parts.append(ConvNorm(wide, wide, kernel, stride, groups=wide, act=act))
        parts += [] if squeeze is None else [squeeze]
        self.branch = nn.Sequential(*parts, ConvNorm(wide, out, act=None))
        self.is_residual = channels == out and stride == 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.branch(x) if self.is_residual else self.branch(x)


# expansion, kernel, stride, channels, blocks
EFFICIENTNET_B0 = (
    (1, 3, 1, 16, 1),
    (6, 3, 2, 24, 2),
    (6, 5, 2, 40, 2),
    (6, 3, 2, 80, 3),
    (6, 5, 1, 112, 3),
    (6, 5, 2, 192, 4),
    (6, 3, 1, 320, 1),
)


def efficientnet_b0() -> nn.Module:
    layers: list[nn.Module] = [ConvNorm(3, 32, 3, 2, act=nn.SiLU)]
    channels = 32
    for expansion, kernel, first, out, blocks in EFFICIENTNET_B0:
        for block in range(blocks):
            wide, stride = channels * expansion, first if not block else 1
            squeeze = SqueezeExcite(wide, channels // 4, nn.SiLU, nn.Sigmoid)
            layers.append(
                InvertedResidual(channels, wide, out, kernel, stride, act=nn.SiLU, squeeze=squeeze)
            )
            channels = out
    layers += [ConvNorm(320, 1280, act=nn.SiLU), Head(nn.Linear(1280, 1000))]
    return nn.Sequential(*layers)


# kernel, wide, channels, squeezes, activation, stride
MOBILENET_V3_LARGE: tuple[tuple[int, int, int, bool, type[nn.Module], int], ...] = (
    (3, 16, 16, False, nn.ReLU, 1),
    (3, 64, 24, False, nn.ReLU, 2),
    (3, 72, 24, False, nn.ReLU, 1),
    (5, 72, 40, True, nn.ReLU, 2),
    (5, 120, 40, True, nn.ReLU, 1),
    (5, 120, 40, True, nn.ReLU, 1),
    (3, 240, 80, False, nn.Hardswish, 2),
    (3, 200, 80, False, nn.Hardswish, 1),
    (3, 184, 80, False, nn.Hardswish, 1),
    (3, 184, 80, False, nn.Hardswish, 1),
    (3, 480, 112, True, nn.Hardswish, 1),
    (3, 672, 112, True, nn.Hardswish, 1),
    (5, 672, 160, True, nn.Hardswish, 2),
    (5, 960, 160, True, nn.Hardswish, 1),
    (5, 960, 160, True, nn.Hardswish, 1),
)


def mobilenet_v3_large() -> nn.Module:
    layers: list[nn.Module] = [ConvNorm(3, 16, 3, 2, act=nn.Hardswish)]
    channels = 16
    for kernel, wide, out, squeezes, act, stride in MOBILENET_V3_LARGE:
        middle = -(-wide // 4 // 8) * 8
        squeeze = SqueezeExcite(wide, middle, nn.ReLU, nn.Hardsigmoid) if squeezes else None
        layers.append(
            InvertedResidual(channels, wide, out, kernel, stride, act=act, squeeze=squeeze)
        )
        channels = out
    layers.append(ConvNorm(160, 960, act=nn.Hardswish))
    head = Head(nn.Linear(960, 1280), nn.Hardswish(), nn.Linear(1280, 1000))
    return nn.Sequential(*layers, head)


# --- DenseNet-121 (Huang et al. 2016), VGG16 (Simonyan, Zisserman 2014)


class DenseLayer(nn.Module):
    """32 channels more: norm, activation, 1x1; norm, activation, 3x3; concatenated."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.branch = nn.Sequential(
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            ConvNorm(channels, 128),
            nn.Conv2d(128, 32, 3, padding=1, bias=False),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat((x, self.branch(x)), 1)


def densenet121() -> nn.Module:
    layers: list[nn.Module] = [ConvNorm(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for stage, blocks in enumerate((6, 12, 24, 16)):
        if stage:
            half = nn.Conv2d(channels, channels // 2, 1, bias=False)
            layers += [nn.BatchNorm2d(channels), nn.ReLU(), half, nn.AvgPool2d(2, 2)]
            channels //= 2
        layers += [DenseLayer(channels + 32 * number) for number in range(blocks)]
        channels += 32 * blocks
    layers += [nn.BatchNorm2d(channels), nn.ReLU(), Head(nn.Linear(channels, 1000))]
    return nn.Sequential(*layers)


def vgg16() -> nn.Module:
    layers: list[nn.Module] = []
    channels = 3
    for out, convolutions in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(convolutions):
            layers += [nn.Conv2d(channels, out, 3, padding=1), nn.ReLU()]
            channels = out
        layers.append(nn.MaxPool2d(2, 2))
    head = (nn.Linear(25088, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU())
    return nn.Sequential(*layers, nn.Flatten(), *head, nn.Linear(4096, 1000))


# --- two levels of a UNet of latent diffusion (Rombach et al. 2022)


class ResidualBlock(nn.Module):
    """Group norms, 3x3 convolutions, and a time that is added to all pixels."""

    def __init__(self, channels: int, out: int, time: int) -> None:
        super().__init__()
        self.first = nn.Sequential(
            nn.GroupNorm(32, channels), nn.SiLU(), nn.Conv2d(channels, out, 3, padding=1)
        )
        self.time = nn.Sequential(nn.SiLU(), nn.Linear(time, out))
        self.second = nn.Sequential(
            nn.GroupNorm(32, out), nn.SiLU(), nn.Conv2d(out, out, 3, padding=1)
        )
        self.shortcut = nn.Identity() if channels == out else nn.Conv2d(channels, out, 1)

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        y = self.first(x) + self.time(time)[:, :, None, None]
        return self.shortcut(x) + self.second(y)


class Attention(nn.Module):
    """Attention of 8 heads to a context, with a norm before and the input added."""

    def __init__(self, channels: int, context: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(channels)
        self.query = nn.Linear(channels, channels, bias=False)
        self.key = nn.Linear(context, channels, bias=False)
        self.value = nn.Linear(context, channels, bias=False)
        self.out = nn.Linear(channels, channels)

    def forward(self, x: torch.Tensor, context: torch.Tensor | None = None) -> torch.Tensor:
        normed = self.norm(x)
        read = normed if context is None else context
        heads = [
            linear(given).unflatten(-1, (8, -1)).transpose(1, 2)
            for linear, given in ((self.query, normed), (self.key, read), (self.value, read))
        ]
        mixed = F.scaled_dot_product_attention(*heads)
        return x + self.out(mixed.transpose(1, 2).flatten(2))


class TransformerBlock(nn.Module):
    """Pixels as tokens: attention to themselves and to a text, and a gated linear unit."""

    def __init__(self, channels: int, text: int) -> None:
        super().__init__()
        self.itself = Attention(channels, channels)
        self.text = Attention(channels, text)
        self.norm = nn.LayerNorm(channels)
        self.wide = nn.Linear(channels, 8 * channels)
        self.narrow = nn.Linear(4 * channels, channels)

    def forward(self, x: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        tokens = self.text(self.itself(x.flatten(2).transpose(1, 2)), text)
        value, gate = self.wide(self.norm(tokens)).chunk(2, -1)
        tokens = tokens + self.narrow(value * F.gelu(gate))
        return x + tokens.transpose(1, 2).unflatten(2, x.shape[2:])


class UNetBlock(nn.Module):
    """One level down and up again, with what lies beside it."""

    def __init__(self, channels: int = 320, text: int = 768) -> None:
        super().__init__()
        time, deep = 4 * channels, 2 * channels
        self.time = nn.Sequential(nn.Linear(channels, time), nn.SiLU(), nn.Linear(time, time))
        self.entry = nn.Conv2d(4, channels, 3, padding=1)
        self.high = ResidualBlock(channels, channels, time)
        self.high_attention = TransformerBlock(channels, text)
        self.down = nn.Conv2d(channels, deep, 3, stride=2, padding=1)
        self.low = ResidualBlock(deep, deep, time)
        self.low_attention = TransformerBlock(deep, text)
        self.up = ResidualBlock(channels + deep, channels, time)
        self.exit = nn.Sequential(
            nn.GroupNorm(32, channels), nn.SiLU(), nn.Conv2d(channels, 4, 3, padding=1)
        )

    def forward(self, x: torch.Tensor, time: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        when = self.time(time)
        high = self.high_attention(self.high(self.entry(x), when), text)
        low = self.low_attention(self.low(self.down(high), when), text)
        low = F.interpolate(low, scale_factor=2.0, mode="nearest")
        return self.exit(self.up(torch.cat((high, low), 1), when))


def unet_inputs(batch: int) -> tuple[torch.Tensor, ...]:
    """Latents of 64 x 64, a time, and a text of 77 tokens."""
    shapes: Sequence[tuple[int, ...]] = ((4, 64, 64), (320,), (77, 768))
    return tuple(torch.randn(batch, *shape) for shape in shapes)


CNNS: dict[str, Callable[[], nn.Module]] = {
    "resnet50": resnet50,
    "convnext_t": convnext_t,
    "efficientnet_b0": efficientnet_b0,
    "mobilenet_v3_large": mobilenet_v3_large,
    "densenet121": densenet121,
    "vgg16": vgg16,
}


def as_trained(module: nn.Module) -> nn.Module:
    """The module for inference, its batch norms with statistics that are not the identity."""
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            assert part.running_mean is not None and part.running_var is not None
            nn.init.normal_(part.running_mean, std=0.1)
            nn.init.uniform_(part.running_var, 0.5, 1.5)
            nn.init.uniform_(part.weight, 0.5, 1.5)
            nn.init.normal_(part.bias, std=0.1)
    return module.eval()
