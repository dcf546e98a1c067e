"""What the C templates get: one frozen context each, finished text and numbers only."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AxisLoop:
    """A loop over an axis, in rows of ``width`` when one is given, with lines for each level.

    ``setup`` stands before all loops, ``outer_lines`` in the loop around, ``row_lines`` in that
    over rows, ``lines`` in the innermost; ``value`` is what it computes. With a ``window`` (low,
    high) the value is 0 outside of it. ``copied`` values are
    elements of a buffer, neighbours for neighbours.
    """

    axis: str
    row: str
    column: str
    width: str
    setup: tuple[str, ...]
    outer_lines: tuple[str, ...]
    row_lines: tuple[str, ...]
    lines: tuple[str, ...]
    value: str
    window: tuple[str, str] = ("", "")
    copied: bool = False


@dataclass(frozen=True, slots=True)
class MatmulContext:
    """A product: columns ``v`` are packed, rows ``s`` read in place or copied, sums stored.

    ``direct`` has the first element of rows read in place as ``value`` ("" if they must be copied)
    and their distance as ``width``. With ``in_pairs`` both factors are bfloat16, of which some
    processors multiply pairs; rows are read in place by these alone.
    """

    name: str
    comments: tuple[str, ...]
    parameters: tuple[str, ...]
    batch: tuple[tuple[str, str], ...]
    batch_extent: str
    v_extent: str
    s_extent: str
    k_extent: str
    pack: AxisLoop
    pack_depth_inner: bool
    rows: AxisLoop
    direct: AxisLoop
    in_pairs: bool
    panel_is_inner: bool
    store: AxisLoop


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a factor: how they are copied, and where they lie if that is as good."""

    copied: AxisLoop
    direct: AxisLoop  # lines, the first element as ``value`` ("" if there is none), ``width`` apart
    kind: str  # the type they have where they are multiplied: "float32" or "bfloat16"


@dataclass(frozen=True, slots=True)
class GemvContext:
    """A product with few rows ``s``: dot products with every column ``v``."""

    name: str
    comments: tuple[str, ...]
    parameters: tuple[str, ...]
    batch: tuple[tuple[str, str], ...]
    batch_extent: str
    v_extent: str
    s_extent: str
    k_extent: str
    few: Rows
    many: Rows
    store: AxisLoop


@dataclass(frozen=True, slots=True)
class Slot:
    """Two loops: lines before both, in the outer, in the inner, and the value there."""

    setup: tuple[str, ...]
    outer_lines: tuple[str, ...]
    lines: tuple[str, ...]
    value: str


@dataclass(frozen=True, slots=True)
class AttentionContext:
    """Attention: logits are weighed and results stored through slots.

    Queries are copied; with few of them keys and values are read where they lie, if they can be.
    Each ``shared_heads`` heads that follow each other have the same keys and values.
    """

    name: str
    comments: tuple[str, ...]
    parameters: tuple[str, ...]
    batch: tuple[tuple[str, str], ...]
    batch_extent: str
    i_extent: str
    j_extent: str
    d_extent: str
    e_extent: str
    query: AxisLoop
    key: Rows
    value: Rows
    shared_heads: str
    product: str
    causal: bool
    logits: Slot
    weight: str
    kept: str
    store: Slot
