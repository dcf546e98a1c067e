"""Attention whose warps have roles: its text, what is compiled of it, and where it stays plain.

Triton's interpreter cannot run Gluon: it runs the plain text of the same tile. Both are rendered
from one context: the same factors, sizes, scale, causality and lines of the epilogue.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from aotpack import pipeline
from aotpack.ir.kernels.kernel import Kernel
from aotpack.ir.kernels.tiles import AttentionTile
from aotpack.pipeline import Source
from aotpack.precompile.request import Request
from aotpack.precompile.worker import compile_request
from aotpack.render import render
from aotpack.schedule import schedule
from aotpack.stages import Lowered, Rendered
from aotpack.target import Target
from tests.render.triton.products.test_descriptors import HOPPER, answer

TILE = AttentionTile(128, 64, 8, 2, roles=True)


class Attended(nn.Module):
    """Attention of heads beside each other, then an epilogue."""

    def __init__(self, causal: bool = False, after: Callable[..., torch.Tensor] = torch.relu):
        super().__init__()
        self.causal, self.after = causal, after

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *more: torch.Tensor
    ) -> torch.Tensor:
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        found = F.scaled_dot_product_attention(
            q, k, v, *more, is_causal=self.causal, enable_gqa=True
        )
        return self.after(found)


def factors(
    queries: int, keys: int, depth: int, shared: int = 1, dtype: torch.dtype = torch.float16
) -> tuple[torch.Tensor, ...]:
    """One batch of two heads."""
    sizes = ((queries, 2), (keys, shared), (keys, shared))
    return tuple(torch.randn(1, count, heads, depth).to(dtype) for count, heads in sizes)


def on_tile(
    model: nn.Module, args: tuple[torch.Tensor, ...], tile: AttentionTile = TILE
) -> Rendered:
    """The kernels of a model whose attention is on a tile."""

    def with_tile(kernel: Kernel) -> Kernel:
        variants = (
            replace(variant, tile=tile, others=())
            if isinstance(variant.tile, AttentionTile)
            else variant
            for variant in kernel.variants
        )
        return replace(kernel, variants=tuple(variants), exchange=(), counters=())

    lowered = pipeline.lower(pipeline.Build(Source(model, args)).traced)
    assert isinstance(lowered, Lowered)
    made = schedule(lowered)
    kernels = tuple(map(with_tile, made.schedule.kernels))
    return render(replace(made, schedule=replace(made.schedule, kernels=kernels)), (HOPPER,))


def test_one_warp_requests_and_groups_attend() -> None:
    """A head of 80 is blocks of 64 and 16: six descriptors."""
    (source,) = on_tile(Attended(causal=True), factors(130, 150, 80)).kernels
    assert "make_tensor_descriptor" not in source.text and len(source.gluon_maps) == 6
    request = Request.of(source, HOPPER)
    binary = compile_request(request)
    assert binary.num_warps == 12 and binary.spills == 0 and binary.maps.count("box") == 6
    request.check(binary)
    with pytest.raises(ValueError, match="warps"):
        replace(request, gluon_text="").check(binary)


def test_an_epilogue_without_a_layout_is_compiled_from_the_plain_text() -> None:
    (source,) = on_tile(Attended(), factors(64, 64, 32)).kernels
    text = source.gluon_text.replace("tl.store", "gl.no_such_function")
    binary = compile_request(replace(Request.of(source, HOPPER), gluon_text=text))
    assert binary.num_warps == TILE.num_warps and binary.maps == ""


def test_older_gpus_take_the_plain_text() -> None:
    (source,) = on_tile(Attended(), factors(64, 64, 32)).kernels
    request = Request.of(replace(source, arches=((80, 90),)), Target("cuda", 80))
    assert request.gluon_text == "" and request.gluon_types == ()


@pytest.mark.parametrize(
    ("queries", "keys", "depth", "shared", "causal"),
    [(3, 2, 64, 2, False), (131, 67, 40, 1, False), (129, 140, 80, 2, True)],
)
def test_both_texts_say_the_same_and_the_plain_one_is_right(
    queries: int, keys: int, depth: int, shared: int, causal: bool
) -> None:
    model, args = Attended(causal), factors(queries, keys, depth, shared)
    made = on_tile(model, args)
    (source,) = made.kernels
    for words in ("tl.store(", "tl.maximum(", f"{depth**-0.5 * 1.4426950408889634}"[:8]):
        assert words in source.text and words in source.gluon_text
    stores = [
        {line.strip() for line in text.splitlines() if "tl.store(" in line}
        for text in (source.text, source.gluon_text)
    ]
    assert stores[0] == stores[1]
    found, exact = answer(made, args), model(*(x.double() for x in args))
    torch.testing.assert_close(found.double(), exact, atol=2e-3, rtol=2e-3)


def test_masks_and_biases_have_the_plain_text_alone() -> None:
    args = factors(128, 128, 64)
    assert on_tile(Attended(), args).kernels[0].gluon_text
    for more in (torch.ones(128, 128, dtype=torch.bool), torch.zeros(128, 128).half()):
        assert on_tile(Attended(), (*args, more)).kernels[0].gluon_text == ""
