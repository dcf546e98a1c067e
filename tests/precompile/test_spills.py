"""Memory-bound kernels at their default tiles keep everything in registers (C: inv. 26).

Sizes are those of the goals (DESIGN 6), written without data: the binaries' own headers are read.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from aotpack.emit.manifest import manifest_text
from aotpack.emit.names import Identity
from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.tiles import ReductionTile
from aotpack.ir.program import Buffer, Program
from aotpack.ir.symbolic.integers import Int
from aotpack.ir.values import Load, Value
from aotpack.precompile import precompile
from aotpack.precompile.request import Request
from aotpack.precompile.spills import SPILL_LIMIT, settle
from aotpack.render import render
from aotpack.schedule import schedule
from aotpack.stages import Binary, KernelSource, Precompiled, Rendered
from aotpack.target import Target
from tests.precompile.kernels import kernel
from tests.schedule.programs import BF16, F32, I64, Writer, apply, load, lowered

TARGETS = [Target("cuda", arch) for arch in (80, 90, 120)]
ROWS = 4096
HOPPER = Target("cuda", 90)


def layer_norm(w: Writer, name: str, columns: int, dtype: DType) -> list[Buffer]:
    shape = (ROWS, columns)
    x = w.input(f"{name}_x", *shape, dtype=dtype)
    scale, shift = (w.weight(f"{name}_{n}", columns, dtype=dtype) for n in "ws")
    pair = (f"{name}_mean", f"{name}_squares")
    w.reductions(pair, [ROWS], [columns], lambda i, r: load(x, i, r), kind="welford")

    def value(i: Int, j: Int) -> Value:
        mean, squares = (Load(part, (i,), F32) for part in pair)
        root = apply("rsqrt", apply("add", apply("mul", squares, 1 / columns), 1e-5))
        normal = apply("mul", apply("sub", load(x, i, j), mean), root)
        return apply("add", apply("mul", normal, load(scale, j)), load(shift, j))

    return [w.pointwise(name, shape, value, dtype=dtype)]


def log_softmax(w: Writer, name: str, columns: int, dtype: DType) -> list[Buffer]:
    shape = (ROWS, columns)
    x = w.input(f"{name}_x", *shape, dtype=dtype)
    top = w.reduction(f"{name}_top", [ROWS], [columns], lambda i, r: load(x, i, r), kind="max")
    total = w.reduction(
        f"{name}_sum",
        [ROWS],
        [columns],
        lambda i, r: apply("exp", apply("sub", load(x, i, r), load(top, i))),
    )

    def value(i: Int, j: Int) -> Value:
        return apply("sub", apply("sub", load(x, i, j), load(top, i)), apply("log", load(total, i)))

    return [w.pointwise(name, shape, value, dtype=dtype)]


def bias_gelu(w: Writer, name: str, columns: int, dtype: DType) -> list[Buffer]:
    x, bias = w.input(f"{name}_x", ROWS, columns, dtype=dtype), w.weight(f"{name}_b", columns)
    shape = (ROWS, columns)

    def value(i: Int, j: Int) -> Value:
        return apply("gelu", apply("add", load(x, i, j), load(bias, j)))

    return [w.pointwise(name, shape, value, dtype=dtype)]


def totals(w: Writer, name: str, columns: int, dtype: DType) -> list[Buffer]:
    """Sums of columns, and of one long row the position of the maximum."""
    x = w.input(f"{name}_x", 4 * ROWS, columns, dtype=dtype)
    row = w.input(f"{name}_row", 1, ROWS * columns, dtype=dtype)
    return [
        w.reduction(f"{name}_sum", [columns], [4 * ROWS], lambda i, r: load(x, r, i)),
        w.reduction(
            name, [1], [ROWS * columns], lambda i, r: load(row, i, r), kind="argmax", dtype=I64
        ),
    ]


def extremes(w: Writer, name: str, columns: int, dtype: DType) -> list[Buffer]:
    """Positions in one row of many parts, and in rows of their own."""
    x = w.input(f"{name}_x", ROWS, columns, dtype=dtype)
    row = w.input(f"{name}_row", 1, ROWS * columns, dtype=dtype)

    def first(kind: str, x: Buffer, *shape: int) -> Buffer:
        (rows, length), target = shape, f"{name}_{kind}"
        return w.reduction(
            target, [rows], [length], lambda i, r: load(x, i, r), kind=kind, dtype=I64
        )

    return [first("argmax", row, 1, ROWS * columns), first("argmin", x, ROWS, columns)]


def several(w: Writer, name: str, columns: int, dtype: DType) -> list[Buffer]:
    """Many accumulators over one walk."""
    x = w.input(f"{name}_x", ROWS, columns, dtype=dtype)
    kinds = {"sum": F32, "max": F32, "argmax": I64, "argmin": I64, "logsumexp": F32}
    return [
        w.reduction(
            f"{name}_{kind}",
            [ROWS],
            [columns],
            lambda i, r: load(x, i, r),
            kind=kind,
            dtype=result,
        )
        for kind, result in kinds.items()
    ]


def down(w: Writer, name: str, columns: int, dtype: DType) -> list[Buffer]:
    """A softmax down columns of so many elements, which stay in registers."""
    shape = (16, columns, ROWS)
    x = w.input(f"{name}_x", *shape, dtype=dtype)
    outer = [16, ROWS]
    top = w.reduction(f"{name}_top", outer, [columns], lambda n, c, r: load(x, n, r, c), kind="max")

    def part(n: Int, r: Int, c: Int) -> Value:
        return apply("exp", apply("sub", load(x, n, r, c), load(top, n, c)))

    total = w.reduction(f"{name}_sum", outer, [columns], lambda n, c, r: part(n, r, c))
    return [
        w.pointwise(
            name, shape, lambda n, r, c: apply("div", part(n, r, c), load(total, n, c)), dtype=dtype
        )
    ]


PATTERNS = [
    (down, 128, BF16),
    (down, 512, BF16),
    (down, 1024, F32),
    (several, 32000, BF16),
    (layer_norm, 768, F32),
    (layer_norm, 1024, BF16),
    (layer_norm, 4096, BF16),
    (layer_norm, 5120, BF16),
    (layer_norm, 128256, BF16),
    (layer_norm, 128256, F32),
    (log_softmax, 5120, F32),
    (log_softmax, 32000, BF16),
    (log_softmax, 128256, F32),
    (bias_gelu, 4096, F32),
    (totals, 4096, BF16),
    (totals, 1024, F32),
    (extremes, 32000, DType.FLOAT64),
    (extremes, 4096, DType.INT8),
]


def program() -> Program:
    """All patterns side by side."""
    w = Writer()
    made = [
        buffer
        for pattern, columns, dtype in PATTERNS
        for buffer in pattern(w, f"{pattern.__name__}_{columns}_{dtype}", columns, dtype)
    ]
    return w.program(*made)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Precompiled:
    product = render(schedule(lowered(program())), tuple(TARGETS))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AOTPACK_CACHE", str(tmp_path_factory.mktemp("cache")))
        return precompile(product, TARGETS, jobs=2)


def test_nothing_is_spilled(compiled: Precompiled) -> None:
    spilled = [(b.target, b.kernel, b.spills) for b in compiled.binaries if b.spills]
    assert spilled == []


def test_every_pattern_is_there_for_every_target(compiled: Precompiled) -> None:
    counts = Counter(binary.target for binary in compiled.binaries)
    assert set(counts) == {str(target) for target in TARGETS}
    assert min(counts.values()) >= len(PATTERNS)


def with_tile(tile: ReductionTile) -> Rendered:
    """A row in registers, on a tile that no table would choose."""
    w = Writer()
    made = schedule(lowered(w.program(*layer_norm(w, "y", 16384, F32))))
    (kernel,) = made.schedule.kernels
    variants = tuple(
        replace(variant, tile=tile) if variant.arch_high else variant for variant in kernel.variants
    )
    kernels = (replace(kernel, variants=variants),)
    return render(replace(made, schedule=replace(made.schedule, kernels=kernels)), (HOPPER,))


@pytest.mark.row("C:inv26", "C:L5")
def test_a_tile_too_big_for_its_warps_gets_more_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AOTPACK_CACHE", str(tmp_path))
    stage = with_tile(ReductionTile(1, 16384, persistent=True, num_warps=1))
    product = precompile(stage, [HOPPER], jobs=1)
    (binary,) = product.binaries
    assert binary.num_warps > 1 and binary.spills <= SPILL_LIMIT
    warps = [one.num_warps for one in product.refused]
    assert warps == [2**n for n in range(len(warps))] and 2 * warps[-1] == binary.num_warps
    assert all(one.spills > SPILL_LIMIT for one in product.refused)
    assert f"refused with 1 warps: spills {product.refused[0].spills}" in product.as_text()
    manifest = json.loads(manifest_text(product, Identity("m", "1"), "embed", None, ""))
    (kernel,) = manifest["kernels"].values()
    assert kernel["binaries"]["sm_90"]["num_warps"] == binary.num_warps
    assert kernel["refused"]["sm_90"][0] == {"num_warps": 1, "spills": product.refused[0].spills}
    assert precompile(stage, [HOPPER], jobs=1) == product


def settled(spills: dict[int, int | None]) -> tuple[int, list[int]]:
    """The chosen number of warps and the refused ones; ``spills`` by warps, None: not compiled."""
    request = Request.of(with_warps("k", min(spills)), HOPPER)

    def compiled(some: Sequence[Request]) -> dict[Request, Binary | None]:
        return {one: form(one, spills[one.num_warps]) for one in some}

    (binary,), refused = settle([request], compiled)
    return binary.num_warps, [one.num_warps for one in refused]


def with_warps(name: str, warps: int) -> KernelSource:
    return replace(kernel(name), num_warps=warps)


def form(request: Request, spills: int | None) -> Binary | None:
    warps = request.num_warps
    if spills is None:
        return None
    return Binary(request.name, "sm_90", "", b"", "cubin", warps, 1, 0, 0, 1, 255, spills)


@pytest.mark.row("C:inv26", "C:L5")
@pytest.mark.parametrize(
    ("spills", "chosen"),
    [
        ({4: 0}, (4, [])),
        ({4: SPILL_LIMIT}, (4, [])),
        ({4: 65, 8: 0}, (8, [4])),
        ({4: 900, 8: 400, 16: 8}, (16, [4, 8])),
        ({8: 900, 16: 400, 32: 500}, (16, [8, 32])),
        ({16: 100, 32: 100}, (16, [32])),
        ({4: 900, 8: None}, (4, [])),
        ({32: 900}, (32, [])),
    ],
)
def test_the_first_number_of_warps_that_fits_is_taken(
    spills: dict[int, int | None], chosen: tuple[int, list[int]]
) -> None:
    assert settled(spills) == chosen
