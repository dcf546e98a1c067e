"""Products whose warps have roles: one requests factors, the others multiply (Hopper, Gluon).

The plain text of the same tile is what the interpreter runs, and what is compiled where Gluon's
compiler refuses the epilogue. An epilogue is the same lines in both. Its stores go through shared
memory, so that a row's neighbours are written together.
"""

import ast
import re
from collections.abc import Callable
from dataclasses import replace
from math import prod

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.tiles import WARP, MatmulTile
from aotpack.ir.symbolic.facts import known_multiple
from aotpack.ir.symbolic.integers import Int
from aotpack.render.emit.kernel_builder import KernelBuilder
from aotpack.render.environment import render_template
from aotpack.render.triton.contexts import (
    ColumnsContext,
    Copy,
    MatmulContext,
    SpecialContext,
    SpecialPart,
)
from aotpack.render.triton.types import TRITON_TYPES
from aotpack.stages import TensorMap

_HALF = (DType.FLOAT16, DType.BFLOAT16)
_VECTOR = 8  # elements that a thread stores at once
_WARP_ROWS = 16  # of a product
_RUN = 32  # columns whose order is changed, as dimensions of their numbers:
_SIDES = (4, 4, 2)  # 2c, 8j and e in the order of the matrix unit


def with_roles(
    context: MatmulContext, operand: DType, tile: MatmulTile, builder: KernelBuilder
) -> MatmulContext:
    """The context with roles of warps, if all factors are blocks at a fixed place."""
    lhs, columns = context.lhs.copy, context.columns
    rights = [one.rhs.copy for one in columns if one.rhs.copy is not None]
    if len(rights) < len(columns) or lhs is None or context.batch or operand not in _HALF:
        return context
    rights = [_spread(builder, tile, *pair) for pair in zip(columns, rights, strict=True)]
    warps = tile.num_warps // tile.groups
    parts = [_part(context, *pair, warps) for pair in zip(columns, rights, strict=True)]
    elements = context.k_block * (context.m_block + context.n_block)
    special = SpecialContext(
        descriptors=tuple(one.name for one in (*builder.maps, *builder.gluon_maps)),
        copies=(lhs, *rights),
        lhs=_factor(lhs),
        parts=tuple(parts),
        accs=", ".join(f"acc{part.suffix}" for part in parts),
        groups=tile.groups,
        warps=warps,
        stages=tile.num_stages,
        bytes=operand.itemsize * elements,
        operand=TRITON_TYPES[operand],
        accumulator=context.accumulator,
    )
    return replace(context, special=special)


def gluon_text(context: MatmulContext) -> Callable[[str], str] | None:
    """The text under a name; None without roles."""
    if context.special is None:
        return None
    template = "kernel_matmul_gluon.py.jinja"
    return lambda name: render_template(template, replace(context, name=name))


def _spread(builder: KernelBuilder, tile: MatmulTile, columns: ColumnsContext, copy: Copy) -> Copy:
    """The copy of a factor whose rows are columns of the product, in the order of ``_RUN``.

    Column 8j + 2c + e of the matrix unit, whose sum is that of thread c, is column 8c + 2j + e of
    each 32: the thread has eight neighbours. Others are copied as they lie.
    """
    (plain,) = [one for one in builder.maps if one.name == copy.block]
    rows = plain.sizes[0]
    has_runs = all(one % _RUN == 0 for one in (tile.n, columns.offset, columns.block))
    if not copy.is_turned or not has_runs or not known_multiple(rows, _RUN):
        return copy
    name, (apart, step) = f"{copy.tiles}_spread", plain.strides
    depth, place = plain.box[-1], copy.places.rsplit(", ", 1)
    box = (columns.block // _RUN, *_SIDES, depth)
    sizes = (rows // _RUN, *map(Int.of, _SIDES), plain.sizes[1])
    strides = (apart * _RUN, apart * 2, apart * 8, apart, step)
    builder.gluon_maps.append(TensorMap(name, plain.pointer, plain.offset, sizes, strides, box))
    places = f"({place[0]}) // {_RUN}, 0, 0, 0, {place[1]}"
    return replace(copy, block=name, places=places, box=box)


def _factor(copy: Copy) -> str:
    """A stage in shared memory as the factor of a product."""
    *rows, depth = copy.box
    flat = f".reshape([{prod(rows)}, {depth}])" if len(rows) > 1 else ""
    turned = ".permute((1, 0))" if copy.is_turned else ""
    return f"{copy.tiles}.index(stage){flat}{turned}"


def _part(context: MatmulContext, columns: ColumnsContext, copy: Copy, warps: int) -> SpecialPart:
    given = (*context.lhs.setup, *columns.epilogue)
    count = next((i for i, one in enumerate(given) if not _loads_columns(one, context, columns)), 0)
    early, late = given[:count], given[count:]
    is_spread = len(copy.box) > 2
    lines = late if is_spread else tuple(_stored(context, columns, line) for line in late)
    return SpecialPart(
        suffix=columns.suffix,
        offset=columns.offset,
        block=columns.block,
        rhs=_factor(copy),
        spread=_neighbours(context.m_block, columns, warps) if is_spread else "",
        result=f"{'spread' if is_spread else 'sums'}_layout{columns.suffix}",
        lanes=min(WARP, columns.block // _VECTOR),
        early=tuple(_renamed(line, columns, "early") for line in early),
        held=tuple(_target(line) for line in early if _of_columns(columns)[0] in _names(line)),
        epilogue=lines,
        has_rows=lines != late,
    )


def _neighbours(rows: int, columns: ColumnsContext, warps: int) -> str:
    """The layout of sums by spread columns: bits of registers, lanes and warps as (row, column)."""
    width = columns.block
    registers = [[0, 1], [0, 2], [0, 4], [8, 0]]
    registers += [[0, _RUN << bit] for bit in range((width // _RUN).bit_length() - 1)]
    of_warps = [[_WARP_ROWS << bit, 0] for bit in range(warps.bit_length() - 1)]
    below = _WARP_ROWS * warps
    registers += [[below << bit, 0] for bit in range((rows // below).bit_length() - 1)]
    lanes = [[0, 8], [0, 16], [1, 0], [2, 0], [4, 0]]
    bits = f"{registers}, {lanes}, {of_warps}, [], [{rows}, {width}]"
    return f"gl.DistributedLinearLayout({bits})"


def _loads_columns(line: str, context: MatmulContext, columns: ColumnsContext) -> bool:
    """True for a line that loads what is the same for all rows, as a bias."""
    known = {"tl", *_of_columns(columns), *context.parameters, _target(line)}
    return f"{_target(line)} = tl.load(" in line and _names(line) <= known


def _target(line: str) -> str:
    """The name that a line gives a value."""
    return line.partition(" = ")[0]


def _of_columns(columns: ColumnsContext) -> tuple[str, str]:
    return f"n{columns.suffix}", f"n{columns.suffix}_mask"


def _renamed(text: str, columns: ColumnsContext, end: str) -> str:
    """The text with the points of a tile in another layout."""
    names = ("m", "m_mask", *_of_columns(columns))
    return re.sub(rf"\b({'|'.join(names)})\b", rf"\1_{end}", text)


def _names(*texts: str) -> set[str]:
    """The variables in statements or expressions."""
    nodes = (node for text in texts for node in ast.walk(ast.parse(text)))
    return {node.id for node in nodes if isinstance(node, ast.Name)}


def _stored(context: MatmulContext, columns: ColumnsContext, line: str) -> str:
    """A store of a tile as one whose threads write neighbours; other lines as they are."""
    if not line.startswith("tl.store("):
        return line
    (statement,) = ast.parse(line).body
    assert isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
    call = statement.value
    place, value, *more = call.args
    others = [place, *more, *(one.value for one in call.keywords)]
    moved = {"m", "m_mask", *_of_columns(columns)}
    used = _names(*map(ast.unparse, others))
    is_moved = used <= moved | {"tl", *context.parameters}
    if not is_moved or not {"m", _of_columns(columns)[0]} <= used:
        return line

    def text(node: ast.expr) -> str:
        return _renamed(ast.unparse(node), columns, "stored")

    rest = [text(one) for one in more]
    rest += [f"{one.arg}={text(one.value)}" for one in call.keywords]
    converted = f"gl.convert_layout({ast.unparse(value)}, rows_layout{columns.suffix})"
    return f"tl.store({', '.join([text(place), converted, *rest])})"
