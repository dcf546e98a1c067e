"""Kernels in C: functions over work items, an entry for each kernel, and one file of all."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias

from aotpack.ir.kernels.access import points
from aotpack.ir.kernels.kernel import Kernel, Schedule
from aotpack.ir.kernels.tiles import HostTile, Tile
from aotpack.ir.kernels.traffic import work_of
from aotpack.ir.operations import Attention, Matmul
from aotpack.ir.symbolic.integers import Axis
from aotpack.render.c.contexts import (
    AttentionContext,
    DepthwiseContext,
    GemvContext,
    MatmulContext,
)
from aotpack.render.c.dialect import C
from aotpack.render.c.loops.loops import HostCode, HostFunction, pointwise_code
from aotpack.render.c.loops.nest import nest
from aotpack.render.c.loops.scatter import scatter_code, scatter_nest
from aotpack.render.c.loops.walks import walked_code
from aotpack.render.c.parameters import parameter_lines
from aotpack.render.c.products.attention import attention_source
from aotpack.render.c.products.depthwise import depthwise_source, window_sum
from aotpack.render.c.products.gemv import gemv_source
from aotpack.render.c.products.matmul import matmul_source
from aotpack.render.c.regions import c_lines
from aotpack.render.emit.frame import Frame
from aotpack.render.emit.kernel_builder import KernelBuilder
from aotpack.render.emit.language import Divisibility, RenderedKernel
from aotpack.render.emit.regions import Region
from aotpack.render.environment import render_template
from aotpack.stages import KernelSource

C_TILES = (HostTile,)


@dataclass(frozen=True, slots=True)
class HostContext:
    """A kernel: its functions and its entry; each unpacks the parameters by the same lines."""

    name: str
    comments: tuple[str, ...]
    parameters: tuple[str, ...]
    functions: tuple[HostFunction, ...]
    entry: tuple[str, ...]

    def named(self, name: str) -> "HostContext":
        """The kernel under another name."""
        entry = tuple(line.replace("KERNEL_", f"{name}_") for line in self.entry)
        return replace(self, name=name, entry=entry)


Context: TypeAlias = HostContext | MatmulContext | GemvContext | DepthwiseContext | AttentionContext


@dataclass(frozen=True, slots=True)
class HostFileContext:
    """All kernels for processors."""

    title: str
    kernels: tuple[str, ...]


def host_file(title: str, kernels: Iterable[KernelSource]) -> str:
    """The C file of a package's shared object; "" without kernels."""
    texts = tuple(kernel.text for kernel in kernels if kernel.language == "c")
    return render_template("kernels.c.jinja", HostFileContext(title, texts)) if texts else ""


def c_kernel(
    schedule: Schedule, kernel: Kernel, tile: Tile, divisibility: Divisibility
) -> RenderedKernel:
    """A kernel with a tile; its programs are points of its outermost axes."""
    assert isinstance(tile, HostTile)
    template, context, builder = _context(schedule, kernel, tile)
    template_op = kernel.template_op
    return RenderedKernel(
        kernel.name,
        lambda name: render_template(template, _named(context, name)),
        builder.arguments.parameters(dict(divisibility)),
        builder.arguments.names,
        tile,
        work_of(kernel, schedule.program),
        points(template_op.axes if template_op else kernel.axes[:1]),
    )


def _named(context: Context, name: str) -> Context:
    return context.named(name) if isinstance(context, HostContext) else replace(context, name=name)


def _context(
    schedule: Schedule, kernel: Kernel, tile: HostTile
) -> tuple[str, Context, KernelBuilder]:
    """The template of a kernel, what it prints but the name, and the kernel's builder."""
    if isinstance(kernel.template_op, Attention):
        template = (
            "kernel_attention_gemv.c.jinja" if tile.short_axis else "kernel_attention.c.jinja"
        )
        return template, *attention_source(schedule, kernel)
    if tile.short_axis:
        return "kernel_gemv.c.jinja", *gemv_source(schedule, kernel, tile.short_axis)
    if isinstance(kernel.template_op, Matmul):
        return "kernel_matmul.c.jinja", *matmul_source(schedule, kernel)
    scatter = kernel.scatter
    found = window_sum(schedule, kernel) if tile.along == "x" else None
    if found is not None:
        return "kernel_depthwise.c.jinja", *depthwise_source(schedule, kernel, found)
    nested = nest(schedule, kernel) if scatter is None else scatter_nest(kernel, scatter)
    builder = host_builder(schedule, nested.kernel, nested.axes)
    if scatter is not None:
        code = scatter_code(nested, builder, scatter)
    elif nested.r:
        code = walked_code(nested, builder, is_columns=tile.along == "x")
    else:
        code = pointwise_code(nested, builder)
    return "kernel_loop.c.jinja", loop_context(kernel, builder, code), builder


def host_builder(schedule: Schedule, kernel: Kernel, axes: tuple[Axis, ...]) -> KernelBuilder:
    """A builder that writes C, for loops over these axes.

    Lines that depend on sizes alone go around its root: functions and the entry both need them.
    """
    frame = Frame({axis: axis.name for axis in axes}, {}, ())
    return KernelBuilder(
        schedule, kernel, frame, Region(frozenset(), parent=Region(frozenset())), C
    )


def loop_context(kernel: Kernel, builder: KernelBuilder, code: HostCode) -> HostContext:
    """The template's context."""
    assert builder.root.parent is not None
    return HostContext(
        name=kernel.name,
        comments=builder.comments,
        parameters=(
            *parameter_lines(builder.arguments, kernel.stored),
            *c_lines(builder.root.parent),
        ),
        functions=code.functions,
        entry=code.entry,
    )
