"""Cheap arithmetic on given tensors enters the loads of a product; other factors are stored."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from aotpack.ir.operations import Matmul
from aotpack.ir.symbolic.integers import Int, product
from aotpack.lower import lower
from aotpack.schedule.program.insert_copies import insert_copies
from aotpack.schedule.program.prologue import widen_in_products
from aotpack.trace import trace
from tests.e2e.law import Tolerance
from tests.e2e.models import Function
from tests.e2e.oracle import agree, compile_all
from tests.schedule.programs import scheduled

SHAPES = ((20, 40), (40, 24))
CODES = torch.arange(-20, 20, dtype=torch.int8)


def dequantised(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """A product with weights of 8 bits and a scale for each column."""
    codes = (CODES[:, None] + torch.arange(24, dtype=torch.int8)).to(torch.int8)
    return x @ (codes.to(torch.float32) * y[0])


def output_too(x: torch.Tensor, y: torch.Tensor) -> Any:
    twice = x * 2
    return twice @ y, twice


def both_factors(x: torch.Tensor, y: torch.Tensor) -> Any:
    twice = x * 2
    return twice @ twice.T


@pytest.mark.row("S:M7")
@pytest.mark.parametrize(
    ("function", "dtype"),
    [
        (dequantised, torch.float32),
        (lambda x, y: (x * 2 + 1) @ y, torch.float32),
        (lambda x, y: x @ (y.relu() - 0.5), torch.float32),
        (lambda x, y: (x.abs() + 3) @ (y * y), torch.bfloat16),
        (lambda x, y: (x * 0.3) @ y, torch.float16),
        (lambda x, y: (y.T * 0.5) @ x.T, torch.float32),
        (lambda x, y: (x.view(2, 10, 40) * 2) @ y, torch.float32),
    ],
)
def test_arithmetic_enters_the_loads(function: Callable[..., Any], dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    args = tuple(torch.randn(shape).to(dtype) for shape in SHAPES)
    compiled = compile_all(Function(function, 2), args)
    (kernel,) = compiled.scheduled.schedule.kernels
    assert kernel.template_op is not None and not compiled.scheduled.schedule.lifetimes
    agree(compiled, args, tolerance=Tolerance(floor=1.0))


@pytest.mark.row("S:M7")
@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (lambda x, y: x.exp() @ y, SHAPES),  # not cheap
        (lambda x, y: (x * 2) @ y, ((20, 40), (40, 300))),  # loaded for many tiles
        (lambda x, y: (x[0] * 2 + y.T) @ x.T, ((20, 40), (40, 24))),  # twice what it makes
        (output_too, SHAPES),
        (both_factors, SHAPES),
        (lambda x, y: (x - x.amax(1, keepdim=True)) @ y, SHAPES),  # a kernel takes it in
        (lambda x, y: torch.constant_pad_nd(x, (0, 0, 1, 1)) @ y, SHAPES),
    ],
)
def test_other_factors_are_stored(
    function: Callable[..., Any], shapes: tuple[tuple[int, int], ...]
) -> None:
    made = scheduled(Function(function, 2), *map(torch.zeros, shapes)).schedule
    assert [kernel.template_op is None for kernel in made.kernels] == [True, False], made


@pytest.mark.row("S:M7")
def test_windows_would_compute_an_element_often() -> None:
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3))
    made = scheduled(Function(lambda x: model(x * 2), 1), torch.zeros(1, 3, 8, 8)).schedule
    assert len(made.kernels) == 2


class Paged(torch.nn.Module):
    """Attention of one query to keys in pages, which a table names for each sequence."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        pages = (torch.randn(9, 4, 2, 16) * 2).to(dtype)  # pages, keys, heads, elements
        self.register_buffer("keys", pages)
        self.register_buffer("values", pages.flip(0).clone())

    def forward(self, query: torch.Tensor, table: torch.Tensor, length: torch.Tensor) -> Any:
        dtype = query.dtype
        keys, values = (
            pages[table].to(dtype).flatten(1, 2).transpose(1, 2) * 0.5
            for pages in (self.keys, self.values)
        )
        mask = torch.arange(keys.shape[2])[None, :] < length[:, None]
        return torch.nn.functional.scaled_dot_product_attention(
            query, keys, values, attn_mask=mask[:, None, None], enable_gqa=True
        )


@pytest.mark.parametrize(
    ("stored", "queries", "kernels"),
    [
        (torch.bfloat16, 1, 1),
        (torch.int8, 1, 1),
        (torch.float8_e4m3fn, 1, 1),
        (torch.int8, 3, 1),
        (torch.int8, 40, 2),  # each key would be converted for many queries
    ],
    ids=str,
)
def test_keys_of_few_queries_are_gathered_and_converted_where_they_are_read(
    stored: torch.dtype, queries: int, kernels: int
) -> None:
    torch.manual_seed(0)
    query = torch.randn(3, 4, queries, 16).bfloat16()
    table = torch.tensor([[1, 8, 0], [3, 3, -1], [2, 4, 5]])
    args = query, table, torch.tensor([12, 5, 0])  # all keys, some, none
    compiled = compile_all(Paged(stored), args)
    gpu = compiled.scheduled.schedule
    assert sum(not kernel.shares_launch for kernel in gpu.kernels) == kernels
    agree(compiled, args, programs=stored.itemsize == 2 or not stored.is_floating_point)


def shared_heads(keys: torch.Tensor) -> torch.Tensor:
    """Keys of two heads, each for four heads of queries."""
    rows = len(keys)
    return keys[:, :, None].expand(rows, 2, 4, 24, 16).reshape(rows, 8, 24, 16)


@pytest.mark.row("S:M7")
@pytest.mark.parametrize(
    ("keys_of", "stored"),
    [
        (lambda store, rows: store[rows], None),
        (lambda store, rows: shared_heads(store[rows]), None),
        (lambda store, rows: store[:2, :, rows.repeat(12)], 2 * 2 * 24 * 16),
        (lambda store, rows: shared_heads(store[:2, :, rows.repeat(12)]), 2 * 2 * 24 * 16),
        (lambda store, rows: shared_heads(store[rows] * 2), 2 * 2 * 24 * 16),
    ],
    ids=["a place", "a place, shared", "each key", "each key, shared", "computed"],
)
def test_keys_of_many_queries_are_read_in_a_place_or_stored_once(
    keys_of: Callable[..., torch.Tensor], stored: int | None
) -> None:
    """A place in a cache is read there; other keys are stored before heads share them."""

    def attend(q: torch.Tensor, store: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        keys = keys_of(store, rows)
        return F.scaled_dot_product_attention(q, keys, keys, enable_gqa=True)

    torch.manual_seed(0)
    args = (torch.randn(2, 8, 20, 16), torch.randn(3, 2, 24, 16), torch.tensor([2, -3]))
    compiled = compile_all(Function(attend, 3), args)
    schedule = compiled.scheduled.schedule
    kept = [schedule.program.buffers[one.buffer] for one in schedule.lifetimes]
    assert [product(one.shape) for one in kept] == [Int.of(stored)] * (stored is not None)
    agree(compiled, args, tolerance=Tolerance(floor=1.0))


def test_a_long_chain_before_a_product_is_not_multiplied() -> None:
    """Each step reads two elements of the one before: 2 ** 40 of the first."""

    def chain(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        for _ in range(40):
            y = y.roll(1, 0) * 0.5 + y * 0.5
        return x @ y

    args = tuple(torch.randn(shape) for shape in SHAPES)
    program = scheduled(Function(chain, 2), *args).schedule.program
    assert any(isinstance(one, Matmul) for one in program.operations)
    traced = trace(Function(lambda x: chain(x, args[1]), 1), args[:1], name="test", version="1")
    whole = insert_copies(lower(traced).program)
    assert len(whole.weights) == 1 and widen_in_products(whole) is whole
