"""Matmul tiles by number of rows, from the cost model of ``matmul_costs``."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import ceil, gcd, log2

from aotpack.devices import Gpu
from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.access import Strides, accesses, axes_in, dot, points
from aotpack.ir.kernels.blocks import described_block
from aotpack.ir.kernels.kernel import Kernel
from aotpack.ir.kernels.tiles import MatmulTile, Variant
from aotpack.ir.operations import Matmul
from aotpack.ir.program import Program
from aotpack.ir.symbolic.facts import bounds, known_multiple, typical
from aotpack.ir.symbolic.integers import Atom, Axis, Quotient, Remainder
from aotpack.ir.values import Load, walk
from aotpack.schedule.tiles.matmul_costs import (
    FAMILIES,
    Cost,
    Family,
    is_by_steps,
)

ROW_STEPS = (8, 16, 32, 64, 96, 128, 256, 384, 512, 768, 1024, 1536, 2048, 4096, 8192, 32768)


MOST_STAGES = 6
SPLITS = (2, 3, 4, 6, 8, 9, 12, 16)
LEAST_STEPS = 4  # of a program that shares a sum
MOST_SHARED = 2  # times the programs that run together, for each multiprocessor, that share sums
SHORTEST = {1: 256, 2: 512}  # sums of warps with roles, by groups: these hide no longer epilogue
EXCHANGE = 2.5  # microseconds to store the parts of a sum and to wait for the last
PARTS_RATE = 5.6e4  # bytes of parts a microsecond, that one program reads and adds


def matmul_variants(
    template_op: Matmul,
    program: Program,
    strides: Strides,
    gpu: Gpu,
    fp32_precision: str = "ieee",
    added: int = 0,
    *,
    is_turned: bool = False,
) -> tuple[Variant, ...]:
    """For each family of architectures, the cheapest tile for each range of row counts.

    What is ``added`` to each element of the result, in bytes, needs registers beside the sums.
    """
    families = (family.run_by(gpu).with_room(added) for family in FAMILIES)
    return tuple(
        variant
        for family in ((one.turned() for one in families) if is_turned else families)
        for variant in _family_variants(template_op, family, program, strides, fp32_precision)
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
    depth = typical(template_op.k.extent)
    table = family.costs(template_op.operand, fp32_precision, digit, depth)
    table = tuple(cost for cost in table if _is_possible(cost.tile, template_op, program, strides))
    if not family.gpu.has_descriptors:
        table = tuple(cost for cost in table if not cost.tile.descriptors)
    known = () if is_single else family.more
    more = [tile for tile in known if _is_possible(tile, template_op, program, strides)]
    more = [tile for tile in more if family.gpu.has_descriptors or not tile.descriptors]
    if any(cost.tile.roles for cost in table):  # through descriptors these are quicker
        more += [cost.tile for cost in table if _is_slower(cost.tile)]
        table = tuple(cost for cost in table if not _is_slower(cost.tile))
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


def _is_slower(tile: MatmulTile) -> bool:
    return tile.descriptors and not tile.roles


def _is_possible(tile: MatmulTile, template_op: Matmul, program: Program, strides: Strides) -> bool:
    """False for descriptors if a factor is no rectangle, at a fixed place for all of a program.

    Blocks of columns side by side need whole tiles, unless warps have roles.
    """
    if (
        len(tile.columns) > 1
        and not tile.roles
        and not known_multiple(template_op.n.extent, tile.n)
    ):
        return False
    if not tile.descriptors:
        return True
    if tile.roles and (template_op.batch or typical(template_op.k.extent) < SHORTEST[tile.groups]):
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
    tiles = _tiles(cost.tile, template_op, rows)
    most = MOST_SHARED * cost.together * family.gpu.multiprocessors
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
    turns = max(1, waves / cost.together)
    work = max(turns * steps * cost.step, 2 * batch * rows * n * k / family.speed)
    time = cost.fixed + work + waves * cost.wave + memory
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
    if is_by_steps(digit):
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


def _divisor(atom: Atom | None, k: Axis) -> int:
    """The divisor of the lowest digit of k inside an atom; 0 for an atom without one."""
    if not isinstance(atom, (Quotient, Remainder)) or k not in atom.num.leaves():
        return 0
    return _divisor(atom.num.atom, k) or atom.den.constant or 1
