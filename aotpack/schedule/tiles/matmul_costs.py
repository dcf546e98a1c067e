"""Costs of matmul tiles by architecture, fitted to measurements.

The model for sm_90 was fitted to medians on an H200 (27 shapes times up to 80 forms, in
docs/measurements/h200_matmul_forms.csv): a fixed time, a time for each step of k and for each wave
of tiles, and the traffic at 4.3 TB/s times a factor. Other architectures take tiles that compile
without spills within their shared memory, with scaled steps. Factors that are rectangles of memory
may be read through tensor descriptors on sm_90, and by warps with a role of their own.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from aotpack.devices import A100, B200, BLACKWELL, H200, HOPPER, LATER, RTX_PRO_6000, Gpu
from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.tiles import MAX_ARCH, WARP, MatmulTile
from aotpack.schedule.tiles.orientation import may_turn, turned

BYTES_PER_MICROSECOND = 4.3e6  # of the fit; other GPUs are scaled by their bandwidth
OPERATIONS_PER_MICROSECOND = 9e8  # of an H200 under load, whatever the tile
SHORTEST_STEP = 16  # of a matrix unit
LONG_WINDOW = 64  # elements of several steps
MOST_HELD = 768  # bytes of a thread for sums and what is added to them; more spill


@dataclass(frozen=True, slots=True)
class Cost:
    """Microseconds: fixed, a step of k, a wave of tiles; and the factor on ideal memory time.

    As many programs as run ``together`` on a multiprocessor take a step in the time of one.
    """

    tile: MatmulTile
    fixed: float
    step: float
    wave: float
    traffic: float
    together: int = 1


@dataclass(frozen=True, slots=True)
class Family:
    """A range of architectures: one GPU of them, and tiles for 16- and 32-bit factors."""

    arch_low: int
    arch_high: int
    gpu: Gpu
    half: tuple[Cost, ...]
    single: tuple[Cost, ...]
    more: tuple[MatmulTile, ...]  # candidates for 16-bit factors that the model was not fitted to
    rate: float = BYTES_PER_MICROSECOND
    speed: float = math.inf  # operations a microsecond, of all matrix units together
    windows: tuple[Cost, ...] = ()  # tiles for 16-bit windows, if they have costs of their own
    gathered: tuple[Cost, ...] = ()  # the same for float32 windows that no step keeps to

    def costs(
        self, operand: DType, fp32_precision: str, digit: int, depth: int
    ) -> tuple[Cost, ...]:
        """The tiles for factors of a type; ``digit`` is the lowest of k in windows, else 0."""
        half = self.windows if is_by_steps(digit) and self.windows else self.half
        if operand is not DType.FLOAT32:
            return half
        if fp32_precision == "tf32":
            return tuple(_with_tf32(half))
        is_gathered = digit > 0 and not is_by_steps(digit) and depth > LONG_WINDOW
        return self.gathered if is_gathered and self.gathered else self.single

    def with_room(self, added: int) -> "Family":
        """The family without tiles whose sums and ``added`` bytes exceed a thread's registers."""
        if not added:
            return self
        half, windows = (
            tuple(cost for cost in costs if _has_room(cost.tile, added))
            for costs in (self.half, self.windows)
        )
        more = tuple(tile for tile in self.more if _has_room(tile, added))
        return replace(self, half=half, windows=windows, more=more)

    def turned(self) -> "Family":
        """The family with the rows of products as columns of its tiles."""
        costs = (self.half, self.single, self.windows, self.gathered)
        half, single, windows, gathered = (tuple(_turned(one)) for one in costs)
        more = tuple(turned(tile) for tile in self.more if may_turn(tile))
        return replace(
            self, half=half, single=single, windows=windows, gathered=gathered, more=more
        )

    def run_by(self, gpu: Gpu) -> "Family":
        """The family on another GPU, if that is one of its architectures."""
        if not self.arch_low <= gpu.arch <= self.arch_high:
            return self
        return replace(self, gpu=gpu, rate=self.rate * (gpu.bandwidth / self.gpu.bandwidth))


def is_by_steps(digit: int) -> bool:
    """True for sums whose steps keep to one value of the digits above the lowest."""
    return digit > 0 and digit % SHORTEST_STEP == 0


def _has_room(tile: MatmulTile, added: int) -> bool:
    elements = tile.m * tile.n * tile.groups // (WARP * tile.num_warps)
    return elements * (DType.FLOAT32.itemsize + added) <= MOST_HELD


def _turned(costs: Iterable[Cost]) -> Iterator[Cost]:
    return (replace(cost, tile=turned(cost.tile)) for cost in costs if may_turn(cost.tile))


def _with_tf32(costs: Iterable[Cost]) -> Iterator[Cost]:
    """Tiles for 16-bit factors as those for float32 ones, rounded to tf32: half as many in a step.

    They take as many bytes, and matrix units as long. (By the rates of the data sheets, not timed.)
    """
    for cost in costs:
        if not cost.tile.descriptors:
            depth = max(SHORTEST_STEP, cost.tile.k // 2)
            yield replace(cost, tile=replace(cost.tile, k=depth, precision="tf32"))


_WGMMA = (
    Cost(MatmulTile(16, 32, 256, 4, 4), 2.4, 0.29, 0.3, 0.54),
    Cost(MatmulTile(32, 32, 256, 4, 3), 1.60, 0.72, 0.0, 0.45),
    Cost(MatmulTile(64, 32, 128, 4, 6), 1.01, 0.225, 1.70, 0.22),
    Cost(MatmulTile(64, 64, 128, 4, 5), 1.37, 0.295, 1.91, 0.35),
    Cost(MatmulTile(64, 128, 64, 4, 5), 1.55, 0.288, 1.56, 0.44),
    Cost(MatmulTile(64, 128, 128, 4, 4), 1.35, 0.417, 1.97, 0.54),
    Cost(MatmulTile(128, 64, 64, 4, 5), 1.59, 0.343, 1.47, 0.09),
    Cost(MatmulTile(128, 128, 64, 8, 3), 4.55, 0.408, 0.39, 0.49),
    Cost(MatmulTile(128, 128, 64, 8, 4), 0.00, 0.364, 3.68, 0.51),
)
# Windows of images take longer steps: each lane computes addresses and compares borders
# (docs/measurements/h200_window_tiles.csv).
_WINDOWS = (
    Cost(MatmulTile(16, 32, 256, 4, 4), 2.4, 0.38, 0.3, 0.54),
    Cost(MatmulTile(32, 32, 256, 4, 3), 2.75, 0.56, 0.0, 0.45),
    Cost(MatmulTile(64, 32, 64, 4, 6), 0.46, 0.17, 1.0, 0.35),
    Cost(MatmulTile(64, 64, 128, 4, 5), 1.01, 0.57, 1.14, 0.24),
    Cost(MatmulTile(64, 128, 64, 4, 5), 1.9, 0.35, 2.1, 0.30),
    Cost(MatmulTile(128, 64, 64, 8, 4), 1.7, 0.36, 2.0, 0.30),
    Cost(MatmulTile(128, 128, 64, 8, 3), 2.5, 0.45, 2.2, 0.30),
    Cost(MatmulTile(64, 256, 64, 8, 3), 2.5, 0.44, 2.2, 0.30),
    Cost(MatmulTile(128, 256, 64, 8, 3), 4.0, 0.70, 2.4, 0.30),
    Cost(MatmulTile(64, 160, 64, 4, 4), 2.8, 0.285, 1.0, 0.30),
    Cost(MatmulTile(128, 160, 64, 8, 3), 3.0, 0.58, 1.5, 0.30),
)
_MMA = (
    Cost(MatmulTile(16, 32, 256, 4, 3), 2.4, 0.5, 0.3, 0.54),
    Cost(MatmulTile(32, 32, 128, 4, 4), 2.4, 0.4, 0.3, 0.45),
    Cost(MatmulTile(64, 32, 128, 4, 3), 0.6, 0.6, 1.4, 0.35),
    Cost(MatmulTile(64, 64, 64, 4, 4), 1.0, 0.55, 1.2, 0.24),
    Cost(MatmulTile(64, 128, 64, 4, 3), 1.5, 0.85, 1.6, 0.25),
    Cost(MatmulTile(128, 128, 32, 8, 4), 2.5, 0.5, 2.2, 0.30),
)
DESCRIBED = Cost(
    MatmulTile(128, 256, 64, 8, 3, descriptors=True, most_programs=1), 3.72, 0.582, 2.49, 0.29
)
_DESCRIBED = (
    DESCRIBED,
    Cost(
        MatmulTile(128, 128, 64, 8, 4, descriptors=True, most_programs=1), 4.31, 0.304, 0.95, 0.51
    ),
    Cost(MatmulTile(128, 192, 64, 8, 4, descriptors=True), 3.51, 0.469, 2.77, 0.39),
    Cost(MatmulTile(64, 128, 64, 4, 8, descriptors=True), 0.25, 0.148, 4.37, 0.63),
    Cost(MatmulTile(64, 256, 64, 4, 4, descriptors=True), 0.79, 0.283, 4.51, 0.61),
    Cost(MatmulTile(128, 128, 128, 8, 3, descriptors=True), 1.15, 0.593, 4.20, 0.57),
)
_WIDE = MatmulTile(128, 192, 64, 8, 5, descriptors=True, roles=True)
# Warps have roles: fitted to packages with bias and activation (docs/measurements/h200_roles.csv).
# Sums that programs share are slower so. Two groups of warps hide an epilogue under the products of
# the next tile; 256 columns read shared memory less, which pays for long sums.
_ROLES = (
    Cost(MatmulTile(64, 64, 128, 4, 6, descriptors=True, roles=True), 0.00, 0.176, 2.75, 0.56),
    Cost(MatmulTile(64, 128, 64, 4, 8, descriptors=True, roles=True), 0.00, 0.131, 2.29, 0.70),
    Cost(MatmulTile(64, 144, 64, 4, 8, descriptors=True, roles=True), 0.00, 0.200, 2.40, 0.91),
    Cost(MatmulTile(64, 192, 64, 4, 6, descriptors=True, roles=True), 0.00, 0.220, 2.60, 0.90),
    Cost(MatmulTile(128, 128, 64, 8, 6, descriptors=True, roles=True), 0.00, 0.255, 4.41, 0.55),
    Cost(_WIDE, 0.00, 0.451, 3.66, 0.44),
    Cost(replace(_WIDE, most_programs=1), 1.70, 0.475, 2.17, 0.44),
    Cost(replace(_WIDE, most_programs=1, groups=2), 5.00, 0.490, 1.00, 0.20),
    Cost(replace(_WIDE, n=256, num_stages=4, most_programs=1), 1.25, 0.641, 2.27, 0.23),
)
# float32 factors go through tensor cores as three bfloat16 parts each. Tensor cores truncate sums
# instead of rounding, so each step of k loses 0.3 to 0.45 of the last place for two additions of 16
# products (simulated). Two tf32 parts (tf32x3) take as long and lose 0.7 to 1.5, which over several
# layers exceeds eager's error. Splitting factors into parts takes most of a step: two programs of a
# multiprocessor hide each other's waits (docs/measurements/h200_products_float32.csv).
_SINGLE_WGMMA = (
    Cost(MatmulTile(16, 32, 128, 4, 3, "bf16x6"), 1.0, 2.55, 0.3, 0.1, together=2),
    Cost(MatmulTile(16, 64, 64, 4, 3, "bf16x6"), 1.0, 1.55, 0.6, 0.35, together=2),
    Cost(MatmulTile(64, 32, 32, 4, 4, "bf16x6"), 1.0, 1.0, 0.3, 0.1, together=2),
    Cost(MatmulTile(64, 64, 32, 4, 3, "bf16x6"), 1.5, 1.1, 0.3, 0.1, together=2),
)
# Long windows of few channels compute an address for each element: short steps hide it (7x7 of 3,
# batch 32: 401 us in place of 960). One step of a 3x3 is quicker whole (44 us, two steps 117).
_SINGLE_GATHERED = (
    Cost(MatmulTile(128, 64, 16, 8, 4, "bf16x6"), 1.0, 2.2, 1.3, 0.25),
    Cost(MatmulTile(256, 64, 16, 8, 3, "bf16x6"), 4.0, 3.1, 2.2, 0.25),
)
_SINGLE_MMA = (
    Cost(MatmulTile(16, 32, 64, 4, 3, "bf16x6"), 2.4, 0.9, 0.3, 0.5),
    Cost(MatmulTile(64, 32, 32, 4, 3, "bf16x6"), 1.0, 0.7, 1.4, 0.3),
    Cost(MatmulTile(64, 64, 32, 4, 3, "bf16x6"), 1.0, 1.1, 1.2, 0.25),
)
_MORE_MMA = (
    MatmulTile(128, 64, 32, 4, 4),
    MatmulTile(128, 256, 32, 8, 3),
    MatmulTile(64, 64, 128, 4, 3),
    MatmulTile(32, 64, 64, 4, 5),
    MatmulTile(16, 64, 128, 4, 4),
)
_MORE_WGMMA = (
    MatmulTile(128, 256, 64, 8, 3),
    MatmulTile(64, 256, 64, 4, 4),
    MatmulTile(64, 64, 64, 4, 8),
    MatmulTile(128, 64, 64, 4, 8),
    MatmulTile(64, 32, 256, 4, 3),
    MatmulTile(32, 64, 128, 4, 5),
    MatmulTile(16, 64, 256, 4, 3),
)
_MORE_DESCRIBED = (
    DESCRIBED.tile,
    MatmulTile(256, 128, 64, 8, 3, descriptors=True),
    MatmulTile(64, 128, 64, 4, 4, descriptors=True),
)
FAMILIES = (
    Family(0, HOPPER - 1, A100, _MMA, _SINGLE_MMA, _MORE_MMA),
    Family(
        HOPPER,
        BLACKWELL - 1,
        H200,
        (*_WGMMA, *_DESCRIBED, *_ROLES),
        _SINGLE_WGMMA,
        (*_MORE_WGMMA, *_MORE_DESCRIBED),
        speed=OPERATIONS_PER_MICROSECOND,
        windows=_WINDOWS,
        gathered=_SINGLE_GATHERED,
    ),
    Family(BLACKWELL, LATER - 1, B200, _WGMMA, _SINGLE_WGMMA, _MORE_WGMMA),
    Family(LATER, MAX_ARCH, RTX_PRO_6000, _MMA, _SINGLE_MMA, _MORE_MMA),
)
