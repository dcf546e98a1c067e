"""Products of few rows: each weight is read once, and multiplied without a matrix unit.

    acc[m, n, lane] += x[m, k] * w[n, k]    for k = step * lanes + lane;    y[m, n] = sum of lanes

A warp reads neighbours along k, 16 bytes a thread. The weights of several steps are requested at
once, as they lie in memory, and widened where they are used. Where no launch writes them, those
of the first steps are requested before the program waits for the launch before, so that the memory
is busy while that one ends. Two products of one left factor may share a kernel, and sums over its
rows, each lane of which adds what it loads: the statistic of a norm.

With runs a thread adds the products of ``run`` neighbours first, and scales that sum where these
neighbours share a scale, as codes of a group do:

    acc[m, n, lane // run] += s[n, k // group] * sum over a run of x[m, k] * q[n, k]
"""

from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from typing import NamedTuple

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.access import axes_in, gains_of, points, shared_length
from aotpack.ir.kernels.kernel import Kernel, Member, Schedule
from aotpack.ir.kernels.one_row import DECODED, code_of
from aotpack.ir.kernels.runs import split_run_scale
from aotpack.ir.kernels.tiles import MatmulTile
from aotpack.ir.operations import Matmul, Reduction
from aotpack.ir.rewrite import Rewriter
from aotpack.ir.rounding import is_code
from aotpack.ir.symbolic.facts import known_multiple
from aotpack.ir.symbolic.integers import Axis, Int, ceil_div
from aotpack.ir.values import Apply, Load, Value, walk
from aotpack.render.emit.emitter import Emitter
from aotpack.render.emit.epilogue import loaded_early, render_epilogue
from aotpack.render.emit.frame import Frame
from aotpack.render.emit.kernel_builder import KernelBuilder
from aotpack.render.emit.regions import Region
from aotpack.render.environment import render_function
from aotpack.render.triton.contexts import FewRowsContext
from aotpack.render.triton.types import TRITON_TYPES

WAIT = "gdc_wait()"


class Step(NamedTuple):
    """A step of k: its axis, where that is in k, and the names of the weights it multiplies.

    Several steps in a row have the same axis where they read the same elements.
    """

    k: Axis
    place: Int
    weights: tuple[str, ...]


class RowSum(NamedTuple):
    """A sum over the rows of the left factor, called ``acc``."""

    acc: str
    value: Value


class Right(NamedTuple):
    """The right factor of a product, whose sums are called ``acc``.

    In ``value`` its loads along k are those of what was requested; ``leaves`` are the loads, and
    the names that stand for them. One that is ``wide`` is not rounded. ``scale`` is one number for
    the neighbours of a run, whose sum it multiplies.
    """

    acc: str
    value: Value
    scale: Value | None
    wide: bool
    leaves: dict[Load, str]


def few_rows_context(
    schedule: Schedule, kernel: Kernel, tile: MatmulTile, builder: KernelBuilder
) -> FewRowsContext:
    """The context of the template for few rows, without the name."""
    template_op = kernel.template_op
    assert isinstance(template_op, Matmul)
    steps = Steps(builder, kernel, template_op, tile)
    for product, right in zip(kernel.products, steps.rights, strict=True):
        builder.results[product.target] = right.acc
    for statistic, row_sum in zip(kernel.reductions, steps.row_sums, strict=True):
        builder.results[statistic.targets[0]] = row_sum.acc
    constants, early = _early(kernel, tile, builder)
    lines = tuple(steps.lines(constants, early))
    epilogue = render_epilogue(kernel, builder, template_op.axes)
    builder.arguments.use_sizes(points((*template_op.axes, template_op.k)))
    masks = builder.emitter.frame.masks
    return FewRowsContext(
        name=kernel.name,
        comments=builder.comments,
        functions=tuple(builder.functions.values()),
        parameters=tuple(arg.name for arg in builder.arguments.parameters()),
        index_type=builder.index_type,
        m_extent=str(template_op.m.extent),
        n_extent=str(template_op.n.extent),
        m_block=tile.m,
        n_block=tile.n,
        k_block=tile.k,
        run=tile.run,
        m_masked=template_op.m in masks,
        n_masked=template_op.n in masks,
        accumulator=TRITON_TYPES[template_op.operand.accumulator],
        sums=tuple(right.acc for right in steps.rights),
        row_sums=tuple(row_sum.acc for row_sum in steps.row_sums),
        constants=constants,
        early=early,
        lines=lines,
        epilogue=epilogue[len(constants) + len(early) :],
        tiles=str(ceil_div(template_op.n.extent, tile.n)) if tile.most_programs else "",
        has_idle=tile.least_programs > 0,
    )


def _early(
    kernel: Kernel, tile: MatmulTile, builder: KernelBuilder
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The loads of what the epilogue adds: those that need not wait, and the others."""
    weights = builder.schedule.program.weights if tile.weights_first else ()
    constants = loaded_early(kernel, builder, among=weights)
    return constants, loaded_early(kernel, builder)[len(constants) :]


class Steps:
    """Writes the steps: all in a line, or a first group of them and a loop over the others.

    With ``spreads`` each thread loads what it needs of the left factor.
    """

    spreads = True

    def __init__(
        self, builder: KernelBuilder, kernel: Kernel, template_op: Matmul, tile: MatmulTile
    ) -> None:
        self._builder, self._op, self._tile = builder, template_op, tile
        loads = [one for one in walk((template_op.rhs,)) if isinstance(one, Load)]
        self._length = Int.of(shared_length(loads, template_op.k))
        self._parts = int(template_op.k.extent) // int(self._length)
        steps = ceil(int(self._length) / tile.k)
        self._group = min(tile.at_once, steps)
        self._groups = ceil(steps / self._group)
        members = [one for one in kernel.members if isinstance(one.operation, Matmul)]
        self.rights = [self._right(number, member) for number, member in enumerate(members)]
        self._leaves = {leaf: name for right in self.rights for leaf, name in right.leaves.items()}
        scales = walk(right.scale for right in self.rights if right.scale is not None)
        self._run_names = {one.buffer for one in scales if isinstance(one, Load)}
        reductions = [one for one in kernel.members if isinstance(one.operation, Reduction)]
        self.row_sums = [self._row_sum(number, one) for number, one in enumerate(reductions)]
        program = builder.schedule.program
        self._lhs = template_op.lhs
        if tile.weights_first and self._groups == 1:
            found = enumerate(gains_of(template_op.lhs, program.weights))
            gains = {one: f"left factor {place}" for place, one in found}
            self._leaves |= gains
            self._lhs = self._held(template_op.lhs, gains)

    def _right(self, number: int, member: Member) -> Right:
        assert isinstance(member.operation, Matmul)
        value = Rewriter(dict(member.binding))(member.operation.rhs)
        leaves = {
            load: f"right factor {number} {place}"
            for place, load in enumerate(walk((value,)))
            if isinstance(load, Load) and self._op.k in axes_in(load.index)
        }
        acc, operation = f"acc{number}" if number else "acc", member.operation
        codes, scale = split_run_scale(replace(operation, rhs=value), self._tile.run)
        held = None if scale is None else self._held(scale, leaves)
        return Right(acc, self._held(codes, leaves), held, operation.wide, leaves)

    def _held(self, value: Value, leaves: dict[Load, str]) -> Value:
        """A value whose ``leaves`` are loads of what was requested."""

        def held(load: Load) -> Load | None:
            name = leaves.get(load)
            return None if name is None else Load(name, load.index, load.dtype)

        return Rewriter({}, held)(value)

    def _row_sum(self, number: int, member: Member) -> RowSum:
        assert isinstance(member.operation, Reduction)
        (value,) = member.operation.args
        return RowSum(f"row_sum{number}", Rewriter(dict(member.binding))(value))

    def lines(self, constants: Sequence[str], early: Sequence[str]) -> list[str]:
        """Loads and sums of the whole product.

        Loads of ``constants`` come with those of weights, ``early`` ones first after the wait.
        """
        length = self._group * self._tile.k
        end = self._groups * length
        body = Region(frozenset((self._op.m, self._op.n)))
        if not self._tile.weights_first:
            body.append(WAIT)
        first = self._loaded(body, "first", "0")
        wait = (WAIT,) if self._tile.weights_first else ()
        for line in (*constants, *wait, *early):
            body.append(line)
        if self._groups == 1:
            self._add(body, first)
            return list(body.lines())
        loop = body.open(f"for k_start in range({length}, {end}, {length}):", frozenset())
        after = self._loaded(loop, "after", "k_start")
        self._add(loop, self._moved(loop, first, "now", f"k_start - {length}"))
        for one, other in zip(first, after, strict=True):
            for name, its in zip(one.weights, other.weights, strict=True):
                loop.append(f"{name} = {its}")
        body.close()
        self._add(body, self._moved(body, first, "last", str(end - length)))
        return list(body.lines())

    def _loaded(self, region: Region, prefix: str, start: str) -> list[Step]:
        """Request the weights of a group that begins at ``start``."""
        whole = Step(self._op.k, Int.of(self._op.k), ())
        steps = self._moved(region, [whole] * self._group * self._parts, prefix, start)
        known = dict[Load, str]()
        return [step._replace(weights=self._requested(region, step, known)) for step in steps]

    def _requested(self, region: Region, step: Step, known: dict[Load, str]) -> tuple[str, ...]:
        moved, names = Rewriter({self._op.k: step.place}), []
        for leaf, name in self._leaves.items():
            load, is_gain = moved(leaf), self._op.n not in axes_in(leaf.index)
            frame = self._frame(step.k)
            if name in self._run_names:
                load, frame = of_run_axis(load, step.k), self._frame(step.k, of_runs=True)
            assert isinstance(load, Load)
            emitter = self._builder.emitter_in(frame, region, spread=is_gain and self.spreads)
            if load not in known:
                known[load] = emitter.as_stored(load)
            names.append(known[load])
        return tuple(names)

    def _moved(self, region: Region, steps: list[Step], prefix: str, start: str) -> list[Step]:
        """The steps at other places of k; writes the names of these places."""
        extent, moved = self._length, []
        for number in range(self._group):
            k = Axis(f"{prefix}{number}", extent)
            region.append(f"{k.name} = {start} + {number * self._tile.k} + lane")
            if not known_multiple(extent, self._group * self._tile.k):
                region.append(f"{k.name}_mask = {k.name} < {extent}")
            if self._run_names:
                region.append(f"{k.name}_run = {start} + {number * self._tile.k} + run")
                if not known_multiple(extent, self._group * self._tile.k):
                    region.append(f"{k.name}_run_mask = {k.name}_run < {extent}")
            for part, step in enumerate(steps[number * self._parts :][: self._parts]):
                moved.append(step._replace(k=k, place=Int.of(k) + self._length * part))
        return moved

    def _frame(self, k: Axis, *, of_runs: bool = False) -> Frame:
        """The lanes of a step, or its runs, for each row and column of the tile."""
        op, tile = self._op, self._tile
        k = _run_axis(k) if of_runs else k
        names = {op.m: "row", op.n: "column", k: k.name}
        length = tile.k // tile.run if of_runs else tile.k
        masked = set(self._builder.emitter.frame.masks)
        if not known_multiple(self._length, self._group * tile.k):
            masked.add(k)
        masks = {axis: f"{name}_mask" for axis, name in names.items() if axis in masked}
        return Frame(names, masks, ((op.m, tile.m), (op.n, tile.n), (k, length)))

    def _add(self, region: Region, steps: list[Step]) -> None:
        """Add the products of a group to the sums."""
        for step in steps:
            moved = Rewriter({self._op.k: step.place})
            emitter = self._builder.emitter_in(
                self._frame(step.k), region, spread=True, shortcut=self._widened
            )
            self._take(step)
            left = self._factor(emitter, moved(self._lhs))
            for right in self.rights:
                factor = self._factor(emitter, moved(right.value), wide=right.wide)
                added = self._of_runs(f"{left} * {factor}")
                if right.scale is not None:
                    frame = self._frame(step.k, of_runs=True)
                    of_runs = self._builder.emitter_in(frame, region)
                    added = f"{added} * {of_runs.value(of_run_axis(moved(right.scale), step.k))}"
                region.append(f"{right.acc} += {added}")
            self._add_row_sums(emitter, step)

    def _take(self, step: Step) -> None:
        """Let the loads of a step stand for what it requested."""
        for (leaf, held), name in zip(self._leaves.items(), step.weights, strict=True):
            stored = self._builder.arguments.dtype(leaf.buffer)
            is_wide = stored is leaf.dtype
            wide = name if is_wide else self._builder.dialect.cast(name, stored, leaf.dtype)
            self._builder.results[held] = wide

    def _add_row_sums(self, emitter: Emitter, step: Step) -> None:
        """Add a step of the left factor's row to what is summed over it."""
        moved = Rewriter({self._op.k: step.place})
        for row_sum in self.row_sums:
            text, masks = emitter.value(moved(row_sum.value)), emitter.frame.masks
            if step.k in masks:  # past the end there are no elements
                text = self._builder.dialect.where(masks[step.k], text, "0.0")
            emitter.region.append(f"{row_sum.acc} += {self._of_runs(text)}")

    def _of_runs(self, text: str) -> str:
        """The sums of runs of numbers in the lanes of a step."""
        tile = self._tile
        if tile.run == 1:
            return text
        shape = f"[{tile.m}, {tile.n}, {tile.k // tile.run}, {tile.run}]"
        return f"tl.sum(tl.reshape({text}, {shape}), 3)"

    def _widened(self, emitter: Emitter, value: Apply, is_short: bool) -> str | None:
        """A code as a float32, by fewer instructions than a conversion has."""
        (operand, *_), name = value.args, "widened_float8_e4m3fn"
        if value.op == "cast" and value.dtype is DType.FLOAT32 and operand.dtype is DType.INT8:
            operand, place = code_of(value)
            name = f"widened_{place}"
        elif value.op != DECODED or not self._tile.decodes:
            return None
        text = emitter.value(operand)
        self._builder.functions[name] = render_function("device_codes.py.jinja", name)
        return f"{name}({text})"

    def _factor(self, emitter: Emitter, value: Value, *, wide: bool = False) -> str:
        """A factor, rounded as the product says, in the type of the sums."""
        text, operand, dtype = emitter.value(value), self._op.operand, value.dtype
        if (
            operand is dtype
            or is_code(value)
            or wide
            or (isinstance(value, Load) and self._stored(value) is operand)
        ):
            return text
        cast = self._builder.dialect.cast
        return cast(cast(f"({text})", dtype, operand), operand, operand.accumulator)

    def _stored(self, load: Load) -> DType:
        """The type of a load's buffer."""
        held = next((leaf for leaf, name in self._leaves.items() if name == load.buffer), load)
        return self._builder.arguments.dtype(held.buffer)


def _run_axis(k: Axis) -> Axis:
    """The axis of the runs of a step: what is computed for lanes has another shape."""
    return Axis(f"{k.name}_run", k.extent)


def of_run_axis(value: Value, k: Axis) -> Value:
    """A value whose axis is that of the runs of a step."""
    return Rewriter({k: Int.of(_run_axis(k))})(value)
