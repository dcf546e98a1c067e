"""Loop operations: what the table of kinds says on small and odd sizes, and what is refused."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from aotpack.devices import H200
from aotpack.errors import TraceError, UnsupportedError
from aotpack.ir.dtypes import DType
from aotpack.ir.interpret.evaluate import evaluate
from aotpack.ir.kernels.access import delinearize
from aotpack.ir.kernels.tiles import HostTile, ReductionTile
from aotpack.ir.operations import Reduction
from aotpack.ir.ops.monoids import MONOIDS
from aotpack.ir.program import Program
from aotpack.ir.symbolic.integers import Axis, Int
from aotpack.ir.verify.program import verify
from aotpack.schedule.program.split.split_reduction import split_reductions
from aotpack.trace import trace
from tests.e2e.models import Function
from tests.lower.oracle import Case, case, floats, ints
from tests.schedule.programs import BF16, F32, Writer, apply, load, schedule_of, scheduled

NONE, ONE, SCALAR = floats(3, 0), floats(3, 1), torch.tensor(2.5)
BOOLS = torch.tensor([[True], [False]])


@pytest.mark.row("S:A7")
def test_an_axis_of_one_element_has_the_index_zero() -> None:
    axes = tuple(Axis(name, Int.of(size)) for name, size in (("i", 4), ("one", 1), ("j", 3)))
    found = delinearize(axes, Int.of(Axis("x", Int.of(12))))
    assert str(found[axes[1]]) == "0"
    assert [str(found[axes[0]]), str(found[axes[2]])] == ["(x//3)", "(x%3)"]


@pytest.mark.parametrize(
    "case",
    [
        *(
            pytest.param(case(op, NONE, [1]), marks=pytest.mark.row("S:B6", "S:inv30"))
            for op in ("sum.dim_IntList", "mean.dim", "logsumexp.default", "any.dims", "all.dims")
        ),
        pytest.param(case("prod.dim_int", NONE, 1), marks=pytest.mark.row("S:B6")),
        pytest.param(
            case("sum.dim_IntList", ints(3, 0).int(), [1]), marks=pytest.mark.row("S:T1", "S:inv30")
        ),
        pytest.param(case("prod.dim_int", ints(0, 2).int(), 0), marks=pytest.mark.row("S:T1")),
        pytest.param(case("sum.default", BOOLS[:0]), marks=pytest.mark.row("S:T1")),
        *(
            pytest.param(case(op, ONE, [1]), marks=pytest.mark.row("S:B7", "S:inv30"))
            for op in ("sum.dim_IntList", "mean.dim", "amax.default", "amin.default", "any.dims")
        ),
        *(
            pytest.param(case(op, ONE, 1), marks=pytest.mark.row("S:B7", "S:inv30"))
            for op in ("argmax.default", "argmin.default", "max.dim", "prod.dim_int")
        ),
        pytest.param(case("softmax.int", ONE, 1), marks=pytest.mark.row("S:B7")),
        pytest.param(
            case("var_mean.correction", ONE, [1], correction=0), marks=pytest.mark.row("S:B17")
        ),
        pytest.param(case("var_mean.correction", NONE, [1]), marks=pytest.mark.row("S:B17")),
        *(
            pytest.param(case(op, SCALAR, 0), marks=pytest.mark.row("S:B19", "S:inv31"))
            for op in ("cumsum.default", "cummax.default", "logcumsumexp.default")
        ),
        pytest.param(case("cumsum.default", ONE, 1), marks=pytest.mark.row("S:B19", "S:inv31")),
        pytest.param(case("cummin.default", NONE, 1), marks=pytest.mark.row("S:B19", "S:inv31")),
        pytest.param(case("sum.dim_IntList", floats(0, 4), [1]), marks=pytest.mark.row("S:inv30")),
        pytest.param(
            case("add.Tensor", floats(2, 0), SCALAR), marks=pytest.mark.row("S:A14", "S:L3")
        ),
        pytest.param(case("add.Tensor", floats(2, 3), SCALAR), marks=pytest.mark.row("S:L3")),
        pytest.param(
            case("cat.default", [floats(0, 3), floats(2, 3)]), marks=pytest.mark.row("S:A14")
        ),
    ],
    ids=str,
)
def test_rows_of_none_and_of_one(case: Case) -> None:
    case.check()


@pytest.mark.row("S:B6")
def test_the_largest_of_nothing_is_refused() -> None:
    module = Function(lambda x: x.amax(0), 1)
    with pytest.raises(TraceError, match="zero-size dimension"):
        trace(module, (floats(0, 3),), {}, name="m", version="1")


def tile_of(program: Program) -> ReductionTile:
    (kernel,) = schedule_of(program).kernels
    (tile,) = {v.tile for v in kernel.variants if not isinstance(v.tile, HostTile)}
    assert isinstance(tile, ReductionTile)
    return tile


@pytest.mark.row("S:B8")
@pytest.mark.parametrize("length", [2, 3, 4, 7, 8])
def test_short_rows_fill_a_block_without_a_loop(length: int) -> None:
    """Instead of unrolling: many rows a program, all lanes busy but those up to a power of two."""
    tile = tile_of(sums(8192, length))
    assert tile.persistent and tile.r < 2 * length and tile.x * tile.r >= 512


def sums(count: int, length: int, kind: str = "sum", dtype: DType = F32) -> Program:
    w = Writer()
    x = w.input("x", count, length, dtype=dtype)
    row = [count], [length], lambda i, r: load(x, i, r)
    return w.program(w.reduction("y", *row, kind=kind, dtype=dtype))


def parts(program: Program) -> int:
    first = split_reductions(program, H200).operations[0]
    assert isinstance(first, Reduction)
    return int(first.axes[0].extent) if first.axes[0].name == "part" else 1


@pytest.mark.row("S:B9", "S:B10", "C:B20")
@pytest.mark.parametrize(
    ("count", "length", "expected"),
    [
        (4, 2**20, 64),  # four rows feed four programs: parts of the longest row in registers
        (1, 2**20, 256),
        (1, 2**24, 512),
        (131, 2**14, 1),  # parts would be shorter than a row in registers
        (132, 2**20, 1),  # one row a multiprocessor
        (4, 2**17, 8),
        (4, 2**15, 1),  # too little work for a second launch
        (1, 3 * 2**20, 512),
        (4, 2**20 + 7, 64),  # a prime has no equal parts: the last is shorter
    ],
)
def test_few_long_rows_are_split_into_parts_that_fill_the_machine(
    count: int, length: int, expected: int
) -> None:
    assert parts(sums(count, length)) == expected


@pytest.mark.row("S:B12", "S:inv28")
@pytest.mark.parametrize("dtype", [BF16, DType.FLOAT16])
def test_partial_results_of_16_bit_rows_are_float32(dtype: DType) -> None:
    split = split_reductions(sums(4, 2**20, dtype=dtype), H200)
    verify(split)
    assert split.buffers["y_part"].dtype is F32


@pytest.mark.row("S:B14")
def test_the_second_stage_is_tiled_by_its_own_accesses() -> None:
    """Its results lie side by side: a block takes several of them, not one row each."""
    made = schedule_of(sums(64, 2**18))
    others = [tile for variant in made.kernels[-1].variants for tile in variant.others]
    tiles = [tile for tile in others if isinstance(tile, ReductionTile)]  # in a launch of its own
    assert tiles and all(tile.persistent and tile.x >= 8 for tile in tiles)


SPLIT_KINDS = ("sum", "max", "min", "logsumexp", "welford")


@pytest.mark.row("S:B12", "S:B18", "S:inv27", "C:G11")
@pytest.mark.parametrize("kind", SPLIT_KINDS)
def test_two_stages_agree_with_one(kind: str) -> None:
    whole = moments(3, 60) if kind == "welford" else sums(3, 60, kind)
    split = split_reductions(whole, replace(H200, registers=16, launch=0.0))
    verify(split)
    assert len(split.operations) > len(whole.operations)
    x = np.random.default_rng(0).normal(1000, 1, (3, 60)).astype(np.float32)
    one, two = (evaluate(program, {"x": x}, {}, {}) for program in (whole, split))
    for name in whole.outputs:
        np.testing.assert_allclose(one[name], two[name], rtol=1e-4)


def moments(count: int, length: int) -> Program:
    w = Writer()
    x = w.input("x", count, length)
    w.reduction("mean", [count], [length], lambda i, r: load(x, i, r), kind="welford")
    squares = w.buffer("m2", [count])
    reduction = w.operations.pop()
    assert isinstance(reduction, Reduction)
    w.operations.append(Reduction(("mean", "m2"), *_parts_of(reduction)))
    return w.program(w.buffers["mean"], squares)


def _parts_of(reduction: Reduction) -> tuple[object, ...]:
    return reduction.axes, reduction.inner, reduction.kind, reduction.args


@pytest.mark.row("S:B3", "S:B15")
def test_a_kind_has_as_many_results_as_its_monoid_says() -> None:
    results = {name: monoid.outputs for name, monoid in MONOIDS.items()}
    assert [results[name] for name in ("sum", "argmax", "cummax", "welford", "softmax")] == [
        1, 1, 2, 2, 2,
    ]  # fmt: skip
    made = schedule_of(moments(8, 64))
    (kernel,) = made.kernels
    assert kernel.stored == ("mean", "m2") and kernel.reads == ("x",)


@pytest.mark.row("S:B16", "S:B17", "C:G9", "C:inv20")
def test_moments_far_from_zero_keep_their_digits() -> None:
    x = np.random.default_rng(0).normal(1e4, 1, (4, 1000)).astype(np.float32)
    found = evaluate(moments(4, 1000), {"x": x}, {}, {})
    wide = x.astype(np.float64)
    np.testing.assert_allclose(found["m2"] / 1000, wide.var(1), rtol=1e-3)
    constant = np.full((4, 1000), 1e4, np.float32)
    assert not evaluate(moments(4, 1000), {"x": constant}, {}, {})["m2"].any()


@pytest.mark.row("S:B20")
def test_a_row_too_long_for_registers_is_scanned_in_a_loop() -> None:
    """Where rows fill the machine: one program carries the state from block to block."""
    made = scheduled(Function(lambda x: x.cumsum(1), 1), torch.zeros(300, 2**15)).schedule
    (kernel,) = made.kernels
    tiles = [v.tile for v in kernel.variants if isinstance(v.tile, ReductionTile)]
    assert tiles and not any(tile.persistent for tile in tiles)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case("as_strided.default", ONE, [2], [1]), marks=pytest.mark.row("S:C8")),
        pytest.param(case("frexp.Tensor", floats(3)), marks=pytest.mark.row("C:E18")),
        pytest.param(
            case("bucketize.Tensor", floats(3), torch.ones(2)), marks=pytest.mark.row("C:F16")
        ),
        pytest.param(case("special_bessel_j0.default", floats(3)), marks=pytest.mark.row("C:E27")),
    ],
    ids=str,
)
def test_rare_operators_have_a_form(case: Case) -> None:
    case.check()


REFUSED = [
    pytest.param(
        lambda x: x.view(torch.bool),
        "reading float32 bytes as bool",
        marks=pytest.mark.row("S:C9", "C:E20", "C:def4"),
    ),
    pytest.param(
        lambda x: torch.cond(x.sum() > 0, lambda x: x[x > 0].sum(), lambda x: x.sum(), (x,)),
        r"a size .u\d+. depends on the data",
        marks=pytest.mark.row("S:inv14"),
    ),
    pytest.param(
        lambda x: torch.zeros(int(x.argmax())) + 1,
        r"a Python value in forward is data-dependent: the integer u\d+",
        marks=pytest.mark.row("S:L8"),
    ),
    pytest.param(
        lambda x: [torch.ops.aten._print("here"), x * 2][1],
        "aten._print.default.*script objects and effect tokens cannot",
        marks=pytest.mark.row("S:I5", "S:I6"),
    ),
    pytest.param(
        lambda x: torch.special.hermite_polynomial_h(x, x),
        "hermite_polynomial_h.*its degree is a tensor",
        marks=pytest.mark.row("S:H12"),
    ),
    pytest.param(
        lambda x: x.to(torch.float8_e8m0fnu).float(),
        "float8_e8m0fnu; accepted are",
        marks=pytest.mark.row("C:D6", "C:D7"),
    ),
]


@pytest.mark.row("C:E26")
def test_assembly_is_refused() -> None:
    module = pytest.importorskip("torch._higher_order_ops.inline_asm_elementwise")

    def absolute(x: torch.Tensor) -> torch.Tensor:
        assembly = module.inline_asm_elementwise
        return assembly(x, asm_str="abs.f32 $0, $1;", constraints="=f,f", dtype=x.dtype)

    with pytest.raises(UnsupportedError, match="assembly is for one kind of GPU"):
        scheduled(Function(absolute, 1), floats(3, 2))


@pytest.mark.parametrize(("function", "reason"), REFUSED)
def test_what_has_no_form_here_is_refused(function: Callable[..., Any], reason: str) -> None:
    with pytest.raises((UnsupportedError, TraceError), match=reason):
        scheduled(Function(function, 1), floats(3, 2))


@pytest.mark.row("S:A16", "S:E5")
def test_what_reads_nothing_is_recomputed_by_each_reader() -> None:
    """Constants and positions have no memory, however many kernels use them."""

    def forward(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        steps = torch.arange(8).float().exp() * torch.full((8,), 0.5)
        return x @ x.t() + steps[:6], (x * steps).sum(0), x.t().contiguous() - steps[:, None]

    made = scheduled(Function(forward, 1), torch.zeros(6, 8)).schedule
    assert made.lifetimes == ()
    assert {name for kernel in made.kernels for name in kernel.reads} == {"x"}


@pytest.mark.row("S:K9", "S:M1")
def test_a_sum_of_products_reads_each_operand_once() -> None:
    w = Writer()
    x = w.input("x", 8)
    y = w.pointwise(
        "y", [8], lambda i: apply("add", load(x, i), apply("mul", load(x, i), load(x, i)))
    )
    (kernel,) = schedule_of(w.program(y)).kernels
    assert kernel.reads == ("x",)
