"""Which few long rows stay whole, on which architectures."""

import pytest
import torch
from torch import nn
from torch.export import Dim

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.kernel import Kernel, Schedule, launches
from aotpack.ir.kernels.row_reads import row_reads
from aotpack.ir.kernels.tiles import ReductionTile
from aotpack.ir.program import Program
from aotpack.ir.symbolic.integers import Int
from aotpack.ir.values import Apply
from aotpack.pipeline import Build, BuildOptions, Source
from aotpack.render import render
from aotpack.target import parse_targets
from tests.schedule.programs import BF16, F32, Writer, apply, load, schedule_of, scheduled

VOCABULARY = 128_256
TARGETS = parse_targets(["sm_80", "sm_90", "sm_120", "cpu"])


class Softmax(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.softmax(1)


class Normed(nn.Module):
    def __init__(self, length: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(length, dtype=torch.bfloat16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x)  # type: ignore[no-any-return]


class Chosen(nn.Module):
    """The softmax is inside a branch."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        other = lambda y: y * 2  # noqa: E731
        return torch.cond(x[0, 0] > 0, lambda y: y.softmax(1), other, (x,))  # type: ignore[no-any-return]


def is_held(schedule: Schedule) -> bool:
    """True when all is done in one launch."""
    return len(launches(schedule.kernels)) == 1


def softmax(rows: int, length: int, dtype: DType = BF16) -> Schedule:
    """By hand: its tensors are large."""
    w = Writer()
    x = w.input("x", rows, length, dtype=dtype)
    top = w.reduction("top", [rows], [length], lambda i, r: load(x, i, r), kind="max")

    def share(i: Int, r: Int) -> Apply:
        return apply("exp", apply("sub", load(x, i, r), load(top, i)))

    total = w.reduction("total", [rows], [length], share)
    value = lambda i, r: apply("div", share(i, r), load(total, i))  # noqa: E731
    return schedule_of(w.program(w.pointwise("y", [rows, length], value, dtype=dtype)), 90)


@pytest.mark.row("C:B18", "C:B20")
@pytest.mark.parametrize(
    ("rows", "length", "dtype", "held"),
    [
        (1, 65_536, BF16, True),  # parts in registers
        (48, 50_304, BF16, True),
        (100, 50_304, BF16, True),  # a program a row
        (9, VOCABULARY, BF16, True),  # in turn, from here
        (131, VOCABULARY, F32, True),
        (8, 524_288, BF16, True),
        (2, 524_288, BF16, False),  # too few of these for eight programs each
        (16, 786_432, BF16, False),  # one more than are held at once
        (8, 524_288, F32, False),  # longer than what eight hold
        (1, 786_432, F32, False),
        (4, 2**22, BF16, False),
    ],
)
def test_what_was_quicker_is_chosen(rows: int, length: int, dtype: DType, held: bool) -> None:
    assert is_held(softmax(rows, length, dtype)) is held


@pytest.mark.row("C:B16")
@pytest.mark.parametrize("rows", [1, 9, 100])
def test_rows_with_weights_are_held_too(rows: int) -> None:
    product = scheduled(Normed(VOCABULARY), torch.zeros(rows, VOCABULARY, dtype=torch.bfloat16))
    assert is_held(product.on(90)) and not is_held(product.on(80))


def test_older_gpus_and_processors_split_rows() -> None:
    product = scheduled(Softmax(), torch.zeros(9, VOCABULARY))
    assert not is_held(product.on(0)) and not is_held(product.on(80))
    assert product.on(0) is product.on(89) is product.schedule
    assert is_held(product.on(90)) and product.on(90) is product.on(120)


def test_only_measured_architectures_take_rows_in_turn() -> None:
    product = scheduled(Softmax(), torch.zeros(9, 2 * VOCABULARY, dtype=torch.bfloat16))
    assert _rings(product.on(90), 90) == [True]
    assert not is_held(product.on(100)) and not is_held(product.on(120))


def _rings(schedule: Schedule, arch: int) -> list[bool]:
    """For each variant of the only kernel on an architecture: whether rows are taken in turn."""
    (kernel,) = schedule.kernels
    tiles = [v.tile for v in kernel.variants if v.takes(arch)]
    return [tile.ring > 0 for tile in tiles if isinstance(tile, ReductionTile)]


@pytest.mark.parametrize("most", [8, 256])
def test_a_dynamic_number_of_rows(most: int) -> None:
    x = torch.zeros(4, VOCABULARY, dtype=torch.bfloat16)
    shapes = {"x": {0: Dim("b", min=1, max=most)}}
    rings = _rings(scheduled(Softmax(), x, dynamic_shapes=shapes).on(90), 90)
    assert rings == ([False] if most == 8 else [False, True])  # few have theirs in registers


def test_what_is_only_reduced_is_split_on_all() -> None:
    class Total(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.sum(1)

    product = scheduled(Total(), torch.zeros(9, VOCABULARY))
    assert not product.per_arch and len(product.schedule.kernels) == 2


def test_a_partition_is_asked_about_one_schedule() -> None:
    asked = []

    def apart(kernels: tuple[Kernel, ...], program: Program) -> list[tuple[Kernel, ...]]:
        asked.append(len(kernels))
        return [(kernel,) for kernel in kernels]

    source = Source(Softmax(), (torch.zeros(9, VOCABULARY),))
    options = BuildOptions(TARGETS, partition=apart)
    assert "if arch in" not in Build(source, options).rendered.wrapper
    assert asked == [3]


def test_a_part_of_a_branch_has_one_schedule() -> None:
    product = scheduled(Chosen(), torch.zeros(9, VOCABULARY))
    (branch,) = (k for k in product.schedule.kernels if k.control is not None)
    assert not product.per_arch and len(branch.parts[0].kernels) > 1


class Both(nn.Module):
    """Rows that parts in registers hold, and such as are held in turn only."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.softmax(1), y.softmax(1)


LONG_ROWS = torch.zeros(9, 2 * VOCABULARY, dtype=torch.bfloat16)


@pytest.mark.row("C:H15")
@pytest.mark.parametrize(
    ("module", "args", "plans", "kernels"),
    [
        (Softmax(), (torch.zeros(9, VOCABULARY),), [(90, 120)], {80: 2, 90: 1, 120: 1, 0: 3}),
        (Softmax(), (LONG_ROWS,), [(90,)], {80: 2, 90: 1, 120: 2, 0: 3}),
        (
            Both(),
            (torch.zeros(9, VOCABULARY), LONG_ROWS),
            [(90,), (120,)],
            {80: 4, 90: 2, 120: 3, 0: 6},
        ),
    ],
)
def test_a_wrapper_has_a_plan_for_each(
    module: nn.Module,
    args: tuple[torch.Tensor, ...],
    plans: list[tuple[int, ...]],
    kernels: dict[int, int],
) -> None:
    product = render(scheduled(module, *args), TARGETS)
    assert product.wrapper.count("return Plan(") == len(plans) + 1
    for arches in plans:
        assert f"if arch in {arches}:" in product.wrapper
    assert all(kernel.name in product.wrapper for kernel in product.kernels)
    assert kernels == {
        target.arch: sum(kernel.is_for(target.arch) for kernel in product.kernels)
        for target in TARGETS
    }


def test_a_wrapper_for_one_has_one_plan() -> None:
    product = render(scheduled(Softmax(), torch.zeros(9, VOCABULARY)), parse_targets(["sm_90"]))
    assert "if arch" not in product.wrapper and len(product.kernels) == 1


@pytest.mark.parametrize(
    ("names", "shown", "launched"),
    [("sm_80,cpu", 1, 2), ("sm_90", 1, 1), ("sm_90,sm_120", 1, 1), ("sm_80,sm_90", 2, 2)],
)
def test_targets_have_no_schedules_of_others(names: str, shown: int, launched: int) -> None:
    product = scheduled(Softmax(), torch.zeros(9, VOCABULARY), targets=parse_targets(names))
    assert len(product.schedules) == shown
    assert len(launches(product.schedule.kernels)) == launched


def test_all_schedules_are_shown() -> None:
    text = scheduled(Softmax(), torch.zeros(9, VOCABULARY)).as_text()
    assert "# on sm_90 to later ones\nkernel" in text and "# on all others\nkernel" in text
    assert "# on" not in scheduled(Softmax(), torch.zeros(9, 128)).as_text()


def test_the_only_row_is_read_as_one_stream() -> None:
    """A flattened tensor, by its place in the row and by row and column."""

    class Peaked(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x / (1 + x.abs().amax())

    schedule = scheduled(Peaked(), torch.zeros(5, 34_816)).on(90)
    (kernel,) = schedule.kernels
    found = row_reads(kernel, schedule.strides, schedule.program.buffers)
    assert _rings(schedule, 90) == [True]
    assert found is not None and len(found.streams) == 1
