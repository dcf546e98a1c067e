"""Products whose warps have roles: their text, what is compiled of it, and where it stays plain."""

import ast
import re
from dataclasses import replace
from functools import reduce
from itertools import product
from operator import mul, xor

import pytest
import torch
from torch import nn

from aotpack.ir.kernels.tiles import MatmulTile
from aotpack.precompile.request import Request
from aotpack.precompile.worker import compile_request
from aotpack.stages import KernelSource
from aotpack.target import Target

from .test_descriptors import HOPPER, Form, answer, half, on_tile

NEAR = {"rtol": 2e-3, "atol": 2e-2}
TILE = MatmulTile(64, 64, 64, 4, 3, descriptors=True, roles=True)


def kernel(form: Form, *args: torch.Tensor, tile: MatmulTile = TILE) -> KernelSource:
    (made,) = on_tile(form, args, tile).kernels
    return made


def gelu(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return nn.functional.gelu(x @ y.t() + y[:, 0])


def test_one_warp_requests_and_the_others_multiply(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Blocks of 128 and 64 columns side by side; the launch has the warps of both roles."""
    source = kernel(gelu, half(100, 256), half(192, 256), tile=replace(TILE, n=192))
    assert source.gluon_text.count("request(") == 3
    request = Request.of(source, HOPPER)
    binary = compile_request(request)
    assert binary.num_warps == 8 and binary.spills == 0 and binary.global_scratch == 0
    assert binary.maps.count("box") == 5  # of both texts; this one takes two in another order
    request.check(binary)
    with pytest.raises(ValueError, match="warps"):
        replace(request, gluon_text="").check(binary)


def test_an_epilogue_without_a_layout_is_compiled_from_the_plain_text() -> None:
    source = kernel(gelu, half(100, 256), half(192, 256))
    text = source.gluon_text.replace("tl.where", "gl.no_such_function")
    binary = compile_request(replace(Request.of(source, HOPPER), gluon_text=text))
    assert binary.num_warps == TILE.num_warps and binary.maps.count("box") == 2


def test_groups_multiply_in_turn() -> None:
    """Two roles multiply. Each lets the other begin when its last product of a tile is issued."""
    tile = replace(TILE, m=128, n=128, num_warps=8, most_programs=2, groups=2)
    form, args = gelu, (half(300, 256), half(256, 256))
    source = kernel(form, *args, tile=tile)
    sums = source.gluon_text.split("_sums(")[1]
    turn = sums.index("wait(turn.index(group)"), sums.index("arrive(turn.index(1 - group)")
    assert turn[0] < sums.index("warpgroup_mma(") < turn[1] < sums.index("warpgroup_mma_wait(0")
    request = Request.of(source, HOPPER)
    binary = compile_request(request)
    assert binary.num_warps == 12 and binary.spills == 0
    request.check(binary)
    assert "turn.index" not in kernel(form, *args, tile=replace(tile, groups=1)).gluon_text
    torch.testing.assert_close(answer(on_tile(form, args, tile), args), form(*args), **NEAR)


@pytest.mark.parametrize("count", [1, 2])
def test_what_columns_add_is_loaded_before_the_sums(count: int) -> None:
    """A bias, by one thread for each column; what rows or data choose, after them."""

    def biased(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        added = y[0, :192] + y[1, :192] if count == 2 else y[0, :192]
        return x @ y.t() + added

    def residual(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x @ y.t() + x[:, :192]

    for form, early in ((biased, count), (residual, 0)):
        text = kernel(form, half(100, 256), half(192, 256)).gluon_text
        before, after = text.split("first_step = step")
        assert before.count("= tl.load(") == early == len(re.findall(r"load\(.*n_early", before))
        assert len(re.findall(r"(t\d) = gl\.convert_layout\(\1, spread_layout\)", after)) == early


def test_a_launch_that_fills_multiprocessors_is_admitted_after_the_last_request() -> None:
    """A product with roles, or one of another call; others as a program ends."""

    def pair(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ y.t()) @ y.t()

    def rows(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x @ y.t()).softmax(-1)

    for form, early in ((gelu, 1), (pair, 1), (rows, 0)):
        first, *_ = on_tile(form, (half(128, 256), half(256, 256)), TILE).kernels
        requests, others = first.gluon_text.split("_sums(", 1)
        assert requests.count("gdc_launch_dependents()") == early
        assert others.rstrip().endswith("gdc_launch_dependents()")
        assert others.count("gdc_wait()") == others.count("gdc_launch_dependents()") == 1


def test_threads_store_neighbours() -> None:
    """Factors whose rows are columns of the product are read in the order that does it.

    Others go through shared memory, unless data say where they are stored.
    """
    text = kernel(gelu, half(100, 256), half(192, 256)).gluon_text
    (store,) = re.findall(r"tl\.store\(.*", text)
    assert "convert_layout" not in store and "rhs_tiles_spread" in text

    def as_it_lies(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return nn.functional.gelu(x @ y + y[0])

    text = kernel(as_it_lies, half(100, 192), half(192, 256)).gluon_text
    (store,) = re.findall(r"tl\.store\(.*", text)
    assert "n_stored" in store and "gl.convert_layout(" in store and "mask=m_mask_stored" in store
    assert "spread" not in text


@pytest.mark.parametrize(("columns", "wide"), [(200, 64), (192, 48)])
def test_columns_that_are_no_multiple_of_32_stay_in_order(columns: int, wide: int) -> None:
    source = kernel(gelu, half(100, 256), half(columns, 256), tile=replace(TILE, n=wide))
    assert "spread" not in source.gluon_text and source.gluon_maps == ()


@pytest.mark.parametrize(("rows", "width", "warps"), [(64, 128, 4), (128, 64, 8), (128, 32, 4)])
def test_a_thread_has_the_sums_of_neighbours(rows: int, width: int, warps: int) -> None:
    """Those that the matrix unit gives it, of a factor whose rows are in another order."""
    tile = replace(TILE, m=rows, n=width, num_warps=warps)
    source = kernel(gelu, half(rows, 256), half(width, 256), tile=tile)
    (spread,) = source.gluon_maps
    strides = [int(stride) // 256 for stride in spread.strides[:-1]]
    sides = [range(side) for side in spread.box[:-1]]
    order = [sum(map(mul, strides, place)) for place in product(*sides)]
    assert sorted(order) == list(range(width))
    bits = re.search(r"DistributedLinearLayout\((.*)\)", source.gluon_text)
    assert bits is not None
    registers, lanes, of_warps, _, shape = ast.literal_eval(f"({bits[1]},)")
    assert shape == [rows, width] and registers[:3] == [[0, 1], [0, 2], [0, 4]]
    for warp, lane in product(range(warps), range(32)):
        first = 16 * warp + lane // 4
        given = {
            (row, order[8 * group + lane % 4 * 2 + pair])
            for row in range(rows)
            if row % (16 * warps) in (first, first + 8)
            for group, pair in product(range(width // 8), range(2))
        }
        own = places(lanes, lane), places(of_warps, warp)
        held = {
            tuple(map(xor, map(xor, *own), places(registers, number)))
            for number in range(2 ** len(registers))
        }
        assert held == given


def places(bits: list[list[int]], number: int) -> tuple[int, int]:
    """The point of a thread or register: those of its bits together."""
    chosen = [bit for place, bit in enumerate(bits) if number >> place & 1]
    return reduce(xor, (row for row, _ in chosen), 0), reduce(xor, (at for _, at in chosen), 0)


@pytest.mark.parametrize("batch", [(), (2,)])
def test_products_of_a_batch_have_no_roles(batch: tuple[int, ...]) -> None:
    x, y = (torch.zeros(*batch, 128, 128, dtype=torch.float16) for _ in "xy")
    source = kernel(torch.matmul, x, y)
    assert bool(source.gluon_text) is not bool(batch)


def test_older_gpus_take_the_plain_text() -> None:
    source = kernel(gelu, half(100, 256), half(192, 256))
    request = Request.of(replace(source, arches=((80, 90),)), Target("cuda", 80))
    assert request.gluon_text == "" and "make_tensor_descriptor" in request.text
