"""Loops of a C kernel: regions with braces, and loops over lanes that become vector code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from aotpack.ir.integers import Axis
from aotpack.render.regions import INDENT, Region

SIMD = "#pragma omp simd"


@dataclass(slots=True)
class Loop(Region):
    """A loop of ``variable`` from ``start`` to ``stop``; ``is_vector``: iterations are independent.

    With ``lanes`` it runs in blocks of so many iterations, each with its number in ``lane``; what
    is left goes to the first lanes.
    """

    variable: str = ""
    start: str = "0"
    stop: str = ""
    is_vector: bool = False
    lanes: int = 0


def open_loop(
    region: Region,
    axes: frozenset[Axis],
    variable: str,
    stop: str,
    *,
    start: str = "0",
    is_vector: bool = False,
    lanes: int = 0,
) -> Loop:
    """Start a loop at the end of a region."""
    loop = Loop(region.axes | axes, "", region)
    loop.variable, loop.start, loop.stop = variable, start, stop
    loop.is_vector, loop.lanes = is_vector, lanes
    region.open_at = len(region.items)
    region.items.append(loop)
    return loop


def c_lines(region: Region, depth: int = 0) -> Iterator[str]:
    """The text of a region, with braces."""
    pad = INDENT * depth
    for item in region.items:
        if isinstance(item, str):
            yield pad + item
        elif isinstance(item, Loop):
            yield from _lane_loop(item, depth) if item.lanes else _plain_loop(item, depth)
        else:
            yield f"{pad}{item.header} {{"
            yield from c_lines(item, depth + 1)
            yield pad + "}"


def _plain_loop(loop: Loop, depth: int) -> Iterator[str]:
    pad = INDENT * depth
    if loop.is_vector:
        yield pad + SIMD
    v = loop.variable
    yield f"{pad}for (int64_t {v} = {loop.start}; {v} < {loop.stop}; {v}++) {{"
    yield from c_lines(loop, depth + 1)
    yield pad + "}"


def _lane_loop(loop: Loop, depth: int) -> Iterator[str]:
    """Whole blocks, then the rest."""
    pad, inner = INDENT * depth, INDENT * (depth + 1)
    v, block = loop.variable, f"{loop.variable}_block"
    body = list(c_lines(loop, depth + 2))
    yield f"{pad}{{"
    yield f"{inner}int64_t {block} = {loop.start};"
    yield f"{inner}for (; {block} + {loop.lanes} <= {loop.stop}; {block} += {loop.lanes}) {{"
    yield f"{inner}{INDENT}{SIMD}"
    yield f"{inner}{INDENT}for (int lane = 0; lane < {loop.lanes}; lane++) {{"
    yield f"{inner}{INDENT * 2}const int64_t {v} = {block} + lane;"
    yield from (INDENT + line for line in body)
    yield f"{inner}{INDENT}}}"
    yield f"{inner}}}"
    yield f"{inner}for (int lane = 0; lane < {loop.stop} - {block}; lane++) {{"
    yield f"{inner}{INDENT}const int64_t {v} = {block} + lane;"
    yield from body
    yield f"{inner}}}"
    yield f"{pad}}}"
