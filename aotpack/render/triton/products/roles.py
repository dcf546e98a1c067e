"""Products whose warps have roles: one requests factors, the others multiply (Hopper, Gluon).

The plain text of the same tile is what the interpreter runs, and what is compiled where Gluon's
compiler refuses the epilogue. An epilogue is the same lines in both. Its stores go through shared
memory, so that a row's neighbours are written together.
"""

import ast
import re
from collections.abc import Callable
from dataclasses import replace

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.tiles import MatmulTile
from aotpack.render.environment import render_template
from aotpack.render.triton.contexts import (
    ColumnsContext,
    Copy,
    MatmulContext,
    SpecialContext,
    SpecialPart,
)
from aotpack.render.triton.types import TRITON_TYPES

_HALF = (DType.FLOAT16, DType.BFLOAT16)
_LANES, _VECTOR = 32, 8  # of a warp; elements that a thread stores at once


def with_roles(context: MatmulContext, operand: DType, tile: MatmulTile) -> MatmulContext:
    """The context with roles of warps, if all factors are blocks at a fixed place."""
    lhs, columns = context.lhs.copy, context.columns
    copies = [lhs, *(one.rhs.copy for one in columns)]
    found = [one for one in copies if one is not None]
    if len(found) < len(copies) or lhs is None or context.batch or operand not in _HALF:
        return context
    parts = tuple(_part(context, one, context.lhs.setup) for one in columns)
    elements = context.k_block * (context.m_block + context.n_block)
    special = SpecialContext(
        copies=tuple(found),
        lhs=_factor(lhs),
        parts=parts,
        accs=", ".join(f"acc{part.suffix}" for part in parts),
        warps=tile.num_warps,
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


def _factor(copy: Copy) -> str:
    """A stage in shared memory as the factor of a product."""
    turned = ".permute((1, 0))" if copy.is_turned else ""
    return f"{copy.tiles}.index(stage){turned}"


def _part(context: MatmulContext, columns: ColumnsContext, early: tuple[str, ...]) -> SpecialPart:
    assert columns.rhs.copy is not None
    lines = tuple(_stored(context, columns, line) for line in columns.epilogue)
    return SpecialPart(
        suffix=columns.suffix,
        offset=columns.offset,
        block=columns.block,
        rhs=_factor(columns.rhs.copy),
        lanes=min(_LANES, columns.block // _VECTOR),
        early=early,
        epilogue=lines,
        has_rows=lines != columns.epilogue,
    )


def _stored(context: MatmulContext, columns: ColumnsContext, line: str) -> str:
    """A store of a tile as one whose threads write neighbours; other lines as they are."""
    if not line.startswith("tl.store("):
        return line
    (statement,) = ast.parse(line).body
    assert isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
    call = statement.value
    place, value, *more = call.args
    others = [place, *more, *(one.value for one in call.keywords)]
    moved = {"m", f"n{columns.suffix}", "m_mask", f"n{columns.suffix}_mask"}
    used = {node.id for one in others for node in ast.walk(one) if isinstance(node, ast.Name)}
    if not used <= moved | {"tl", *context.parameters} or not {"m", f"n{columns.suffix}"} <= used:
        return line
    names = "|".join(sorted(moved, key=len, reverse=True))

    def text(node: ast.expr) -> str:
        return re.sub(rf"\b({names})\b", r"\1_stored", ast.unparse(node))

    rest = [text(one) for one in more]
    rest += [f"{one.arg}={text(one.value)}" for one in call.keywords]
    converted = f"gl.convert_layout({ast.unparse(value)}, rows_layout{columns.suffix})"
    return f"tl.store({', '.join([text(place), converted, *rest])})"
