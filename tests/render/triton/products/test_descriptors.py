"""Factors read through tensor descriptors give what pointers give, and only where they can."""

import re
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from aotpack import pipeline
from aotpack.emit import write_package
from aotpack.ir.kernels.kernel import Kernel
from aotpack.ir.kernels.tiles import MatmulTile
from aotpack.pipeline import Source
from aotpack.precompile import precompile
from aotpack.precompile.interpreter.device import InterpreterDevice
from aotpack.render import render
from aotpack.runtime import load
from aotpack.schedule import schedule
from aotpack.schedule.memory.partial_sums import with_partial_sums
from aotpack.schedule.tiles.matmul_costs import DESCRIBED
from aotpack.stages import Lowered, Rendered
from aotpack.target import INTERPRETER, Target
from tests.ptx import ptx

HOPPER = Target("cuda", 90)
TILE = MatmulTile(64, 32, 32, 4, 2, descriptors=True)
PERSISTENT = replace(TILE, most_programs=3)
SHARED = replace(TILE, k=16, splits=2)
WIDE = replace(TILE, n=48)  # blocks of 32 and of 16 columns
COPY = "cp.async.bulk.tensor"  # what the hardware's copy engine is asked by
Form = Callable[..., torch.Tensor]


class Call(nn.Module):
    def __init__(self, form: Form) -> None:
        super().__init__()
        self.form = form

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.form(x, y)


def on_tile(form: Form, args: tuple[torch.Tensor, ...], tile: MatmulTile) -> Rendered:
    """The kernels of a model whose products are on a tile."""

    def with_tile(kernel: Kernel) -> Kernel:
        if kernel.template_op is None:
            return kernel
        variants = (
            replace(variant, tile=tile) if isinstance(variant.tile, MatmulTile) else variant
            for variant in kernel.variants
        )
        bare = replace(kernel, variants=tuple(variants), exchange=(), counters=())
        return with_partial_sums(bare, made.schedule.program)

    lowered = pipeline.lower(pipeline.Build(Source(Call(form), args)).traced)
    assert isinstance(lowered, Lowered)
    made = schedule(lowered)
    kernels = tuple(map(with_tile, made.schedule.kernels))
    return render(replace(made, schedule=replace(made.schedule, kernels=kernels)), (HOPPER,))


def answer(product: Rendered, args: tuple[torch.Tensor, ...]) -> torch.Tensor:
    """What the interpreter makes of the texts for sm_90."""
    with tempfile.TemporaryDirectory() as folder:
        write_package(precompile(product, (INTERPRETER,)), Path(folder))
        model = load(folder, InterpreterDevice())
        found = model(*args)
    assert isinstance(found, torch.Tensor)
    return found


def half(*shape: int) -> torch.Tensor:
    return torch.randn(shape).half()


CASES: dict[str, tuple[Form, tuple[torch.Tensor, ...], int]] = {
    "rows": (lambda x, y: x @ y.t(), (half(70, 40), half(48, 40)), 2),
    "columns": (lambda x, y: x @ y, (half(70, 40), half(40, 48)), 2),
    "transposed": (lambda x, y: x.t() @ y, (half(40, 72), half(40, 48)), 2),
    "epilogue": (lambda x, y: torch.relu(x @ y + y[0]), (half(70, 40), half(40, 48)), 2),
    "batch": (lambda x, y: x @ y, (half(3, 70, 40), half(3, 40, 48)), 2),
    "part": (lambda x, y: x[8:] @ y[:, 8:40], (half(70, 40), half(40, 48)), 2),
    "digits": (
        lambda x, y: x.mT.flatten(0, 1) @ y,
        (half(2, 40, 64).mT.contiguous().mT, half(40, 48)),
        2,
    ),
    "digits of rows": (
        lambda x, y: x.transpose(0, 1).flatten(0, 1) @ y,
        (half(64, 2, 40), half(40, 48)),
        2,
    ),
    "unaligned": (lambda x, y: x @ y, (half(70, 42), half(42, 48)), 1),
    "broadcast": (lambda x, y: x.expand(70, 40) @ y, (half(1, 40), half(40, 48)), 1),
}


@pytest.mark.row("C:F17", "C:F18", "C:F20", "C:F21", "C:F24", "S:H16")
@pytest.mark.parametrize("name", CASES)
def test_blocks_hold_what_pointers_read(name: str) -> None:
    torch.manual_seed(0)
    form, args, count = CASES[name]
    expected = form(*args).float()
    for tile in (TILE, PERSISTENT, SHARED):
        product = on_tile(form, args, tile)
        text = "".join(kernel.text for kernel in product.kernels)
        assert text.count("make_tensor_descriptor") == count
        torch.testing.assert_close(answer(product, args).float(), expected, rtol=2e-3, atol=2e-2)


@pytest.mark.parametrize(
    "tile", [WIDE, replace(WIDE, descriptors=False)], ids=["boxes", "pointers"]
)
@pytest.mark.parametrize("name", ["rows", "epilogue", "batch"])
def test_columns_that_are_no_power_of_two_are_two_blocks(name: str, tile: MatmulTile) -> None:
    torch.manual_seed(0)
    form, args, count = CASES[name]
    product = on_tile(form, args, tile)
    (kernel,) = product.kernels
    assert kernel.text.count("tl.dot(") == 2
    assert kernel.text.count("make_tensor_descriptor") == (count + 1) * tile.descriptors
    expected = form(*args).float()
    torch.testing.assert_close(answer(product, args).float(), expected, rtol=2e-3, atol=2e-2)


def test_blocks_of_columns_take_windows() -> None:
    args = (half(2, 16, 6, 7), half(160, 16, 3, 3) / 12)
    form = lambda x, y: torch.relu(F.conv2d(x, y, padding=1))  # noqa: E731
    product = on_tile(form, args, MatmulTile(64, 160, 16, 4, 2))
    (kernel,) = (one for one in product.kernels if "tl.dot(" in one.text)
    assert "k_step" in kernel.text and kernel.text.count("tl.dot(") == 2
    exact = form(*(x.float() for x in args))
    torch.testing.assert_close(answer(product, args).float(), exact, rtol=2e-3, atol=2e-3)


@pytest.mark.row("C:F24", "C:F22")
def test_the_copy_engine_is_asked_and_no_address_is_computed_in_the_loop() -> None:
    form, args, _ = CASES["rows"]
    (kernel,) = on_tile(form, args, TILE).kernels
    loop = kernel.text.split("for k_start", 1)[1].split("acc = tl.dot")[0]
    assert re.search(r"lhs_block\.load\(\[m_start, k_start\]\)", loop) and "_ptr" not in loop
    assert COPY in ptx(kernel)
    (other,) = on_tile(form, args, replace(TILE, descriptors=False)).kernels
    assert "make_tensor_descriptor" not in other.text and COPY not in ptx(other)


@pytest.mark.row("C:inv26", "C:F24")
def test_the_measured_tile_keeps_epilogues_in_registers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a tile of float32 in each thread, and a gelu; a residual on top takes more warps."""
    monkeypatch.setenv("AOTPACK_CACHE", str(tmp_path))

    def gelu(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return nn.functional.gelu(x @ y.t() + y[0, :512])

    def residual(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return gelu(x, y) + x[:, :512]

    args = half(256, 2048), half(512, 2048)
    for form, warps in ((gelu, 8), (residual, 16)):
        (made,) = precompile(on_tile(form, args, DESCRIBED.tile), (HOPPER,), jobs=1).binaries
        assert made.num_warps == warps and made.spills == 0
        assert made.shared <= 232_448 and made.global_scratch == 0
