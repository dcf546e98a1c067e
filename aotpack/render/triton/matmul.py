"""Matrix products: operand tiles by load slots, pointwise members in the epilogue."""

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.kernel import Kernel, Schedule
from aotpack.ir.kernels.tiles import MatmulTile
from aotpack.ir.operations import Matmul
from aotpack.ir.symbolic.facts import known_multiple
from aotpack.ir.symbolic.integers import Axis
from aotpack.ir.values import Value
from aotpack.render.contexts import Factor, MatmulContext
from aotpack.render.emit.epilogue import batch_names, batch_numbers, render_epilogue
from aotpack.render.emit.frame import Frame
from aotpack.render.emit.kernel_builder import KernelBuilder
from aotpack.render.emit.regions import Region
from aotpack.render.triton.descriptors import described_factor

ROWS_TOGETHER = 8  # rows of tiles that go through the columns side by side, to read them from L2


def output_frame(kernel: Kernel, tile: MatmulTile) -> Frame:
    """The m x n tile of the result."""
    anchor = kernel.anchor
    assert isinstance(anchor, Matmul)
    return _frame(anchor, tile, {anchor.m: "m", anchor.n: "n"})


def matmul_context(
    schedule: Schedule, kernel: Kernel, tile: MatmulTile, builder: KernelBuilder
) -> MatmulContext:
    """Everything the matmul template prints, but the name."""
    anchor = kernel.anchor
    assert isinstance(anchor, Matmul)
    lhs_frame = _frame(anchor, tile, {anchor.m: "m", anchor.k: "k_row"})
    rhs_frame = _frame(anchor, tile, {anchor.k: "k_column", anchor.n: "n"})
    lhs = _factor(builder, "lhs", lhs_frame, anchor, tile)
    rhs = _factor(builder, "rhs", rhs_frame, anchor, tile)
    builder.results[anchor.target] = "acc"
    epilogue = render_epilogue(kernel, builder, anchor.axes)
    for axis in (*anchor.batch, anchor.m, anchor.n, anchor.k):
        builder.arguments.use_sizes(axis.extent)
    return MatmulContext(
        name=kernel.name,
        comments=builder.comments,
        functions=tuple(builder.functions.values()),
        parameters=tuple(arg.name for arg in builder.arguments.parameters()),
        index_type=builder.index_type,
        m_extent=str(anchor.m.extent),
        n_extent=str(anchor.n.extent),
        k_extent=str(anchor.k.extent),
        m_block=tile.m,
        n_block=tile.n,
        k_block=tile.k,
        m_masked=anchor.m in builder.emitter.frame.masks,
        n_masked=anchor.n in builder.emitter.frame.masks,
        k_masked=anchor.k in lhs_frame.masks,
        persistent=tile.most_programs > 0,
        group=ROWS_TOGETHER,
        batch=batch_numbers(anchor.batch, "batch_number"),
        batch_count="".join(f" * ({axis.extent})" for axis in anchor.batch),
        lhs=lhs,
        rhs=rhs,
        accumulator=anchor.operand.accumulator.facts.triton,
        precision=precision(anchor.operand, tile.precision),
        epilogue=epilogue,
    )


def precision(operand: DType, name: str) -> str:
    """The argument that says how float32 factors are multiplied; 16-bit ones have one way only."""
    return f', input_precision="{name}"' if operand is DType.FLOAT32 else ""


def _frame(anchor: Matmul, tile: MatmulTile, names: dict[Axis, str]) -> Frame:
    blocks = {anchor.m: tile.m, anchor.n: tile.n, anchor.k: tile.k}
    masks = {
        axis: f"{name}_mask"
        for axis, name in names.items()
        if not known_multiple(axis.extent, blocks[axis])
    }
    named = batch_names(anchor.batch) | names
    return Frame(named, masks, tuple((axis, blocks[axis]) for axis in names))


def _factor(
    builder: KernelBuilder, name: str, frame: Frame, anchor: Matmul, tile: MatmulTile
) -> Factor:
    """How a factor is loaded: as a block where the tile says so and it is one, else by pointers."""
    value = anchor.lhs if name == "lhs" else anchor.rhs
    if tile.descriptors:
        starts = {anchor.m: "m_start", anchor.n: "n_start", anchor.k: "k_start"}
        names = batch_names(anchor.batch) | starts
        slot = described_factor(builder, name, value, anchor.operand, frame.blocks, names)
        if slot is not None:
            return slot
    return _by_pointers(builder, frame, value, anchor)


def _by_pointers(builder: KernelBuilder, frame: Frame, value: Value, anchor: Matmul) -> Factor:
    """Lines before the loop over k, lines in it, and the name of the tile."""
    outer = [axis for axis, _ in frame.blocks if axis is not anchor.k]
    before = Region(frozenset((*anchor.batch, *outer)))
    loop = before.open("for", frozenset((anchor.k,)))
    emitter = builder.emitter_in(frame, loop)
    name = emitter.operand(value, anchor.operand, anchor.k)
    setup = tuple(item for item in before.items if isinstance(item, str))
    return Factor((), setup, tuple(loop.lines()), name)
