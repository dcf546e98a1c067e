"""Products of one left factor with several weights become one wide product.

    q[m, n] = sum_k x[m, k] * wq[n, k] + bq[n]            y[m, n] = sum_k x[m, k] * w[n, k] + b[n]
    v[m, n] = sum_k x[m, k] * wv[n, k] + bv[n]     ->     q[m, n] = y[m, n];  v[m, n] = y[m, n + N]

with w = wq, wv contiguous in memory. The runtime places weights in the order of the manifest
without gaps, so nothing is copied, at load or at run time. One launch fills the GPU where several
small ones would not.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.access import axes_in, local_slope, points
from aotpack.ir.names import free_name
from aotpack.ir.operations import Matmul, Pointwise
from aotpack.ir.packs import Packs, fits
from aotpack.ir.program import Buffer, Operation, PackedWeight, Program, targets
from aotpack.ir.rewrite import Rewriter
from aotpack.ir.symbolic.facts import known_equal
from aotpack.ir.symbolic.integers import Axis, Int, total
from aotpack.ir.uses import operation_uses
from aotpack.ir.values import Apply, Const, IndexValue, Load, Value, walk
from aotpack.stages import Weight

MOST_PAIRED_ROWS = {DType.BFLOAT16: 2, DType.FLOAT16: 2, DType.FLOAT32: 4}
"""For which registers have room for the sums of two products, by the type of factors."""
SHORTEST_SUM = 128  # of a product without a matrix unit
PART_ALIGNMENT = 256  # bytes; each part must start where the runtime would place a weight


@dataclass(frozen=True, slots=True)
class Linear:
    """A product and its epilogue, with a bias or without.

    ``weights`` are what the right factor reads: one, or codes and scales.
    """

    product: Matmul
    finish: Pointwise
    weights: tuple[str, ...]
    bias: str | None

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.weights, self.bias) if self.bias else self.weights


def merge_products(
    program: Program,
    state: frozenset[str] = frozenset(),
    packed: Packs = (),
    is_host: bool = False,
    partition: object = None,
    calls: tuple[Mapping[str, str], ...] = (),
) -> Program:
    """Merge products of one left factor with several weights; the same object if there are none.

    Not with ``state`` that other methods of the package change, nor against what they ``packed``,
    in any of the ``calls`` of a body. GPUs pair the products of a gated unit in a kernel, if rows
    are few.
    """
    may_pair = not is_host and partition is None
    taken = {*state, *(part for pack in program.packed for part in pack.parts)}
    for linears in _families(program):
        if may_pair and _is_gated(linears, program):
            continue
        groups = list(zip(*(one.names for one in linears), strict=True))
        parts = {name for group in groups for name in group}
        is_once = len(parts) == sum(map(len, groups))
        if is_once and not parts & taken and _can_follow(groups, packed, calls or ({},)):
            taken |= parts
            program = _merged(program, linears)
    return program


def _can_follow(
    groups: list[tuple[str, ...]], packed: Packs, calls: tuple[Mapping[str, str], ...]
) -> bool:
    """True if the weights of each group can follow each other, by their names in each call."""
    named = {tuple(call.get(name, name) for name in group) for group in groups for call in calls}
    is_once = len({name for group in named for name in group}) == sum(map(len, named))
    return is_once and all(fits(group, packed) for group in named)


def in_memory_order(
    weights: tuple[Weight, ...], packed: tuple[PackedWeight, ...]
) -> tuple[Weight, ...]:
    """The weights in memory order: parts of a packed weight follow each other."""
    followers = {name for group in packed for name in group.parts[1:]}
    groups = {group.parts[0]: group.parts for group in packed}
    by_name = {weight.name: weight for weight in weights}
    return tuple(
        replace(by_name[name], follows=name in followers)
        for weight in weights
        if weight.name not in followers
        for name in groups.get(weight.name, (weight.name,))
    )


def _families(program: Program) -> Iterator[list[Linear]]:
    """Lists of two or more linears over the same left factor, in program order."""
    found: dict[tuple[object, ...], list[Linear]] = {}
    for linear in _linears(program):
        p, dtype = linear.product, program.buffers[linear.finish.target].dtype
        right = _unnamed(linear)
        key = (p.lhs, p.m, p.k, right, p.operand, dtype, linear.finish.axes[:-1])
        found.setdefault(key, []).append(linear)
    yield from (linears for linears in found.values() if len(linears) > 1)


def _unnamed(linear: Linear) -> tuple[object, ...]:
    """What a linear computes, with places for the names of its weights and the width."""
    places = {name: f"weight {place}" for place, name in enumerate(linear.weights)}

    def renamed(load: Load) -> Value:
        return Load(places[load.buffer], load.index, load.dtype)

    column = Int.of(Axis("n", Int.of(2**31)))
    return Rewriter({linear.product.n: column}, renamed)(linear.product.rhs), linear.bias is None


def can_pair(product: Matmul) -> bool:
    """True for a product that may share a GPU's kernel with another, for all sizes."""
    rows, depth = product.m.extent.constant, product.k.extent.constant
    if rows is None or depth is None or depth < SHORTEST_SUM or product.batch:
        return False
    return rows <= MOST_PAIRED_ROWS.get(product.operand, 0)


def has_weight(product: Matmul, program: Program) -> bool:
    """True if the right factor is a weight [n, k], or arithmetic on such, as codes are.

    No reader chooses their layout.
    """
    names = _right_weights(product, program)
    return bool(names) and not {*names} & {*program.derived}


def _right_weights(product: Matmul, program: Program) -> tuple[str, ...]:
    """The weights that the right factor is arithmetic on, in row n of each; none for another."""
    parts = walk((product.rhs,))
    loads = [one for one in parts if isinstance(one, Load)]
    if not all(isinstance(one, (Apply, Const, IndexValue, Load)) for one in parts):
        return ()
    if any(product.n in one.index.leaves() for one in parts if isinstance(one, IndexValue)):
        return ()
    if not all(_is_in_row(one, product) and one.buffer in program.weights for one in loads):
        return ()
    along = {local_slope(one.index[-1], product.k) for one in loads}
    return tuple(dict.fromkeys(one.buffer for one in loads)) if {1} <= along <= {0, 1} else ()


def _is_in_row(load: Load, product: Matmul) -> bool:
    """True for an element of row n, at a place along k."""
    if not load.index:
        return False
    first, *others = load.index
    if first is not Int.of(product.n) or len(others) != 1:
        return False
    return axes_in(tuple(others)) <= {product.k}


def _is_gated(linears: list[Linear], program: Program) -> bool:
    """True for two products whose results meet, point by point, and that a kernel can pair."""
    if len(linears) != 2 or not all(can_pair(one.product) for one in linears):
        return False
    readers = operation_uses(program.operations).readers
    one, other = (_followers(linear.finish, readers) for linear in linears)
    return bool(one & other)


def _followers(finish: Pointwise, readers: Mapping[str, Sequence[Operation]]) -> set[str]:
    """What is computed point by point from a result that nothing else reads."""
    found, last = set[str](), finish
    while True:
        following = readers.get(last.target, ())
        if len(following) != 1 or not isinstance(following[0], Pointwise):
            return found
        last = following[0]
        if not known_equal(points(last.axes), points(finish.axes)):
            return found
        found.add(last.target)


def _linears(program: Program) -> Iterator[Linear]:
    uses, results = operation_uses(program.operations), {*program.results}
    for operation in program.operations:
        if not isinstance(operation, Matmul) or operation.target in results:
            continue
        readers = uses.readers.get(operation.target, ())
        is_unfusable = any(
            program.buffers[name].unfusable for o in (operation, *readers) for name in targets(o)
        )
        if len(readers) == 1 and isinstance(readers[0], Pointwise) and not is_unfusable:
            linear = _linear(operation, readers[0], program)
            if linear is not None:
                yield linear


def _linear(product: Matmul, finish: Pointwise, program: Program) -> Linear | None:
    """Recognise ``finish[..., n] = product[row, n] (+ bias[n])`` over a stored [n, k] weight.

    The order in memory is chosen for stored weights alone, not for what is derived from them.
    """
    columns, weights = Int.of(finish.axes[-1]), _right_weights(product, program)
    if product.batch or not weights:
        return None
    bias = _bias(finish.value, product.target, columns)
    if bias is None:
        return None
    names = [*weights, *([bias] if bias else [])]
    if not {*names} <= {*program.weights} - {*program.derived}:
        return None
    if not all(_is_placeable(program.buffers[name]) for name in names):
        return None
    if any(update.name in names for update in program.updates):
        return None
    width = finish.axes[-1].extent
    if not all(known_equal(program.buffers[name].shape[0], width) for name in weights):
        return None
    return Linear(product, finish, weights, bias or None)


def _bias(value: Value, product: str, columns: Int) -> str | None:
    """The bias' buffer, "" for none, None for any other value."""
    if isinstance(value, Load):
        return "" if value.buffer == product and value.index[-1] is columns else None
    if not isinstance(value, Apply) or value.op != "add":
        return None
    left, right = value.args
    if not isinstance(left, Load) or not isinstance(right, Load) or left.buffer != product:
        return None
    return right.buffer if left.index[-1] is columns and right.index == (columns,) else None


def _is_placeable(weight: Buffer) -> bool:
    """True when another weight can follow this one in memory without a gap."""
    size = weight.dtype.itemsize
    for part in weight.shape:
        if part.constant is None:
            return False
        size *= part.constant
    return size % PART_ALIGNMENT == 0


def _merged(program: Program, linears: list[Linear]) -> Program:
    first = linears[0]
    width = total(linear.finish.axes[-1].extent for linear in linears)
    packed, buffers = list[PackedWeight](), dict(program.buffers)
    for parts in zip(*(linear.names for linear in linears), strict=True):
        packed.append(PackedWeight(f"{parts[0]}+{len(parts) - 1}", parts))
        buffers[packed[-1].name] = _stacked(packed[-1], program, width)
    product, finish = _wide(first, width, buffers, packed)
    offset = Int.of(0)
    views: dict[str, Operation] = {}
    for linear in linears:
        views[linear.finish.target] = _view(linear, finish, offset, buffers)
        offset = offset + linear.finish.axes[-1].extent
    operations = _replaced(program.operations, linears, (product, finish), views)
    weights = (*program.weights, *(p.name for p in packed))
    return replace(
        program,
        buffers={n: b for n, b in buffers.items() if n not in {x.product.target for x in linears}},
        weights=weights,
        operations=operations,
        packed=(*program.packed, *packed),
    )


def _stacked(packed: PackedWeight, program: Program, width: Int) -> Buffer:
    part = program.buffers[packed.parts[0]]
    return Buffer(packed.name, part.dtype, (width, *part.shape[1:]))


def _wide(
    linear: Linear, width: Int, buffers: dict[str, Buffer], packed: list[PackedWeight]
) -> tuple[Matmul, Pointwise]:
    """The first linear, extended to all columns; declares its buffers."""
    product, finish = linear.product, linear.finish
    n = Axis(product.n.name, width)
    columns = Axis(finish.axes[-1].name, width)
    target, wide = (free_name(f"{o.target}_wide", buffers) for o in (product, finish))
    names = dict(zip(linear.names, (one.name for one in packed), strict=True))
    names[product.target] = target

    def rename(load: Load) -> Value:
        return Load(names.get(load.buffer, load.buffer), load.index, load.dtype)

    rhs = Rewriter({product.n: Int.of(n)}, rename)(product.rhs)
    value = Rewriter({finish.axes[-1]: Int.of(columns)}, rename)(finish.value)
    rows = buffers[product.target].shape[:-1]
    buffers[target] = Buffer(target, buffers[product.target].dtype, (*rows, width))
    buffers[wide] = Buffer(
        wide, buffers[finish.target].dtype, (*buffers[finish.target].shape[:-1], width)
    )
    axes = (*finish.axes[:-1], columns)
    index = (*finish.index[:-1], Int.of(columns))
    return (
        replace(product, target=target, n=n, rhs=rhs),
        replace(finish, target=wide, axes=axes, value=value, index=index),
    )


def _view(linear: Linear, finish: Pointwise, offset: Int, buffers: dict[str, Buffer]) -> Pointwise:
    """A linear's result, read from the wide one."""
    own = linear.finish
    index = (*map(Int.of, own.axes[:-1]), Int.of(own.axes[-1]) + offset)
    dtype = buffers[finish.target].dtype.compute
    return replace(own, value=Load(finish.target, index, dtype))


def _replaced(
    operations: tuple[Operation, ...],
    linears: list[Linear],
    wide: tuple[Operation, ...],
    views: dict[str, Operation],
) -> tuple[Operation, ...]:
    """The wide operations at the first product of the family; views at the old epilogues."""
    products = {linear.product.target for linear in linears}
    result: list[Operation] = []
    for operation in operations:
        if isinstance(operation, Matmul) and operation.target in products:
            if operation.target == linears[0].product.target:
                result += wide
        elif isinstance(operation, Pointwise) and operation.target in views:
            result.append(views[operation.target])
        else:
            result.append(operation)
    return tuple(result)
