"""Products whose warps have roles: their text, what is compiled of it, and where it stays plain."""

import re
from dataclasses import replace

import pytest
import torch
from torch import nn

from aotpack.ir.kernels.tiles import MatmulTile
from aotpack.precompile.request import Request
from aotpack.precompile.worker import compile_request
from aotpack.stages import KernelSource
from aotpack.target import Target

from .test_descriptors import HOPPER, Form, half, on_tile

TILE = MatmulTile(64, 64, 64, 4, 3, descriptors=True, roles=True)


def kernel(form: Form, *args: torch.Tensor, tile: MatmulTile = TILE) -> KernelSource:
    (made,) = on_tile(form, args, tile).kernels
    return made


def gelu(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return nn.functional.gelu(x @ y.t() + y[0, :192])


def test_one_warp_requests_and_the_others_multiply(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Blocks of 128 and 64 columns side by side; the launch has the warps of both roles."""
    source = kernel(gelu, half(100, 256), half(192, 256), tile=replace(TILE, n=192))
    assert source.gluon_text.count("request(") == 3
    request = Request.of(source, HOPPER)
    binary = compile_request(request)
    assert binary.num_warps == 8 and binary.spills == 0 and binary.global_scratch == 0
    assert binary.maps.count("box") == 3
    request.check(binary)
    with pytest.raises(ValueError, match="warps"):
        replace(request, gluon_text="").check(binary)


def test_an_epilogue_without_a_layout_is_compiled_from_the_plain_text() -> None:
    source = kernel(gelu, half(100, 256), half(192, 256))
    text = source.gluon_text.replace("tl.where", "gl.no_such_function")
    binary = compile_request(replace(Request.of(source, HOPPER), gluon_text=text))
    assert binary.num_warps == TILE.num_warps and binary.maps.count("box") == 2


def test_neighbours_are_stored_together_unless_data_say_where() -> None:
    text = kernel(gelu, half(100, 256), half(192, 256)).gluon_text
    (store,) = re.findall(r"tl\.store\(.*", text)
    assert "n_stored" in store and "gl.convert_layout(" in store and "mask=m_mask_stored" in store


@pytest.mark.parametrize("batch", [(), (2,)])
def test_products_of_a_batch_have_no_roles(batch: tuple[int, ...]) -> None:
    x, y = (torch.zeros(*batch, 128, 128, dtype=torch.float16) for _ in "xy")
    source = kernel(torch.matmul, x, y)
    assert bool(source.gluon_text) is not bool(batch)


def test_older_gpus_take_the_plain_text() -> None:
    source = kernel(gelu, half(100, 256), half(192, 256))
    request = Request.of(replace(source, arches=((80, 90),)), Target("cuda", 80))
    assert request.gluon_text == "" and "make_tensor_descriptor" in request.text
