"""Strides: any order of dimensions, no gap, no overlap; contiguous where others rely on it."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from aotpack.ir.kernels.access import contiguous, in_order
from aotpack.ir.kernels.kernel import Schedule
from aotpack.ir.operations import Attention, Matmul
from aotpack.ir.symbolic.integers import Axis, Int
from aotpack.target import CPU, Target

from .programs import F32, Writer, apply, load, schedule_of, scheduled

H200 = Target("cuda", 90)


def offsets(shape: tuple[int, ...], strides: tuple[Int, ...]) -> list[int]:
    steps = [int(stride) for stride in strides]
    return [int(np.dot(point, steps)) for point in itertools.product(*map(range, shape))]


@pytest.mark.row("S:A9", "S:D3")
@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.data())
def test_permuted_strides_cover_every_element_once(sizes: list[int], data: st.DataObject) -> None:
    dims = data.draw(st.permutations(range(len(sizes))))
    strides = in_order(tuple(map(Int.of, sizes)), tuple(dims))
    assert sorted(offsets(tuple(sizes), strides)) == list(range(int(np.prod(sizes))))


@pytest.mark.row("S:D3")
def test_contiguous_is_the_order_of_dimensions() -> None:
    strides = contiguous(tuple(map(Int.of, (2, 3, 4))))
    assert offsets((2, 3, 4), strides) == list(range(24))


def strides(schedule: Schedule, name: str) -> list[int]:
    return [int(stride) for stride in schedule.strides[name]]


def attention(*, as_output: bool) -> Schedule:
    """Two heads of 8 over 16 positions, joined by a transpose for a product."""
    w = Writer()
    q, weight = w.input("q", 1, 2, 16, 8), w.weight("w", 16, 16)
    out = w.buffer("out", (1, 2, 16, 8))
    sizes = (1, 2, 16, 16, 8, 8)
    b, h, i, j, d, e = (Axis(f"a{k}", Int.of(size)) for k, size in enumerate(sizes))
    slots = (load(q, b, h, i, d), load(q, b, h, j, d), load(q, b, h, j, e))
    w.operations.append(Attention("out", b, h, i, j, d, e, *slots, 0.5, False, None, None, F32))
    index = (Int.of(0), lambda c: c // 8, lambda c: c % 8)
    joined = w.pointwise(
        "joined", [16, 16], lambda i, c: load(out, index[0], index[1](c), i, index[2](c)), op="view"
    )
    z = w.matmul("z", 16, 16, 16, joined, weight)
    return schedule_of(w.program(z, out) if as_output else w.program(z))


@pytest.mark.row("S:D4", "S:D16", "S:D17", "S:F3")
def test_what_readers_see_transposed_is_written_so() -> None:
    schedule = attention(as_output=False)
    assert strides(schedule, "out")[1:] == [8, 16, 1]
    assert len(schedule.kernels) == 2


@pytest.mark.row("S:D14", "S:inv36", "S:inv44", "S:H8")
def test_outputs_are_contiguous_however_they_are_read() -> None:
    schedule = attention(as_output=True)
    assert strides(schedule, "out") == [256, 128, 8, 1]


@pytest.mark.row("S:D14")
def test_inputs_and_weights_are_contiguous() -> None:
    w = Writer()
    x = w.input("x", 3, 4, 5)
    y = w.pointwise("y", [5, 4, 3], lambda i, j, k: apply("exp", load(x, k, j, i)))
    schedule = schedule_of(w.program(y))
    assert strides(schedule, "x") == [20, 5, 1]


def test_scalar_has_no_strides() -> None:

    w = Writer()
    x = w.input("x", 8)
    total = w.reduction("total", [], [8], lambda r: load(x, r))
    schedule = schedule_of(w.program(total))
    assert schedule.strides["total"] == ()
    assert isinstance(schedule.kernels[0].axes[0], Axis)


def separable() -> nn.Module:
    """Windows of a sum and of pooling over 20 channels, between two products."""
    return nn.Sequential(
        nn.Conv2d(3, 20, 1),
        nn.Conv2d(20, 20, 3, groups=20),
        nn.MaxPool2d(3, 1),
        nn.Conv2d(20, 4, 1),
    )


def unit_dims(targets: tuple[Target, ...], on: int) -> set[int]:
    """The dimensions of intermediate images whose neighbours lie side by side."""
    made = scheduled(separable(), torch.zeros(1, 3, 20, 20), targets=targets).on(on)
    stored = dict.fromkeys(name for kernel in made.kernels for name in kernel.stored)
    images = [name for name in stored if len(made.program.buffers[name].shape) == 4]
    shown = [name for name in images if name not in made.program.results]
    return {strides(made, name).index(1) for name in shown if name in made.strides}


@pytest.mark.parametrize("targets", [(CPU,), (CPU, H200)], ids=["alone", "with-a-gpu"])
def test_processors_have_channels_innermost_where_windows_slide(
    targets: tuple[Target, ...],
) -> None:
    assert unit_dims(targets, CPU.arch) == {1}


def test_gpus_keep_their_own_order_of_images() -> None:
    assert unit_dims((CPU, H200), H200.arch) == unit_dims((H200,), H200.arch)


class Relative(nn.Module):
    """Products with positions, of which each pair of tokens takes one, as those of DeBERTa."""

    def forward(self, q: torch.Tensor, table: torch.Tensor, taken: torch.Tensor) -> torch.Tensor:
        found = torch.gather(q @ table, 2, taken.expand(6, 16, 16))
        return torch.softmax(found + q @ q.transpose(1, 2), -1)


def test_products_store_neighbours_though_readers_gather() -> None:
    q, table, taken = torch.zeros(6, 16, 8), torch.zeros(6, 8, 32), torch.zeros(16, 16)
    made = scheduled(Relative(), q, table, taken.long(), targets=(H200,)).on(H200.arch)
    product = made.kernels[0]
    assert isinstance(product.template_op, Matmul)
    (name,) = product.stored
    assert strides(made, name)[-1] == 1


class Columns(nn.Module):
    """A product that is read side by side along its batch alone."""

    def forward(self, a: torch.Tensor, b: torch.Tensor, taken: torch.Tensor) -> torch.Tensor:
        found = (a @ b).permute(2, 1, 0)[taken]
        return torch.softmax(found, -1)


def test_products_are_not_stored_along_their_batch() -> None:
    a, b, taken = torch.zeros(64, 16, 8), torch.zeros(64, 8, 32), torch.zeros(20)
    made = scheduled(Columns(), a, b, taken.long(), targets=(H200,)).on(H200.arch)
    (name,) = made.kernels[0].stored
    assert strides(made, name) == [512, 32, 1]


class Shortcut(nn.Module):
    """Two products of images, of which the second adds the first's."""

    def __init__(self) -> None:
        super().__init__()
        self.branch, self.shortcut = nn.Conv2d(16, 32, 1), nn.Conv2d(16, 32, 1)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return nn.functional.max_pool2d(torch.relu(self.branch(x) + self.shortcut(y)), 3)


@pytest.mark.parametrize("target", [CPU, H200], ids=str)
def test_what_a_product_adds_lies_along_its_columns(target: Target) -> None:
    x, y = torch.zeros(2, 2, 16, 12, 12)
    made = scheduled(Shortcut(), x, y, targets=(target,)).on(target.arch)
    first, second = made.kernels[:2]
    assert isinstance(first.template_op, Matmul)
    assert isinstance(second.template_op, Matmul)
    assert {strides(made, name).index(1) for name in (*first.stored, *second.stored)} == {1}
    homes = {life.buffer: life.storage for life in made.lifetimes}
    assert homes[second.stored[0]] == homes[first.stored[0]]


@pytest.mark.parametrize("has_bias", [False, True])
def test_a_product_that_is_a_result_is_stored_as_narrow_as_that(*, has_bias: bool) -> None:
    conv = nn.Conv2d(16, 32, 1, bias=has_bias).bfloat16()
    pooled = nn.Sequential(conv, nn.MaxPool2d(3))
    made = scheduled(pooled, torch.zeros(2, 16, 12, 12).bfloat16(), targets=(H200,)).on(H200.arch)
    product = made.kernels[0]
    assert isinstance(product.template_op, Matmul)
    sizes = {made.program.buffers[name].dtype.itemsize for name in product.stored}
    assert sizes == {2}
    wide = made.program.buffers[product.template_op.target].dtype
    assert wide.itemsize == (4 if has_bias else 2)
