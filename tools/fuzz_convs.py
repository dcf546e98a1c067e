"""Draws random models of convolutions, for ``python -m tools.fuzz --convs``.

Images of one to three dimensions and odd sizes pass convolutions of all kinds (strides, dilations,
groups, paddings larger than the kernel, transposed ones, depthwise ones, weights that are computed
or given), batch norms, activations, residuals, poolings, concatenations and changes of layout.
Batch and sizes may be dynamic.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from tools.fuzz_model import SIZES, Input, Line, Model, pruned

LARGEST = 64.0  # larger values are not used: their rounding errors would hide mistakes
MOST_ELEMENTS = 6000  # of a value
MOST_WORK = 400_000  # multiplications of a convolution: programs are interpreted
FLOATS = (torch.float32,) * 4 + (torch.bfloat16, torch.float16)
CHANNELS = (1, 2, 3, 4, 5, 6, 8, 12, 16, 17)
EXTENTS = {1: (1, 7, 12, 16, 33, 50), 2: (1, 4, 7, 9, 12), 3: (1, 3, 5, 6)}
ACTIVATIONS = (
    "F.relu({x})",
    "F.silu({x})",
    "F.gelu({x})",
    "F.hardswish({x})",
    "F.leaky_relu({x}, 0.1)",
    "F.relu6({x})",
    "{x}.sigmoid()",
    "{x}.tanh()",
    "{x} * 0.5 + 0.25",
)


@dataclass(slots=True)
class Known:
    """A value so far: an image (batch, channels, sizes)."""

    name: str
    tensor: torch.Tensor

    @property
    def channels(self) -> int:
        return self.tensor.shape[1]

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(self.tensor.shape[2:])


@dataclass(slots=True)
class Draw:
    """The state: a random generator, the dimensions of all images, the values, the inputs."""

    rng: random.Random
    dims: int
    dtype: torch.dtype
    known: list[Known]
    inputs: list[Input]
    more: list[Input] = field(default_factory=list)  # inputs of the line that is drawn

    def image(self, accept: Callable[[Known], bool] = lambda k: True) -> Known | None:
        """One of the values so far, later ones more often."""
        good = [k for k in self.known if accept(k)]
        return good[int(len(good) * self.rng.random() ** 0.5)] if good else None

    def weight(self, dims: Sequence[int], scale: float = 1.0) -> str:
        """A new weight, or rarely an input."""
        name = f"w{len(self.inputs) + len(self.more)}"
        is_weight = self.rng.random() < 0.95
        self.more.append(Input(name, tuple(dims), self.dtype, is_weight, scale))
        return name

    def each(self, choices: Sequence[int]) -> tuple[int, ...]:
        """A number for each dimension, often one for all."""
        if self.rng.random() < 0.5:
            return (self.rng.choice(choices),) * self.dims
        return tuple(self.rng.choice(choices) for _ in range(self.dims))


Drawn = tuple[str, tuple[Known, ...]] | None  # an expression, and the values in it
Rule = Callable[[Draw], Drawn]


# --- convolutions


def _computed(m: Draw, dims: Sequence[int], fan: int) -> str:
    """The text of a convolution's weight: itself, or a function of weights alone."""
    scale = 2.0 ** -((max(fan, 1).bit_length() + 1) // 2)  # so that sums keep their size
    weight = m.weight(dims, scale)
    ones = ", 1" * (len(dims) - 1)
    kind = m.rng.random()
    if kind < 0.7:
        return weight
    if kind < 0.8:
        return f"{weight} * {m.weight((dims[0],))}.view(-1{ones})"
    if kind < 0.85:
        return f"({weight} - {weight}.mean({tuple(range(1, len(dims)))}, keepdim=True))"
    if kind < 0.9:
        return f"torch.cat(({weight}[1:], {weight}[:1]), 0)"
    if kind < 0.95:
        return f"{weight}.flip({len(dims) - 1})"
    return f"{weight}.transpose(0, 0).contiguous()"


def _groups(m: Draw, channels: int) -> int:
    divisors = [n for n in range(1, channels + 1) if channels % n == 0]
    return m.rng.choice((1, 1, channels, m.rng.choice(divisors)))


def _bias(m: Draw, out: int) -> str:
    return m.weight((out,)) if m.rng.random() < 0.6 else "None"


def _conv(m: Draw) -> Drawn:
    x = m.image()
    assert x is not None
    groups = _groups(m, x.channels)
    times = m.rng.choice((1, 1, 2, 3)) if groups > 1 else m.rng.choice(CHANNELS)
    out, kernel = groups * times, m.each((1, 1, 2, 3, 3, 4, 5))
    inner = x.channels // groups
    weight = _computed(m, (out, inner, *kernel), inner * _product(kernel))
    stride, dilation = m.each((1, 1, 1, 2, 3)), m.each((1, 1, 1, 2, 3))
    padding: Any = m.each((0, 0, 1, 1, 2, 3, 6))
    if m.rng.random() < 0.1:
        padding, stride = m.rng.choice(("'same'", "'valid'")), (1,) * m.dims
    bias = _bias(m, out)
    text = f"F.conv{m.dims}d({x.name}, {weight}, {bias}, {stride}, {padding}, {dilation}, {groups})"
    return text, (x,)


def _transposed(m: Draw) -> Drawn:
    x = m.image()
    assert x is not None
    groups = _groups(m, x.channels)
    times = m.rng.choice((1, 2, 3)) if groups > 1 else m.rng.choice(CHANNELS)
    kernel, stride = m.each((1, 2, 3, 4, 5)), m.each((1, 2, 2, 3))
    inner = x.channels // groups
    weight = _computed(m, (x.channels, times, *kernel), inner * _product(kernel))
    padding, dilation = m.each((0, 0, 1, 1, 2, 4)), m.each((1, 1, 1, 2))
    more = m.each((0, 0, 1, 2))
    bias = _bias(m, groups * times)
    how = f"{stride}, {padding}, {more}, {groups}, {dilation}"
    return f"F.conv_transpose{m.dims}d({x.name}, {weight}, {bias}, {how})", (x,)


def _of_one_image(m: Draw) -> Drawn:
    """Without a batch, and with it again."""
    x = m.image(lambda k: k.tensor.shape[0] == 1)
    if x is None:
        return None
    weight = m.weight((m.rng.choice(CHANNELS), x.channels, *(3,) * m.dims), 0.125)
    text = f"F.conv{m.dims}d({x.name}.squeeze(0), {weight}, None, 1, 1).unsqueeze(0)"
    return text, (x,)


def _product(sizes: Sequence[int]) -> int:
    total = 1
    for size in sizes:
        total *= size
    return total


# --- what stands between convolutions


def _batch_norm(m: Draw) -> Drawn:
    x = m.image()
    assert x is not None
    mean, spread, weight, bias = (m.weight((x.channels,)) for _ in range(4))
    affine = f"{weight}, {bias}" if m.rng.random() < 0.8 else "None, None"
    variance = f"{spread}.abs() + 0.5"
    return f"F.batch_norm({x.name}, {mean}, {variance}, {affine}, False, 0.1, 1e-5)", (x,)


def _group_norm(m: Draw) -> Drawn:
    x = m.image(lambda k: _product(k.sizes) > 1)
    if x is None:
        return None
    groups = _groups(m, x.channels)
    return f"F.group_norm({x.name}, {groups}, {m.weight((x.channels,))})", (x,)


def _activation(m: Draw) -> Drawn:
    x = m.image()
    assert x is not None
    return m.rng.choice(ACTIVATIONS).format(x=x.name), (x,)


def _prelu(m: Draw) -> Drawn:
    x = m.image()
    assert x is not None
    return f"F.prelu({x.name}, {m.weight((m.rng.choice((1, x.channels)),))})", (x,)


def _residual(m: Draw) -> Drawn:
    x = m.image()
    assert x is not None
    y = m.image(lambda k: k.tensor.shape == x.tensor.shape and k is not x) or x
    return m.rng.choice(("{x} + {y}", "F.relu({x} + {y})", "{x} * {y}", "{x} - {y}")).format(
        x=x.name, y=y.name
    ), (x, y)


def _squeeze_excite(m: Draw) -> Drawn:
    x = m.image()
    assert x is not None
    axes, ones = tuple(range(2, 2 + m.dims)), (1,) * m.dims
    weight = m.weight((x.channels, x.channels, *ones), 0.25)
    pooled = m.rng.choice(
        (f"{x.name}.mean({axes}, True)", f"F.adaptive_avg_pool{m.dims}d({x.name}, 1)")
    )
    return f"{x.name} * F.conv{m.dims}d({pooled}, {weight}).sigmoid()", (x,)


def _cat(m: Draw) -> Drawn:
    x = m.image()
    assert x is not None
    y = m.image(lambda k: (k.tensor.shape[0], k.sizes) == (x.tensor.shape[0], x.sizes)) or x
    if x.channels + y.channels > 40:
        return None
    return f"torch.cat(({x.name}, {y.name}), 1)", (x, y)


def _pool(m: Draw) -> Drawn:
    x = m.image()
    assert x is not None
    kernel = m.rng.choice((2, 3, 4))
    stride, padding = m.rng.choice((1, 2, 3)), m.rng.choice((0, kernel // 2))
    ceil = m.rng.choice((True, False))
    kind = m.rng.random()
    if kind < 0.5:
        more = f", ceil_mode={ceil}, dilation={m.rng.choice((1, 1, 2))}"
        return f"F.max_pool{m.dims}d({x.name}, {kernel}, {stride}, {padding}{more})", (x,)
    if kind < 0.8:
        more = f", ceil_mode={ceil}, count_include_pad={m.rng.choice((True, False))}"
        return f"F.avg_pool{m.dims}d({x.name}, {kernel}, {stride}, {padding}{more})", (x,)
    return f"F.adaptive_avg_pool{m.dims}d({x.name}, {m.rng.choice((1, 2, 3))})", (x,)


def _part(m: Draw) -> Drawn:
    x = m.image()
    assert x is not None
    half = max(1, x.channels // 2)
    texts = [f"{x.name}[:, {half - 1}:]", f"{x.name}[..., 1:]", f"{x.name}[..., ::2]"]
    texts += [f"{x.name}.flip(-1)", f"{x.name}.chunk(2, 1)[0]", f"{x.name}.roll(1, -1)"]
    return m.rng.choice(texts), (x,)


def _pad(m: Draw) -> Drawn:
    x = m.image()
    assert x is not None
    sides = tuple(m.rng.choice((0, 0, 1, 2, -1)) for _ in range(2 * m.dims))
    value = m.rng.choice(("0.0", "0.0", "0.5"))
    if m.rng.random() < 0.3:
        sides = tuple(abs(side) for side in sides)
        return f"F.pad({x.name}, {sides}, mode='{m.rng.choice(('reflect', 'replicate'))}')", (x,)
    return f"F.pad({x.name}, {sides}, value={value})", (x,)


def _enlarge(m: Draw) -> Drawn:
    x = m.image()
    assert x is not None
    linear = {1: "linear", 2: "bilinear", 3: "trilinear"}[m.dims]
    mode = m.rng.choice(("nearest", "nearest", linear))
    return f"F.interpolate({x.name}, scale_factor=2.0, mode='{mode}')", (x,)


def _layout(m: Draw) -> Drawn:
    """Other orders of dimensions and channels, with an operator on them."""
    x = m.image()
    assert x is not None
    inner = m.weight((x.channels,))
    last = f"{x.name}.movedim(1, -1)"
    texts = [
        f"F.layer_norm({last}, ({x.channels},), {inner}).movedim(-1, 1)",
        f"({last} * {inner}).movedim(-1, 1)",
        f"{last}.contiguous().movedim(-1, 1)",
        f"{x.name}.unflatten(1, (-1, {2 - x.channels % 2})).transpose(1, 2).flatten(1, 2)",
    ]
    if m.dims > 1:
        texts += [f"{x.name}.transpose(-1, -2)"]
    if m.dims == 2:
        texts += [f"F.pixel_unshuffle({x.name}, 2)", f"F.pixel_shuffle({x.name}, 2)"]
        texts += [f"{x.name}.contiguous(memory_format=torch.channels_last)"]
    return m.rng.choice(texts), (x,)


def _linear(m: Draw) -> Drawn:
    """A linear of channels, with the channels as the last dimension."""
    x = m.image()
    assert x is not None
    out = m.rng.choice(CHANNELS)
    weight = m.weight((out, x.channels), 0.25)
    bias = _bias(m, out)
    return f"F.linear({x.name}.movedim(1, -1), {weight}, {bias}).movedim(-1, 1)", (x,)


BETWEEN: tuple[Rule, ...] = (
    _batch_norm,
    _batch_norm,
    _group_norm,
    _activation,
    _activation,
    _prelu,
    _residual,
    _residual,
    _squeeze_excite,
    _cat,
    _cat,
    _pool,
    _pool,
    _part,
    _pad,
    _enlarge,
    _layout,
    _linear,
)
CONVOLUTIONS: tuple[Rule, ...] = (_conv,) * 6 + (_transposed,) * 2 + (_of_one_image,)


def make(seed: int) -> Model:
    """The model of a seed."""
    rng = random.Random(seed)
    dims = rng.choice((1, 2, 2, 2, 3))
    dtype = rng.choice(FLOATS)
    inputs = [_input(rng, f"x{number}", dims, dtype) for number in range(rng.choice((1, 1, 2)))]
    sizes = {name: size.example for name, size in SIZES.items()}
    known = [Known(x.name, x.draw(sizes, seed + n)) for n, x in enumerate(inputs)]
    draw, lines = Draw(rng, dims, dtype, known, inputs), list[Line]()
    wanted = rng.randint(2, 9)
    for _ in range(100):
        if len(lines) < wanted:
            is_conv = not lines or rng.random() < 0.4
            _add_line(draw, lines, rng.choice(CONVOLUTIONS if is_conv else BETWEEN))
    return pruned(Model(tuple(inputs), tuple(lines)))


def _input(rng: random.Random, name: str, dims: int, dtype: torch.dtype) -> Input:
    """An image; its batch or some of its sizes may be dynamic."""
    is_dynamic = rng.random() < 0.4
    batch: int | str = "b" if is_dynamic and rng.random() < 0.7 else rng.choice((1, 1, 2, 3))
    sizes: list[int | str] = [rng.choice(EXTENTS[dims]) for _ in range(dims)]
    if is_dynamic and rng.random() < 0.6:
        sizes[rng.randrange(dims)] = "h"
    return Input(name, (batch, rng.choice(CHANNELS), *sizes), dtype)


def _add_line(m: Draw, lines: list[Line], rule: Rule) -> None:
    """Draw a line, and keep it if eager can run it and its values are tame."""
    m.more = []
    drawn = rule(m)
    if drawn is None:
        return
    text, used = drawn
    fresh = {x.name: x.draw({}, 1000 + len(m.inputs) + n) for n, x in enumerate(m.more)}
    scope: dict[str, Any] = {"torch": torch, "F": nn.functional} | fresh
    try:
        tensor = eval(text, scope | {k.name: k.tensor for k in m.known})
    except (RuntimeError, IndexError, TypeError, ValueError):
        return
    if not _is_tame(tensor, m):
        return
    needed = [x for x in m.more if x.name in text]
    m.inputs += needed
    name = f"v{len(lines)}"
    lines.append(Line(name, text, (*(k.name for k in used), *(x.name for x in needed))))
    m.known.append(Known(name, tensor))


def _is_tame(tensor: torch.Tensor, m: Draw) -> bool:
    is_image = tensor.dim() == 2 + m.dims and 0 < tensor.numel() <= MOST_ELEMENTS
    weights = max((_product(x.dims[1:]) for x in m.more if len(x.dims) > 2), default=1)
    if not is_image or tensor.numel() * weights > MOST_WORK:
        return False
    wide = tensor.double()
    return bool(torch.isfinite(wide).all() and wide.abs().max() <= LARGEST)
