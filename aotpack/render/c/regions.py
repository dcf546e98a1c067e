"""Loops of a C kernel: regions with braces, and loops over lanes that compilers vectorise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from aotpack.ir.symbolic.integers import Axis
from aotpack.render.emit.regions import INDENT, Region

SIMD = "#pragma omp simd"
STREAMED = 64  # iterations whose results are stored together, non-temporally


@dataclass(frozen=True, slots=True)
class Store:
    """``address = value;`` for a value of the C type ``kind``."""

    address: str
    value: str
    kind: str


@dataclass(slots=True)
class Loop(Region):
    """A loop of ``variable`` from ``start`` to ``stop``; ``is_vector``: iterations are independent.

    With ``lanes`` it runs in blocks of ``lanes`` iterations, each numbered by ``lane``; the rest
    goes to the first lanes. ``stores`` end the body; where the condition ``streams`` holds they are
    non-temporal, in blocks: neighbouring iterations then store neighbours.
    """

    variable: str = ""
    start: str = "0"
    stop: str = ""
    is_vector: bool = False
    lanes: int = 0
    stores: list[Store] = field(default_factory=list)
    streams: str = ""


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
            yield from _any_loop(item, depth)
        else:
            yield f"{pad}{item.header} {{"
            yield from c_lines(item, depth + 1)
            yield pad + "}"


def _any_loop(loop: Loop, depth: int) -> Iterator[str]:
    if loop.lanes:
        return _lane_loop(loop, depth)
    return _stream_loop(loop, depth) if loop.streams else _plain_loop(loop, loop.start, depth)


def _body(loop: Loop, depth: int) -> Iterator[str]:
    yield from c_lines(loop, depth)
    yield from (f"{INDENT * depth}{store.address} = {store.value};" for store in loop.stores)


def _plain_loop(loop: Loop, start: str, depth: int) -> Iterator[str]:
    pad = INDENT * depth
    if loop.is_vector:
        yield pad + SIMD
    v = loop.variable
    yield f"{pad}for (int64_t {v} = {start}; {v} < {loop.stop}; {v}++) {{"
    yield from _body(loop, depth + 1)
    yield pad + "}"


def _stream_loop(loop: Loop, depth: int) -> Iterator[str]:
    """Non-temporal stores: blocks of whole cache lines, then the rest."""
    pad, inner = INDENT * depth, INDENT * (depth + 1)
    v, block = loop.variable, f"{loop.variable}_block"
    aligned = " & ".join(f"aot_is_aligned(&{store.address})" for store in loop.stores)
    yield f"{pad}int64_t {block} = {loop.start};"
    yield f"{pad}if ({loop.streams}) {{"
    yield f"{inner}const int64_t {v} = {block};"
    yield f"{inner}const int64_t block_end = {aligned} ? {loop.stop} : {block};"
    yield f"{inner}for (; {block} + {STREAMED} <= block_end; {block} += {STREAMED}) {{"
    yield from _streamed_block(loop, depth + 2)
    yield f"{inner}}}"
    yield f"{pad}}}"
    yield from _plain_loop(loop, block, depth)


def _streamed_block(loop: Loop, depth: int) -> Iterator[str]:
    pad, inner = INDENT * depth, INDENT * (depth + 1)
    blocks = [f"held{number}" for number in range(len(loop.stores))]
    for name, store in zip(blocks, loop.stores, strict=True):
        yield f"{pad}_Alignas(AOT_LINE) {store.kind} {name}[{STREAMED}];"
    yield pad + SIMD
    yield f"{pad}for (int lane = 0; lane < {STREAMED}; lane++) {{"
    yield f"{inner}const int64_t {loop.variable} = {loop.variable}_block + lane;"
    yield from c_lines(loop, depth + 1)
    for name, store in zip(blocks, loop.stores, strict=True):
        yield f"{inner}{name}[lane] = {store.value};"
    yield f"{pad}}}"
    yield f"{pad}const int64_t {loop.variable} = {loop.variable}_block;"
    for name, store in zip(blocks, loop.stores, strict=True):
        yield f"{pad}aot_stream(&{store.address}, {name}, sizeof {name});"


def _lane_loop(loop: Loop, depth: int) -> Iterator[str]:
    """Whole blocks, then the rest."""
    pad, inner = INDENT * depth, INDENT * (depth + 1)
    v, block = loop.variable, f"{loop.variable}_block"
    body = list(_body(loop, depth + 2))
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
