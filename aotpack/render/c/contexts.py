"""Contexts of the C templates: one frozen dataclass each, with finished text and numbers only.

A slot is a place of a template where generated lines go: loads of operands, the epilogue.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AxisLoop:
    """A loop nest over an axis, split in rows of ``width`` where given, with lines at each depth.

    ``setup`` goes before all loops, ``outer_lines`` into the outer loop, ``row_lines`` into the
    loop over rows, ``lines`` into the innermost, which computes ``value``. With a ``window`` (low,
    high) the value is 0 outside of it. ``copied`` values are contiguous elements of a buffer. Rows
    with a ``condition`` are 0 unless it holds.
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
    condition: str = ""


@dataclass(frozen=True, slots=True)
class RunCopy:
    """Copies of a factor's rows, run by run: rows ``s`` have elements ``k``, both split or not.

    Lines go before all loops (``setup``), into the loops over rows of ``s``, rows of ``k``, columns
    of ``s`` and columns of ``k``. With a ``window`` (low, high) along a run, elements are 0 outside
    of it; where it ``slides`` by whole columns, rows between two that are inside are inside too.
    ``copied`` elements are contiguous in a float32 buffer. With a number as ``step`` neighbouring
    rows that are inside lie so far apart, and all have their elements at the same places, in
    ``k_rows`` runs: they are read where they are.
    """

    s_row: str
    s_column: str
    s_width: str
    k_row: str
    k_column: str
    k_width: str
    setup: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    value: str
    window: tuple[str, str]
    slides: bool
    copied: bool
    step: str = ""
    k_rows: str = ""


@dataclass(frozen=True, slots=True)
class MatmulContext:
    """A product: columns ``v`` are packed in panels, rows ``s`` read in place or copied.

    ``panels`` has the first element of panels that lie in memory as ``value`` ("" if none do). The
    columns of a tile are those between ``bounds``, in numbers where they are the same for all.
    ``direct`` has the first element of rows read in place as ``value`` ("" if they must be copied)
    and their stride as ``width``. With ``in_pairs`` both factors are bfloat16, which some
    processors multiply in pairs; rows are read in place by these alone.
    """

    name: str
    comments: tuple[str, ...]
    parameters: tuple[str, ...]
    batch: tuple[tuple[str, str], ...]
    batch_extent: str
    v_extent: str
    s_extent: str
    k_extent: str
    bounds: tuple[str, str]
    panels: AxisLoop
    pack: AxisLoop
    pack_depth_inner: bool
    rows: RunCopy
    direct: AxisLoop
    in_pairs: bool
    panel_is_inner: bool
    store: AxisLoop


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns of a window's rows: ``taps`` of each row, for a ``tile`` of positions.

    They lie ``pitch`` apart in the image, ``weight_pitch`` in the weight. Positions are ``stride``
    columns apart, taps ``dilation``.
    """

    taps: int
    stride: int
    dilation: int
    pitch: int
    weight_pitch: int
    tile: int


@dataclass(frozen=True, slots=True)
class DepthwiseContext:
    """Sums over windows, for a tile of positions of a line and a vector of channels.

    A line is a point of the ``outer`` digits. A window has ``rows``, the points of these digits,
    with the same ``columns``. Of a row the columns between the two numbers ``inside`` are in the
    image wherever ``conditions`` hold. Lines of ``sums`` go before all loops, into a line and into
    a row; those of ``stores`` before all loops, into a line, and into each of two inner loops.
    """

    name: str
    comments: tuple[str, ...]
    lines: str
    outer: tuple[str, ...]
    outer_lines: tuple[str, ...]
    rows: tuple[tuple[str, str], ...]
    columns: Columns
    position: str
    positions: str
    inside: tuple[str, str]
    lanes: str
    channels: str
    sums: tuple[tuple[str, ...], ...]
    conditions: str
    image: str
    image_type: str
    weight: str
    weight_type: str
    stores: tuple[tuple[str, ...], ...]
    parameters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a factor: how to copy them, and how to read them in place where possible."""

    copied: AxisLoop
    direct: AxisLoop  # lines, the first element as ``value`` (or ""), the stride as ``width``
    kind: str  # their type in the product: "float32" or "bfloat16"


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
    """Two nested loops: lines before both, in the outer, in the inner, and the value there."""

    setup: tuple[str, ...]
    outer_lines: tuple[str, ...]
    lines: tuple[str, ...]
    value: str


@dataclass(frozen=True, slots=True)
class AttentionContext:
    """Attention: slots scale and mask the logits, and store the results.

    Queries are copied; with few of them keys and values are read in place where possible. Each
    ``shared_heads`` consecutive heads have the same keys and values (grouped-query attention).
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
