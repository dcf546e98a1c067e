"""Products of one row and codes in the matrix unit (Gluon): codes are factors as they lie.

    sums[warp, 16 * block + 8 * half + n, j] += sum over k of w[n, k] * x[k, j];    y[n] = all of n

Warps lie along k. The 16 bytes of a thread are words of two rows of the unit's left factor: even
words are in the first, odd ones in the second. All codes of a program are requested before it waits
for the launch before, of those that go through several tiles the codes of the first. Then it makes
the right factor of the row, once, in shared memory:

- For integers it has four digits of eight bits of each element, which are columns. So codes are
  multiplied as they are, and their sums are exact. An element is an integer below 2**30 by a power
  of two, the same for all in a warp: what that cuts off is less than what a sum of float32 does.
  Two digits of the sums of a group become one number. Of two codes in a byte low ones are taken
  with 8 too much, by one instruction; so the row times eights is taken from their sums.
- For 8-bit floats, which become float16, its elements are float16 by such a power.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from aotpack.ir.kernels.access import gains_of
from aotpack.ir.kernels.kernel import Kernel, Schedule
from aotpack.ir.kernels.one_row import (
    BLOCK,
    FLOAT8,
    HIGH_CODE,
    LOW_CODE,
    STEP,
    codes_of,
    numbers_of,
    row_shape,
)
from aotpack.ir.kernels.runs import split_run_scale
from aotpack.ir.kernels.tiles import WARP, MatmulTile
from aotpack.ir.operations import Matmul, Reduction
from aotpack.ir.rewrite import Rewriter
from aotpack.ir.symbolic.integers import Axis, Int
from aotpack.ir.values import Load, Value
from aotpack.render.emit.emitter import Emitter
from aotpack.render.emit.frame import Frame
from aotpack.render.emit.kernel_builder import KernelBuilder
from aotpack.render.emit.regions import Region
from aotpack.render.environment import render_function, render_template
from aotpack.render.triton.contexts import FewRowsContext, OneRowContext
from aotpack.render.triton.few_rows import few_rows_context
from aotpack.render.triton.products.diagonal import diagonal_text, few_rows_with_diagonals

_FUNCTIONS = "device_one_row.py.jinja"
_PLAIN = "size_bits", "power_to"
_OF_ALL = (
    *("rows_of_weights", "columns_of_row", "spread_row", "largest_size", "in_units"),
    *("columns_of_sums", "sums_of_columns"),
)
_OF_DIGITS = "halves_of_rows", "sums_of_digits", "of_both_digits"
_ROWS = 16  # of the unit's left factor


def few_rows_with_matrix_unit(
    schedule: Schedule, kernel: Kernel, tile: MatmulTile, builder: KernelBuilder
) -> FewRowsContext:
    """The context of the template for few rows, with a text for the matrix unit if there is one."""
    if not tile.in_matrix_unit:
        return few_rows_with_diagonals(schedule, kernel, tile, builder)
    context = few_rows_context(schedule, kernel, tile, builder)
    one_row = _OneRow(builder, kernel, tile, context).context()
    parameters = tuple(one.name for one in builder.arguments.parameters())  # and the next codes
    return replace(context, parameters=parameters, one_row=one_row)


def one_row_text(context: FewRowsContext, name: str) -> str:
    """The text under a name."""
    if context.one_row is None:
        return diagonal_text(context, name)
    return render_template("kernel_one_row_gluon.py.jinja", replace(context, name=name))


class _Codes(NamedTuple):
    """The right factor of a product whose sums are called ``acc``, and the scale of its groups."""

    acc: str
    load: Load
    scale: Value | None


class _OneRow:
    """Writes the requests, the row and the steps."""

    def __init__(
        self, builder: KernelBuilder, kernel: Kernel, tile: MatmulTile, context: FewRowsContext
    ) -> None:
        op, shape = kernel.template_op, row_shape(kernel.products, tile.num_warps)
        assert isinstance(op, Matmul) and shape is not None
        self._builder, self._kernel, self._op, self._tile = builder, kernel, op, tile
        self._shape, self._names, self._context = shape, numbers_of(op), context
        self._is_digits = self._names[0] != FLOAT8
        products = zip(context.sums, kernel.products, strict=True)
        self._codes = [self._codes_of(acc, product) for acc, product in products]

    def _codes_of(self, acc: str, product: Matmul) -> _Codes:
        _, scale = split_run_scale(product, self._shape.span or 1)
        (load,) = dict.fromkeys(codes_of(product))
        return _Codes(acc, load, scale)

    def context(self) -> OneRowContext:
        """What the template adds to that of few rows."""
        tile, shape = self._tile, self._shape
        gains, row = self._row()
        shown = OneRowContext(
            warps=tile.num_warps,
            blocks=tile.n // BLOCK,
            chunk=shape.chunk,
            steps=shape.steps,
            in_thread=max(4, shape.chunk // (WARP * tile.num_warps)),
            is_digits=self._is_digits,
            has_scales=bool(shape.span),
            accumulator="gl.int32" if self._is_digits and not shape.span else "gl.float32",
            places=tuple(self._places()),
            requests=(*self._requests(), *self._scales()),
            early=tuple(gains),
            row=tuple(row),
            products=tuple(self._steps()),
        )
        functions = [render_function(_FUNCTIONS, name) for name in self._plain_functions()]
        functions += [render_function(_FUNCTIONS, name, shown) for name in self._functions()]
        return replace(shown, functions=tuple(functions))

    def _plain_functions(self) -> Iterator[str]:
        """The functions that are the same for all shapes."""
        yield from _PLAIN
        if self._is_digits:
            yield "digits"
        if self._tile.next_bytes:
            yield "prefetch"
        yield from (f"number_{name}" for name in self._names if name != "int8")

    def _functions(self) -> Iterator[str]:
        """Those of this shape."""
        yield from _OF_ALL
        if self._context.row_sums:
            yield "sum_of_row"
        if self._is_digits:
            yield from _OF_DIGITS
        if self._is_digits and self._shape.span:
            yield "sums_of_group"
        if self._shape.span:
            yield "scaled"
        if LOW_CODE in self._names:
            yield "less_eights"

    # --- requests

    def _start(self, step: int) -> int:
        """Where a step of a warp begins, from its share of the first chunk on."""
        chunk, inner = divmod(step, self._shape.steps)
        return chunk * self._shape.chunk + inner * STEP

    def _requests(self) -> Iterator[str]:
        """Request all codes."""
        k = Axis("k", Int.of(self._shape.row))
        first = self._first_shared
        for step in range(self._shape.all_steps):
            for number, codes in enumerate(self._codes):
                load = Rewriter({self._op.k: Int.of(k)})(codes.load)
                assert isinstance(load, Load)
                names = {self._op.n: "column", k: f"(own_k + {self._start(step)})"}
                emitter = self._emitter(Region(frozenset()), names, ())
                offset = self._builder.offset(load)
                address = emitter.address(load.buffer, offset, emitter.frame.names)
                if step < first:
                    yield f"w{number}_{step} = tl.load({address})"
                    continue
                yield f"async_copy.async_load(shared{number}_{step}, {address})"
        if first < self._shape.all_steps:
            yield "async_copy.commit_group()"

    def _places(self) -> Iterator[str]:
        """Allocate shared memory for codes."""
        shape = f"[{self._tile.n}, {self._tile.num_warps}, {STEP}]"
        for step in range(self._first_shared, self._shape.all_steps):
            for number in range(len(self._codes)):
                yield f"shared{number}_{step} = gl.allocate_shared_memory(gl.int8, {shape}, coded)"

    @property
    def _first_shared(self) -> int:
        """The first step whose codes come through shared memory."""
        return self._shape.all_steps - self._tile.in_shared

    def _scales(self) -> Iterator[str]:
        """Request the scales of all groups, as ``_scale`` names them."""
        shape, op = self._shape, self._op
        region = Region(frozenset((op.m, op.n)))
        for group in range(shape.all_steps * STEP // shape.span if shape.span else 0):
            k = Axis(f"scale_k{group}", Int.of(shape.row))
            region.append(f"{k.name} = scale_k + {self._start(group * shape.span // STEP)}")
            emitter = self._emitter(region, {op.n: "scale_column", k: k.name}, ((k, 1),))
            for part in range(shape.parts):
                moved = Rewriter({op.k: Int.of(k) + shape.row * part})
                for number, codes in enumerate(self._codes):
                    assert codes.scale is not None
                    text = emitter.value(moved(codes.scale))
                    region.append(f"{_scale(number, group, part)} = {text}")
        yield from region.lines()

    def _emitter(
        self, region: Region, names: dict[Axis, str], blocks: tuple[tuple[Axis, int], ...]
    ) -> Emitter:
        frame = Frame({self._op.m: "row", **names}, {}, blocks)
        return self._builder.emitter_in(frame, region)

    # --- the row

    def _row(self) -> tuple[list[str], list[str]]:
        """The lines that load a norm's gains, and those that make the row and its sums."""
        shape, op = self._shape, self._op
        early, region = Region(frozenset((op.m,))), Region(frozenset((op.m,)))
        gains = gains_of(op.lhs, self._builder.schedule.program.weights)
        held = {
            gain: Load(f"gain {number}", gain.index, gain.dtype)
            for number, gain in enumerate(gains if self._tile.weights_first else ())
        }
        lhs = Rewriter({}, held.get)(op.lhs)
        statistics = list(self._statistics())
        sums: dict[str, list[str]] = {acc: [] for acc, _ in statistics}
        names = []
        for chunk in range(shape.chunks):
            k = Axis(f"k{chunk}", Int.of(shape.row))
            early.append(f"{k.name} = k + {chunk * shape.chunk}")
            blocks = ((k, shape.chunk),)
            for part in range(shape.parts):
                moved = Rewriter({op.k: Int.of(k) + shape.row * part})
                self._hold(self._emitter(early, {k: k.name}, blocks), moved, held)
                emitter = self._emitter(region, {k: k.name}, blocks)
                names.append(f"x{chunk}_{part}")
                region.append(f"{names[-1]} = {self._element(emitter, moved(lhs))}")
                for acc, value in statistics:
                    sums[acc].append(emitter.value(moved(value)))
        for acc, texts in sums.items():
            region.append(f"{acc} = sum_of_row({' + '.join(texts)}, parts_of_{acc})")
        return list(early.lines()), [*region.lines(), *self._factor(names)]

    def _hold(self, emitter: Emitter, moved: Rewriter, held: dict[Load, Load]) -> None:
        """Load gains, for which others stand."""
        for gain, stand_in in held.items():
            load = moved(gain)
            assert isinstance(load, Load)
            stored = self._builder.arguments.dtype(gain.buffer)
            name = emitter.as_stored(load)
            is_wide = stored is gain.dtype
            text = name if is_wide else self._builder.dialect.cast(name, stored, gain.dtype)
            self._builder.results[stand_in.buffer] = text

    def _statistics(self) -> Iterator[tuple[str, Value]]:
        """The sums over the row, and what they add."""
        members = (one for one in self._kernel.members if isinstance(one.operation, Reduction))
        for acc, member in zip(self._context.row_sums, members, strict=True):
            assert isinstance(member.operation, Reduction)
            (value,) = member.operation.args
            yield acc, Rewriter(dict(member.binding))(value)

    def _element(self, emitter: Emitter, value: Value) -> str:
        """An element of the row, rounded as the product says."""
        text = f"({emitter.value(value)})"
        if value.dtype is self._op.operand:
            return text
        return self._builder.dialect.cast(text, value.dtype, self._op.operand)

    def _factor(self, names: list[str]) -> Iterator[str]:
        """Make the right factor of the row."""
        most = f"size_bits({names[0]})"
        for name in names[1:]:
            most = f"gl.maximum({most}, size_bits({name}))"
        yield f"size = largest_size({most})"
        yield f"unit = power_to(size, {29 if self._is_digits else 14})"
        back = "1.0 / unit"
        if self._is_digits:
            back = "gl.where(size < 0x7F800000, 1.0 / unit, float('nan'))"
        yield f"back = {back}"
        rows, dtype = (8, "int8") if self._is_digits else (2, "float16")
        as_number = "int32" if self._is_digits else "float16"
        for name in names:
            whole = f"in_units({name}, unit).to(gl.{as_number})"
            shape = f"[{rows}, {self._shape.chunk // 2}]"
            yield f"held_{name} = gl.allocate_shared_memory(gl.{dtype}, {shape}, crossed)"
            yield f"held_{name}.store(spread_row({whole}))"
        if self._waits_with_row:
            yield "async_copy.wait_group(0)"
        yield "gl.barrier()"
        if self._tile.next_bytes:
            next_codes = self._builder.arguments.pointer(self._tile.next_codes)
            start = f"{next_codes} + tl.program_id(0) * {self._tile.next_bytes}"
            yield f"prefetch({start}, {self._tile.next_bytes})"
        if LOW_CODE in self._names:
            shape = f"[{self._tile.num_warps}, {_ROWS}, 32]"
            yield f"eights = gl.full({shape}, 8, gl.int8, gl.DotOperandLayout(0, matrix, 4))"

    # --- the steps

    def _steps(self) -> Iterator[str]:
        """Multiply all steps; with groups, scale the sums at the end of each."""
        shape = self._shape
        for step in range(shape.all_steps):
            if step == self._first_shared and not self._waits_with_row:
                yield "async_copy.wait_group(0)"
            if step >= self._first_shared:
                for number in range(len(self._codes)):
                    yield f"w{number}_{step} = shared{number}_{step}.load(lanes)"
            for part in range(shape.parts):
                yield from self._right(step, part)
            for number in range(len(self._codes)):
                for part in range(shape.parts):
                    yield from self._multiplied(step, number, part)

    @property
    def _waits_with_row(self) -> bool:
        """True if all codes, of one tile, come through shared memory: one barrier is enough."""
        return self._first_shared == 0 and not self._tile.most_programs

    def _right(self, step: int, part: int) -> Iterator[str]:
        """The right factor of a step; beside low codes the sums that these have too much."""
        shape = self._shape
        chunk, inner = divmod(step, shape.steps)
        held, start = f"held_x{chunk}_{part}", inner * shape.chunk // 2 // shape.steps
        yield f"right{part} = columns_of_row({held}, {start}, matrix)"
        if self._names[part] == LOW_CODE:
            sums = self._nothing(_ROWS) if self._starts_group(step) else f"eights{part}"
            yield f"eights{part} = mma_v2(eights, right{part}, {sums})"

    def _multiplied(self, step: int, number: int, part: int) -> Iterator[str]:
        """Multiply the codes of a step; at the end of a group add its sums."""
        acc, name, code = self._codes[number].acc, self._names[part], f"w{number}_{step}"
        left = f"rows_of_weights({code if name == 'int8' else f'number_{name}({code})'}, matrix)"
        span = self._shape.span
        if not span:
            yield f"{acc} = mma_v2({left}, right{part}, {acc})"
            return
        sums = f"sums{number}_{part}"
        start = self._nothing(2 * self._tile.n) if self._starts_group(step) else sums
        yield f"{sums} = mma_v2({left}, right{part}, {start})"
        if not self._starts_group(step + 1):
            return
        group = step * STEP // span
        scale, whole = _scale(number, group, part), sums
        if self._is_digits:
            whole = f"sums_of_group({sums}, matrix)"
        if name == LOW_CODE:
            whole = f"less_eights({whole}, eights{part}, matrix)"
        if name == HIGH_CODE:
            scale += " * 0.0625"
        sign = "+=" if group or part else "="
        yield f"{acc} {sign} scaled({whole}, {scale}, matrix)"

    def _starts_group(self, step: int) -> bool:
        return step * STEP % self._shape.span == 0

    def _nothing(self, rows: int) -> str:
        kind = "gl.int32" if self._is_digits else "gl.float32"
        return f"gl.zeros([{self._tile.num_warps}, {rows}, 8], {kind}, matrix)"


def _scale(number: int, group: int, part: int) -> str:
    """The name of the scales of a group."""
    return f"scale{number}_{group}_{part}"
