"""Products of one row and codes in the matrix unit (Gluon), on the diagonals of its results.

    sums[8 * n + i, j] += sum over k of w[n, part i of k] * x[part j of k];    y[n] = sum of i = j

A thread has 16 neighbours along k, as in the plain text, which the interpreter runs. Those of its
group of four are a row of the matrix unit's left factor and a column of its right one, without an
exchange between threads. Seven of eight products are spare, but codes become 16-bit numbers by two
instructions, and are neither widened nor multiplied one by one. Scales of groups multiply the
results of a step.
"""

from dataclasses import replace

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.kernel import Kernel, Schedule
from aotpack.ir.kernels.one_row import DECODED, code_of
from aotpack.ir.kernels.runs import split_run_scale
from aotpack.ir.kernels.tiles import WARP, MatmulTile
from aotpack.ir.operations import Matmul
from aotpack.ir.rewrite import Rewriter
from aotpack.ir.rounding import is_code
from aotpack.ir.symbolic.integers import Axis
from aotpack.ir.values import Apply, Value
from aotpack.render.emit.emitter import Emitter
from aotpack.render.emit.frame import Frame
from aotpack.render.emit.kernel_builder import KernelBuilder
from aotpack.render.emit.regions import Region
from aotpack.render.environment import render_function, render_template
from aotpack.render.triton.contexts import DiagonalContext, FewRowsContext
from aotpack.render.triton.few_rows import Step, Steps, few_rows_context, of_run_axis

_VECTOR, _PARTS, _WARPS = 16, 8, 4  # codes of a thread; parts of a step's lanes; of a program
_RUN = WARP // _PARTS * _VECTOR  # neighbours that share a row
_FUNCTIONS = ("columns_of_lanes", "rows_of_lanes", "sum_of_diagonals")


def few_rows_with_diagonals(
    schedule: Schedule, kernel: Kernel, tile: MatmulTile, builder: KernelBuilder
) -> FewRowsContext:
    """The context for few rows, with a text for the matrix unit if all weights are codes."""
    context, products = few_rows_context(schedule, kernel, tile, builder), kernel.products
    rows = tile.k == WARP * _VECTOR and tile.num_warps == _WARPS and not tile.n % (2 * _WARPS)
    if tile.m != 1 or not rows or any(one.operand is not DType.BFLOAT16 for one in products):
        return context
    run = _RUN if tile.run > 1 else 1
    codes = [split_run_scale(one, run) for one in products]
    if not all(_is_number(code, tile) and (scale is None) is (run == 1) for code, scale in codes):
        return context
    steps = _DiagonalSteps(builder, kernel, products[0], replace(tile, run=run))
    lines = tuple(steps.lines(context.constants, context.early))
    diagonal = DiagonalContext(
        functions=tuple(
            render_function("device_diagonal.py.jinja", name) for name in sorted(steps.functions)
        ),
        lines=lines,
        rows=_PARTS * tile.n,
        has_runs=run > 1,
    )
    return replace(context, diagonal=diagonal)


def diagonal_text(context: FewRowsContext, name: str) -> str:
    """The text under a name."""
    return render_template("kernel_few_rows_gluon.py.jinja", replace(context, name=name))


def _is_number(code: Value, tile: MatmulTile) -> bool:
    """True for a code that has a function here."""
    if not isinstance(code, Apply) or not is_code(code):
        return False
    return tile.decodes if _is_float8(code) else code.args[0].dtype is DType.INT8


def _is_float8(code: Value) -> bool:
    return isinstance(code, Apply) and code.op == DECODED


class _DiagonalSteps(Steps):
    """The steps of k, each a few instructions of the matrix unit."""

    spreads = False

    def __init__(
        self, builder: KernelBuilder, kernel: Kernel, template_op: Matmul, tile: MatmulTile
    ) -> None:
        super().__init__(builder, kernel, template_op, tile)
        self.functions = set(_FUNCTIONS)

    def _frame(self, k: Axis, *, of_runs: bool = False) -> Frame:
        found = super()._frame(k, of_runs=of_runs)
        if not of_runs:
            return found
        n = self._op.n
        masks = dict(found.masks)
        if n in masks:
            masks[n] = "run_column_mask"
        return replace(found, names={**found.names, n: "run_column"}, masks=masks)

    def _of_runs(self, text: str) -> str:
        return text  # each lane has its own part of what is summed over the row

    def _add(self, region: Region, steps: list[Step]) -> None:
        """Add the products of a group to the sums."""
        for step in steps:
            moved = Rewriter({self._op.k: step.place})
            emitter = self._builder.emitter_in(self._frame(step.k), region)
            self._take(step)
            left = self._factor(emitter, moved(self._lhs))
            region.append(f"left = columns_of_lanes(({left}).to(tl.bfloat16), matrix)")
            for right in self.rights:
                number = self._number(emitter, moved(right.value))
                region.append(f"right = rows_of_lanes({number}, {self._tile.n}, matrix)")
                if right.scale is None:
                    region.append(f"{right.acc} = mma_v2(right, left, {right.acc})")
                    continue
                of_runs = self._builder.emitter_in(self._frame(step.k, of_runs=True), region)
                scale = of_runs.value(of_run_axis(moved(right.scale), step.k))
                region.append(f"{right.acc} += mma_v2(right, left, nothing) * {scale}")
            self._add_row_sums(emitter, step)

    def _number(self, emitter: Emitter, value: Value) -> str:
        """A code as a number of 16 bits."""
        assert isinstance(value, Apply)
        code, place = (value.args[0], "float8_e4m3fn") if _is_float8(value) else code_of(value)
        self.functions.add(f"number_{place}")
        return f"number_{place}({emitter.value(code)})"
