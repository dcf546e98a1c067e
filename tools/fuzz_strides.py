"""Random models of tensors that do not lie row-major, for ``python -m tools.fuzz --strides``.

Inputs and weights are permuted, expanded, or slices with a step or an offset. A package is called
with tensors as they lie, with arrays of numpy that lie so, with row-major ones, and with others.
All calls give the same, or are refused in words where ``docs/guide/memory_order.md`` says so;
results have the strides that eager gives or, where these are others, that torch.export reports.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn

from aotpack.runtime.errors import ArgumentError
from aotpack.runtime.strides import is_dense, strides
from tests.e2e.oracle import Compiled, WrongAnswer, tensors
from tools.fuzz_make import add_line, known_inputs, some_inputs
from tools.fuzz_model import LAYOUTS, Input, Line, Model, pruned
from tools.fuzz_rules import RULES, Draw, Known, Rule, along

Tensors = tuple[torch.Tensor, ...]

ORDERS = (
    "{x}.mT", "{x}.permute(*range({x}.dim())[::-1])", "{x}.movedim({d}, {e})",
    "{x}.transpose({d}, {e}).contiguous()", "{x}.transpose({d}, {e}).clone()",
    "{x}.transpose({d}, {e}).clone(memory_format=torch.contiguous_format)",
    "{x}.contiguous(memory_format=torch.channels_last)",
    "{x}.to(memory_format=torch.channels_last)", "{x}.rot90(1, ({d}, {e}))",
    "{x}.clone().mul_(2)", "{x}.clone().transpose_({d}, {e}).add_(1)",
    "{x}.clone().transpose({d}, {e}).tril_()", "{x}.clone().masked_fill_({x} == {x}, 1)",
    "{x}.clone().copy_({x}.contiguous())", "torch.empty_like({x}).copy_({x})",
)  # fmt: skip
PIECES = (
    "{x}[..., ::2]", "{x}[..., 1::3]", "{x}[::2]", "{x}.chunk(2, {d})[-1]", "{x}.unfold({d}, 2, 1)",
    "{x}.diagonal(0, {d}, {e})", "{x}.unbind({d})[{n}]", "{x}.squeeze({d})", "{x}.expand_as({x})",
    "{x}.narrow({d}, {n}, 1).expand_as({x})", "{x}.view({x}.shape)", "{x}.expand(2, *{x}.shape)",
)  # fmt: skip
FLATTENED = (
    "{x}.reshape(-1)", "{x}.ravel()", "{x}.transpose({d}, {e}).reshape({x}.shape)",
    "{x}.contiguous().view(-1)", "{x}.transpose({d}, {e}).flatten()",
    "{x}.reshape({x}.shape[0], -1)",
)  # fmt: skip
LIKE = (
    "torch.zeros_like({x})", "torch.full_like({x}, 2)", "{x}.new_ones({x}.shape)",
    "torch.ones_like({x}, memory_format=torch.contiguous_format)",
)  # fmt: skip
IMAGES = (
    "F.avg_pool2d({x}, 2)", "F.max_pool2d({x}, 2, 1)", "F.interpolate({x}, scale_factor=2)",
    "F.pad({x}, (1, 0, 0, 1))", "F.adaptive_avg_pool2d({x}, 1)", "{x}.flatten(2).transpose(1, 2)",
    "F.instance_norm({x}, eps=0.1)", "F.group_norm({x}, 1, eps=0.1)", "{x}.flatten(1)",
)  # fmt: skip
_TRIES = 400
_EXTENTS = (1, 2, 3, 4, 6, 7)


def make(seed: int) -> Model:
    """The model of a seed; at least one input does not lie row-major."""
    rng = random.Random(seed)
    inputs = laid_out(rng, _image_inputs(rng) if rng.random() < 0.4 else some_inputs(rng))
    draw, lines = Draw(rng, known_inputs(inputs, seed)), list[Line]()
    wanted = rng.randint(2, 9)
    for _ in range(_TRIES):
        if len(lines) < wanted:
            add_line(draw, lines, STRIDED if rng.random() < 0.6 else RULES)
    return pruned(Model(inputs, tuple(lines)))


def laid_out(rng: random.Random, inputs: tuple[Input, ...]) -> tuple[Input, ...]:
    """The inputs in other layouts; the first never lies row-major."""
    first, *others = inputs
    laid = [replace(first, layout=rng.choice(list(LAYOUTS)[1:]))]
    for x in others:
        is_laid = rng.random() < 0.7 and x.dtype is not torch.int64
        laid.append(replace(x, layout=rng.choice(list(LAYOUTS))) if is_laid else x)
    return tuple(laid)


def _image_inputs(rng: random.Random) -> tuple[Input, ...]:
    """An image, another, and filters."""
    dtype = rng.choice((torch.float32,) * 3 + (torch.float16, torch.bfloat16))
    channels, (high, wide) = rng.choice((1, 2, 3, 8)), rng.choices(_EXTENTS, k=2)
    batch = rng.choice((1, 2, "b"))
    filters = (rng.choice((1, 4, 8)), channels, *rng.choices((1, 2, 3), k=2))
    return (
        Input("x0", (batch, channels, high, wide), dtype),
        Input("x1", (batch, channels, high, wide), dtype),
        Input("w0", filters, dtype, is_weight=True),
        Input("w1", (channels,), dtype, is_weight=True),
    )


def _is_image(k: Known) -> bool:
    return k.tensor.is_floating_point() and k.tensor.dim() == 4


def _convolved(m: Draw) -> Any:
    x = m.pick(_is_image)
    if x is None:
        return None
    channels, dtype = x.tensor.shape[1], x.tensor.dtype
    w = m.pick(lambda k: _is_image(k) and k.tensor.shape[1] == channels and k.tensor.dtype is dtype)
    if w is None:
        return None
    stride, padding = m.rng.choice((1, 2)), m.rng.choice((0, 1))
    return f"F.conv2d({x.name}, {w.name}, None, {stride}, {padding}) / 4", (x, w)


def _any(k: Known) -> bool:
    return True


_TABLE: tuple[tuple[int, bool, Rule], ...] = (
    (5, True, along(ORDERS, _any)),
    (3, True, along(PIECES, _any)),
    (2, True, along(FLATTENED, _any)),
    (1, True, along(LIKE, _any)),
    (3, False, along(IMAGES, _is_image)),
    (3, False, _convolved),
)
STRIDED = [(rule, exact) for weight, exact, rule in _TABLE for _ in range(weight)]


# --- the check ---------------------------------------------------------------------------------


def rows(args: Tensors) -> Tensors:
    """Row-major copies."""
    return tuple(x.contiguous() for x in args)


def check(compiled: Compiled, args: Tensors, *, is_example: bool) -> None:
    """Assert that all ways to lie give the same, in the promised strides."""
    signature = compiled.lowered.signature
    if is_example:
        _check_orders(compiled, args)
    for name, package in compiled.models.items():
        wanted = tensors(package(*rows(args)))
        for spec, result in zip(signature.outputs, wanted, strict=True):
            promised = strides(tuple(result.shape), spec.order)
            _require(
                steps(result) == steps(result, promised),
                f"the target {name}: {spec.name} {tuple(result.shape)} has the strides "
                f"{result.stride()}, the signature promises {promised}",
            )
        for way, given, is_taken in _ways(compiled, args):
            found = _called(package, given, is_taken, f"the target {name} with {way}")
            if found is None:
                continue
            for one, other in zip(found, wanted, strict=True):
                same = torch.equal(one.nan_to_num(), other.nan_to_num())
                _require(same, f"the target {name} with {way} gives {one}, with rows {other}")
                _require(steps(one) == steps(other), f"{name} with {way} has other strides")


def _require(holds: bool, words: str) -> None:
    if not holds:
        raise WrongAnswer(words)


def _called(
    package: Callable[..., Any], given: Sequence[Any], is_taken: bool, what: str
) -> list[torch.Tensor] | None:
    """The results; None if the call is refused and may be."""
    try:
        found = package(*given)
    except ArgumentError as error:
        _require(not is_taken, f"{what} is refused: {error}")
        return None
    parts = found if isinstance(found, tuple) else (found,)
    return [torch.from_numpy(x) if isinstance(x, np.ndarray) else x for x in parts]


def _ways(compiled: Compiled, args: Tensors) -> Iterator[tuple[str, Sequence[Any], bool]]:
    """Arguments, and whether they have to be taken."""
    inputs = compiled.lowered.signature.inputs
    lie = all(
        is_dense(tuple(x.shape), x.stride(), spec.order)
        for x, spec in zip(args, inputs, strict=True)
    )
    yield "tensors as they lie", args, lie
    if all(x.dtype is not torch.bfloat16 for x in args):
        yield "arrays as they lie", [x.numpy() for x in args], True
    for layout in ("reversed", "stepped"):
        yield f"{layout} tensors", [LAYOUTS[layout](x) if x.dim() else x for x in args], False


def _check_orders(compiled: Compiled, args: Tensors) -> None:
    """The signature's orders are those of the example, and of eager's results."""
    signature = compiled.lowered.signature
    for spec, x in zip(signature.inputs, args, strict=True):
        shape = tuple(x.shape)
        _require(
            steps(x, strides(shape, spec.order)) == _expected(x),
            f"the input {spec.name} {shape} lies in {x.stride()}, the signature says {spec.order}",
        )
    with torch.no_grad():
        eager = tensors(compiled.module(*args))
    exported: list[torch.Tensor] | None = None
    for number, (spec, x) in enumerate(zip(signature.outputs, eager, strict=True)):
        promised = steps(x, strides(tuple(x.shape), spec.order))
        if promised == _expected(x):
            continue
        exported = exported or _exported(compiled.module, args)
        _require(
            promised == _expected(exported[number]),
            f"{spec.name} {tuple(x.shape)} is promised in the order {spec.order}, eager gives "
            f"{x.stride()}, torch.export reports {exported[number].stride()}",
        )


def _exported(module: nn.Module, args: Tensors) -> list[torch.Tensor]:
    """The results that torch.export reports."""
    program = torch.export.export(module, args)
    return [node.meta["val"] for node in program.graph.output_node().args[0]]


def steps(x: torch.Tensor, given: Sequence[int] | None = None) -> list[int]:
    """The strides of the dimensions that have several elements; none without elements."""
    pairs = zip(x.shape, x.stride() if given is None else given, strict=True)
    return [step for size, step in pairs if size > 1] if x.numel() else []


def _expected(x: torch.Tensor) -> list[int]:
    """The strides of a tensor without gaps and overlaps; else those of a row-major one."""
    order = sorted(range(x.dim()), key=lambda dim: (-x.stride(dim), -x.shape[dim], dim))
    lies = is_dense(tuple(x.shape), x.stride(), tuple(order))
    return steps(x) if lies else steps(x, strides(tuple(x.shape)))
