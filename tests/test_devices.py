"""The device model: a row is all that a GPU needs, and thresholds are expressions of rows."""

import ast
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from aotpack.devices import GPUS, H200, Gpu, first_with_clusters, of_l2, rounded_down
from aotpack.early_start import FIRST_ARCH, MOST_PROGRAMS
from aotpack.ir.kernels.kernel import Kernel, gpu_variants, launches
from aotpack.ir.kernels.tiles import MatmulTile, PointwiseTile, ReductionTile, Tile, Tile2D
from aotpack.ir.operations import Matmul
from aotpack.ir.program import Program
from aotpack.target import SUPPORTED_ARCHES
from tests.e2e.models import Function
from tests.schedule.programs import BF16, Writer, apply, load, schedule_of, scheduled

ROOT = Path(__file__).parents[1]
LONG = rounded_down(H200.read_rate * H200.launch / 2)
# Figures of no GPU that there is.
MADE_UP = Gpu(
    name="made up",
    arch=90,
    multiprocessors=40,
    threads=1024,
    registers=16_384,
    shared=64 * 1024,
    l2=2_000_000,
    bandwidth=1e12,
    arithmetic=1e14,
    largest_cluster=8,
    clusters=((2, 20), (4, 10), (8, 5)),
)


def sums(rows: int, length: int) -> Program:
    w = Writer(())
    x = w.input("x", rows, length)
    return w.program(w.reduction("y", [rows], [length], lambda i, r: load(x, i, r)))


def maps(points: int) -> Program:
    """Two results that have nothing in common."""
    w = Writer(())
    for name in "xy":
        read = w.input(name, points)
        w.pointwise(f"{name}_exp", [points], lambda i, x=read: apply("exp", load(x, i)))  # type: ignore[misc]
    return w.program(w.buffers["x_exp"], w.buffers["y_exp"])


def shares(rows: int, length: int) -> Program:
    """Each element's share of its row's sum."""
    w = Writer(())
    x = w.input("x", rows, length)
    total = w.reduction("s", [rows], [length], lambda i, r: load(x, i, r))
    return w.program(
        w.pointwise("y", [rows, length], lambda i, j: apply("div", load(x, i, j), load(total, i)))
    )


def first_tile(kernel: Kernel, arch: int = 90) -> Tile:
    return next(v.tile for v in gpu_variants(kernel) if v.takes(arch))


def is_split(gpu: Gpu, rows: int, length: int = 2**20) -> bool:
    return len(schedule_of(sums(rows, length), 90, gpu).kernels) > 1


def is_in_registers(gpu: Gpu, length: int) -> bool:
    (kernel,) = schedule_of(shares(4, length), 80, gpu).kernels
    tile = first_tile(kernel, 80)
    return isinstance(tile, ReductionTile) and tile.persistent


def share_a_launch(gpu: Gpu, points: int) -> bool:
    return len(launches(schedule_of(maps(points), 90, gpu).kernels)) == 1


def has_small_blocks(gpu: Gpu, points: int) -> bool:
    tile = first_tile(schedule_of(maps(points), 90, gpu).kernels[0])
    return isinstance(tile, PointwiseTile) and tile.x < 1024


def has_lines_one_by_one(gpu: Gpu, columns: int) -> bool:
    module = Function(lambda x, y: x + y.t(), 2)
    made = scheduled(module, torch.zeros(64, columns), torch.zeros(columns, 64), gpu=gpu)
    (kernel,) = made.schedule.kernels
    tile = first_tile(kernel)
    return isinstance(tile, Tile2D) and tile.band == 1


def is_whole(gpu: Gpu, rows: int) -> bool:
    """Rows as long as a program reads in the time of a launch."""
    return not is_split(gpu, rows, LONG)


@pytest.mark.parametrize("gpu", [H200, MADE_UP], ids=lambda gpu: gpu.name)
@pytest.mark.parametrize(
    ("holds", "last", "beyond"),
    [
        (is_split, lambda gpu: gpu.multiprocessors - 1, 1),
        (is_in_registers, lambda gpu: gpu.registers // 4, 1),
        (share_a_launch, lambda gpu: gpu.multiprocessors * gpu.threads, 1),
        (has_small_blocks, lambda gpu: gpu.multiprocessors * gpu.threads, 1),
        (has_lines_one_by_one, lambda gpu: gpu.l2 // 2 // (3 * 4 * 64), 16),
        (is_whole, lambda gpu: gpu.launch_bytes // 4 // LONG - 1, 1),
    ],
    ids=["rows", "registers", "launches", "blocks", "l2", "launch"],
)
def test_a_threshold_is_where_a_row_of_the_table_puts_it(
    holds: Callable[[Gpu, int], bool], last: Callable[[Gpu], int], beyond: int, gpu: Gpu
) -> None:
    assert holds(gpu, last(gpu))
    assert not holds(gpu, last(gpu) + beyond)


@pytest.mark.parametrize("gpu", [H200, MADE_UP], ids=lambda gpu: gpu.name)
def test_programs_of_long_rows_are_those_that_run_at_once(gpu: Gpu) -> None:
    (kernel,) = schedule_of(shares(1000, 24_576), 90, replace(gpu, l2=0)).kernels
    tile = first_tile(kernel)
    assert isinstance(tile, ReductionTile) and tile.ring
    assert tile.resident % dict(gpu.clusters)[tile.cluster_size] == 0
    uncounted = replace(gpu, l2=0, clusters=())
    (kernel,) = schedule_of(shares(1000, 24_576), 90, uncounted).kernels
    assert not any(isinstance(v.tile, ReductionTile) and v.tile.ring for v in kernel.variants)


def product_tile(gpu: Gpu) -> Tile:
    """Of a long sum on an architecture, as a GPU of it has them."""
    w = Writer(())
    x, y = (w.input(name, 4096, 4096, dtype=BF16) for name in "xy")
    z = w.matmul("z", 4096, 4096, 4096, x, y)
    (operation,) = w.operations
    assert isinstance(operation, Matmul)
    w.operations[0] = replace(operation, operand=BF16)
    (kernel,) = schedule_of(w.program(z), 90, gpu).kernels
    return first_tile(kernel)


def test_a_product_has_a_program_for_each_multiprocessor_of_its_gpu() -> None:
    for count in (H200.multiprocessors, 148):
        tile = product_tile(replace(H200, multiprocessors=count))
        assert isinstance(tile, MatmulTile) and tile.descriptors and tile.most_programs == count
    tile = product_tile(MADE_UP)
    assert isinstance(tile, MatmulTile) and not tile.descriptors and not tile.most_programs


def test_a_gpu_says_nothing_of_the_products_of_other_architectures() -> None:
    old = replace(MADE_UP, arch=80)
    assert product_tile(old) == product_tile(H200)


def test_attention_fits_the_shared_memory_of_its_gpu() -> None:
    attend = Function(torch.nn.functional.scaled_dot_product_attention, 3)
    args = [torch.zeros(1, 2, 256, 128) for _ in range(3)]

    def tiles(gpu: Gpu) -> set[Tile]:
        made = scheduled(attend, *args, gpu=gpu).schedule
        return {first_tile(kernel) for kernel in made.kernels if kernel.template_op}

    assert tiles(H200) != tiles(replace(H200, shared=64 * 1024))


def test_the_reference_has_the_limits_that_were_measured() -> None:
    """What is computed from figures is what the measurements gave (decisions 012 and 019)."""
    assert (H200.threads_at_once, H200.longest_row) == (264 * 1024, 16_384)
    assert (H200.launch_bytes, of_l2(300 * 1024, H200)) == (4 << 20, 300 * 1024)
    assert (first_with_clusters(), FIRST_ARCH, MOST_PROGRAMS) == (90, 90, 1024)


def test_every_target_has_a_row() -> None:
    assert tuple(GPUS) == SUPPORTED_ARCHES
    for arch, gpu in GPUS.items():
        assert gpu.arch == arch and gpu.largest_cluster >= max(dict(gpu.clusters), default=1)
        assert gpu.shared < gpu.l2 < gpu.bandwidth < gpu.arithmetic


@pytest.mark.parametrize(
    ("number", "power"), [(0.0, 0), (0.9, 0), (1, 1), (3.9, 2), (4, 4), (4.32e6, 1 << 22)]
)
def test_numbers_are_rounded_down_to_powers_of_two(number: float, power: int) -> None:
    assert rounded_down(number) == power


# --- no bare figures ------------------------------------------------------------------------------

FIGURES = {H200.l2, H200.l2 // 2, 50 << 20, 25 << 20, H200.shared, int(H200.bandwidth)}
FIGURES |= {count for _, count in H200.clusters}
FOLDERS = [ROOT / "aotpack" / name for name in ("schedule", "ir/kernels", "ir/verify")]
MODULES = [path for folder in FOLDERS for path in sorted(folder.rglob("*.py"))]
ARITHMETIC = (ast.BinOp, ast.Constant, ast.operator)


def constants(tree: ast.AST) -> Iterator[tuple[int, Any]]:
    """The line and the value of every expression of constants alone, such as 264 * 1024."""
    for node in ast.walk(tree):
        is_constant = all(isinstance(part, ARITHMETIC) for part in ast.walk(node))
        if is_constant and isinstance(node, ast.expr):
            yield node.lineno, eval(compile(ast.Expression(node), "", "eval"), {})


def figures_in(text: str) -> list[str]:
    """The H200's figures that stand in a module as numbers; multiples of its multiprocessors."""
    return [
        f"line {line}: {value}"
        for line, value in constants(ast.parse(text))
        if isinstance(value, (int, float))
        and (value in FIGURES or (value > 0 and value % H200.multiprocessors == 0))
    ]


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_modules_have_no_figures_of_a_gpu(path: Path) -> None:
    assert figures_in(path.read_text()) == []


@pytest.mark.parametrize(
    "line",
    [
        "ENOUGH = 132",
        "MOST = 264 * 1024",
        "rows <= 2112",
        "HALF_L2 = 25 * 10**6",
        "L2 = 50 << 20",
        "if f(1056) < n: pass",
        "CLUSTERS = {2: 66, 4: 28}",
        "rate = 4.8e12",
        "left = 232_448 - x",
    ],
)
def test_a_figure_of_a_gpu_is_found(line: str) -> None:
    assert figures_in(f"x = 128\n{line}\n")[0].startswith("line 2: ")
