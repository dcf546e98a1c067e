"""Matmul tiles by architecture and number of rows, from a cost model fitted to measurements.

The model for sm_90 was fitted to medians on an H200 (27 shapes times up to 80 forms, in
docs/measurements/h200_matmul_forms.csv): a fixed time, a time for each step of k and for each wave
of tiles, and the traffic at 4.3 TB/s times a factor. Other architectures take tiles that compile
without spills within their shared memory, with scaled steps. Factors that are rectangles of memory
may be read through tensor descriptors on sm_90, and by warps with a role of their own.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import ceil, gcd, log2

from aotpack.devices import A100, B200, BLACKWELL, H200, HOPPER, LATER, RTX_PRO_6000, Gpu
from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.access import Strides, accesses, axes_in, dot, points
from aotpack.ir.kernels.blocks import described_block
from aotpack.ir.kernels.kernel import Kernel
from aotpack.ir.kernels.tiles import MAX_ARCH, WARP, MatmulTile, Variant
from aotpack.ir.operations import Matmul
from aotpack.ir.program import Program
from aotpack.ir.symbolic.facts import bounds, known_multiple, typical
from aotpack.ir.symbolic.integers import Atom, Axis, Quotient, Remainder
from aotpack.ir.values import Load, walk

BYTES_PER_MICROSECOND = 4.3e6  # of the fit; other GPUs are scaled by their bandwidth
ROW_STEPS = (8, 16, 32, 64, 96, 128, 256, 384, 512, 768, 1024, 1536, 2048, 4096, 8192, 32768)


@dataclass(frozen=True, slots=True)
class Cost:
    """Microseconds: fixed, a step of k, a wave of tiles; and the factor on ideal memory time."""

    tile: MatmulTile
    fixed: float
    step: float
    wave: float
    traffic: float


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
    windows: tuple[Cost, ...] = ()  # tiles for 16-bit windows, if they have costs of their own
    gathered: tuple[Cost, ...] = ()  # the same for float32 windows that no step keeps to

    def costs(self, operand: DType, fp32_precision: str, digit: int) -> tuple[Cost, ...]:
        """The tiles for factors of a type; ``digit`` is the lowest of k in windows, else 0."""
        half = self.windows if _is_by_steps(digit) and self.windows else self.half
        if operand is not DType.FLOAT32:
            return half
        if fp32_precision == "tf32":
            return tuple(_with_tf32(half))
        return self.gathered if digit and not _is_by_steps(digit) and self.gathered else self.single

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

    def run_by(self, gpu: Gpu) -> "Family":
        """The family on another GPU, if that is one of its architectures."""
        if not self.arch_low <= gpu.arch <= self.arch_high:
            return self
        return replace(self, gpu=gpu, rate=self.rate * (gpu.bandwidth / self.gpu.bandwidth))


_WGMMA = (
    Cost(MatmulTile(16, 32, 256, 4, 4), 2.4, 0.29, 0.3, 0.54),
    Cost(MatmulTile(32, 32, 256, 4, 3), 1.90, 0.72, 0.0, 0.45),
    Cost(MatmulTile(64, 32, 128, 4, 6), 1.01, 0.248, 1.70, 0.22),
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
# Warps have roles: fitted to 62 packages with bias and activation (docs/measurements/
# h200_roles.csv). Sums that programs share are slower so.
_ROLES = (
    Cost(MatmulTile(64, 64, 128, 4, 6, descriptors=True, roles=True), 1.50, 0.148, 2.10, 0.60),
    Cost(MatmulTile(64, 128, 64, 4, 8, descriptors=True, roles=True), 0.00, 0.135, 3.45, 0.60),
    Cost(MatmulTile(64, 192, 64, 4, 6, descriptors=True, roles=True), 0.00, 0.200, 4.60, 0.60),
    Cost(MatmulTile(128, 128, 64, 8, 6, descriptors=True, roles=True), 0.00, 0.262, 4.50, 0.60),
    Cost(MatmulTile(128, 192, 64, 8, 4, descriptors=True, roles=True), 0.00, 0.420, 4.40, 0.60),
    Cost(
        MatmulTile(128, 192, 64, 8, 4, descriptors=True, most_programs=1, roles=True),
        *(1.70, 0.450, 2.85, 0.60),
    ),
)
# float32 factors go through tensor cores as three bfloat16 parts each. Tensor cores truncate sums
# instead of rounding, so each step of k loses 0.3 to 0.45 of the last place for two additions of 16
# products (simulated). Two tf32 parts (tf32x3) take as long and lose 0.7 to 1.5, which over several
# layers exceeds eager's error.
_SINGLE_WGMMA = (
    Cost(MatmulTile(16, 32, 128, 4, 3, "bf16x6"), 2.4, 1.2, 0.3, 0.5),
    Cost(MatmulTile(64, 32, 32, 4, 4, "bf16x6"), 1.0, 0.3, 1.4, 0.3),
    Cost(MatmulTile(64, 64, 32, 4, 3, "bf16x6"), 1.0, 0.5, 1.2, 0.25),
)
# Windows of few channels compute an address for each element: short steps hide it (7x7 of 3, batch
# 32: 565 us in place of 960).
_SINGLE_GATHERED = (
    Cost(MatmulTile(64, 32, 16, 4, 4, "bf16x6"), 1.0, 1.0, 0.9, 0.25),
    Cost(MatmulTile(64, 64, 16, 4, 4, "bf16x6"), 1.0, 1.2, 0.9, 0.25),
    Cost(MatmulTile(128, 64, 16, 8, 4, "bf16x6"), 1.0, 2.2, 1.5, 0.25),
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
MOST_HELD = 768  # bytes of a thread for sums and what is added to them; more spill
SHORTEST_STEP = 16  # of a matrix unit
MOST_STAGES = 6
SPLITS = (2, 3, 4, 6, 8, 9, 12, 16)
LEAST_STEPS = 4  # of a program that shares a sum
MOST_SHARED = 2  # programs for each multiprocessor, if they share sums
EXCHANGE = 2.5  # microseconds to store the parts of a sum and to wait for the last
PARTS_RATE = 5.6e4  # bytes of parts a microsecond, that one program reads and adds
FAMILIES = (
    Family(0, HOPPER - 1, A100, _MMA, _SINGLE_MMA, _MORE_MMA),
    Family(
        HOPPER,
        BLACKWELL - 1,
        H200,
        (*_WGMMA, *_DESCRIBED, *_ROLES),
        _SINGLE_WGMMA,
        (*_MORE_WGMMA, *_MORE_DESCRIBED),
        windows=_WINDOWS,
        gathered=_SINGLE_GATHERED,
    ),
    Family(BLACKWELL, LATER - 1, B200, _WGMMA, _SINGLE_WGMMA, _MORE_WGMMA),
    Family(LATER, MAX_ARCH, RTX_PRO_6000, _MMA, _SINGLE_MMA, _MORE_MMA),
)


def matmul_variants(
    template_op: Matmul,
    program: Program,
    strides: Strides,
    gpu: Gpu,
    fp32_precision: str = "ieee",
    added: int = 0,
) -> tuple[Variant, ...]:
    """For each family of architectures, the cheapest tile for each range of row counts.

    What is ``added`` to each element of the result, in bytes, needs registers beside the sums.
    """
    return tuple(
        variant
        for family in FAMILIES
        for variant in _family_variants(
            template_op, family.run_by(gpu).with_room(added), program, strides, fp32_precision
        )
    )


def added_bytes(kernel: Kernel, program: Program, strides: Strides) -> int:
    """The bytes that the epilogue of a product loads for each element, as residuals."""
    product = kernel.template_op
    assert isinstance(product, Matmul)
    read = {
        (access.buffer, access.offset(strides))
        for access in accesses(kernel)
        if not access.is_store and access.member is not kernel.members[0]
    }
    whole = [name for name, offset in read if {product.m, product.n} <= axes_in((offset,))]
    return sum(program.buffers[name].dtype.itemsize for name in whole)


def _family_variants(
    template_op: Matmul, family: Family, program: Program, strides: Strides, fp32_precision: str
) -> Iterable[Variant]:
    """Each row count ends a range; neighbouring ranges with equal tiles become one."""
    is_single = template_op.operand is DType.FLOAT32
    digit = _lowest_digit(template_op, strides)
    table = family.costs(template_op.operand, fp32_precision, digit)
    table = tuple(cost for cost in table if _is_possible(cost.tile, template_op, program, strides))
    if not family.gpu.has_descriptors:
        table = tuple(cost for cost in table if not cost.tile.descriptors)
    known = () if is_single else family.more
    more = [tile for tile in known if _is_possible(tile, template_op, program, strides)]
    more = [tile for tile in more if family.gpu.has_descriptors or not tile.descriptors]
    rows = template_op.m.extent
    low, high = bounds(rows)
    steps = [step for step in ROW_STEPS if low <= step < high]
    chosen: list[tuple[list[MatmulTile], int | None]] = []
    for step in [*steps, min(high, ROW_STEPS[-1])]:
        ranked = _cheapest_first(template_op, family, table, more, max(1, int(step)), digit)
        if chosen and chosen[-1][0][0] == ranked[0]:
            chosen.pop()
        chosen.append((ranked, int(step)))
    chosen[-1] = (chosen[-1][0], None)
    for (tile, *others), limit in chosen:
        yield Variant(tile, family.arch_low, family.arch_high, rows, limit, others=tuple(others))


def _has_room(tile: MatmulTile, added: int) -> bool:
    elements = tile.m * tile.n // (WARP * tile.num_warps)
    return elements * (DType.FLOAT32.itemsize + added) <= MOST_HELD


def _with_tf32(costs: Iterable[Cost]) -> Iterator[Cost]:
    """Tiles for 16-bit factors as those for float32 ones, rounded to tf32: half as many in a step.

    They take as many bytes, and matrix units as long. (By the rates of the data sheets, not timed.)
    """
    for cost in costs:
        if not cost.tile.descriptors:
            depth = max(SHORTEST_STEP, cost.tile.k // 2)
            yield replace(cost, tile=replace(cost.tile, k=depth, precision="tf32"))


def _is_possible(tile: MatmulTile, template_op: Matmul, program: Program, strides: Strides) -> bool:
    """False for descriptors if a factor is no rectangle, at a fixed place for all of a program.

    Blocks of columns side by side need whole tiles.
    """
    if len(tile.columns) > 1 and not known_multiple(template_op.n.extent, tile.n):
        return False
    if not tile.descriptors:
        return True
    if tile.roles and template_op.batch:
        return False
    sides = (
        ((template_op.m, tile.m), (template_op.k, tile.k)),
        ((template_op.k, tile.k), (template_op.n, tile.n)),
    )
    for value, side in zip((template_op.lhs, template_op.rhs), sides, strict=True):
        if (
            not isinstance(value, Load)
            or program.buffers[value.buffer].dtype is not template_op.operand
        ):
            return False
        offset = dot(value.index, strides[value.buffer])
        block = described_block(offset, side, template_op.operand.itemsize)
        if block is None:
            return False
        if tile.most_programs and any(isinstance(leaf, Axis) for leaf in block.base.leaves()):
            return False
    return True


def _cheapest_first(
    template_op: Matmul,
    family: Family,
    table: tuple[Cost, ...],
    more: list[MatmulTile],
    rows: int,
    digit: int,
) -> list[MatmulTile]:
    """The tiles of the table by cost, then the others by similarity to the cheapest."""
    forms = [
        (cost, splits) for cost in table for splits in _splits(cost, template_op, family, rows)
    ]

    def microseconds(form: tuple[Cost, int]) -> float:
        return _microseconds(*form, template_op, family, rows)

    best: dict[MatmulTile, tuple[Cost, int]] = {}
    for form in sorted(forms, key=microseconds):
        best.setdefault(form[0].tile, form)
    ranked = [replace(cost.tile, splits=splits) for cost, splits in best.values()]
    first = ranked[0]
    alike = sorted(more, key=lambda t: abs(log2(t.m / first.m)) + abs(log2(t.n / first.n)))
    return list(
        dict.fromkeys(_fitted(t, template_op, family.gpu, digit) for t in (*ranked, *alike))
    )


def _splits(cost: Cost, template_op: Matmul, family: Family, rows: int) -> Iterator[int]:
    """The numbers of programs that may share a sum: each has a few steps, and some are idle."""
    yield 1
    sides = (*template_op.batch, template_op.n, template_op.k)
    is_fixed = all(axis.extent.constant is not None for axis in sides)
    if not is_fixed or not cost.tile.may_split or rows >= ROW_STEPS[-1]:
        return
    depth = int(template_op.k.extent)
    steps = ceil(depth / cost.tile.k)
    tiles, most = _tiles(cost.tile, template_op, rows), MOST_SHARED * family.gpu.multiprocessors
    for splits in SPLITS:
        if steps >= LEAST_STEPS * splits and tiles * splits <= most:
            yield splits


def _tiles(tile: MatmulTile, template_op: Matmul, rows: int) -> int:
    across = ceil(typical(template_op.n.extent) / tile.n)
    return typical(points(template_op.batch)) * ceil(rows / tile.m) * across


def _microseconds(cost: Cost, splits: int, template_op: Matmul, family: Family, rows: int) -> float:
    tile, n, k = cost.tile, typical(template_op.n.extent), typical(template_op.k.extent)
    batch = typical(points(template_op.batch))
    steps = ceil(ceil(k / tile.k) / splits)
    moved = template_op.operand.itemsize * batch * (n * k + rows * n + rows * k)
    waves = ceil(_tiles(tile, template_op, rows) * splits / family.gpu.multiprocessors)
    memory = cost.traffic * moved / family.rate
    time = cost.fixed + waves * (steps * cost.step + cost.wave) + memory
    if splits == 1:
        return time
    parts = template_op.operand.accumulator.itemsize * splits * tile.m * tile.n
    return time + EXCHANGE + parts / PARTS_RATE


def _fitted(tile: MatmulTile, template_op: Matmul, gpu: Gpu, digit: int) -> MatmulTile:
    """The tile with k no longer than the product needs, and within the lowest ``digit`` of k.

    ``most_programs`` are those of a multiprocessor before, of all after.
    """
    shortest = max(16, 1 << max(0, typical(template_op.k.extent) - 1).bit_length())
    depth, stages = min(tile.k, shortest), tile.num_stages
    if _is_by_steps(digit):
        within = min(depth, digit & -digit)
        stages, depth = max(stages, min(MOST_STAGES, stages * depth // within)), within
    programs = tile.most_programs * gpu.multiprocessors
    return replace(tile, k=depth, num_stages=stages, most_programs=programs)


def _lowest_digit(template_op: Matmul, strides: Strides) -> int:
    """The extent of the lowest digit of k in the offsets of factors; 0 without digits.

    A step within one value of the others reads neighbours (``render/triton/products/k_steps.py``).
    """
    found = 0
    for value in walk((template_op.lhs, template_op.rhs)):
        if isinstance(value, Load):
            for atom in dot(value.index, strides[value.buffer]).atoms():
                found = gcd(found, _divisor(atom, template_op.k))
    return found


def _is_by_steps(digit: int) -> bool:
    """True for sums whose steps keep to one value of the digits above the lowest."""
    return digit > 0 and digit % SHORTEST_STEP == 0


def _divisor(atom: Atom | None, k: Axis) -> int:
    """The divisor of the lowest digit of k inside an atom; 0 for an atom without one."""
    if not isinstance(atom, (Quotient, Remainder)) or k not in atom.num.leaves():
        return 0
    return _divisor(atom.num.atom, k) or atom.den.constant or 1
