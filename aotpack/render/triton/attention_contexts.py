"""What the templates of attention in Triton get; the texts are finished, as in ``contexts``."""

from __future__ import annotations

from dataclasses import dataclass

from aotpack.render.triton.contexts import TileAxis


@dataclass(frozen=True, slots=True)
class KeyBlock:
    """The lines of one step over keys, and the names or texts of what they load."""

    edge: bool  # some of its keys may lie outside, or after a query that must not see them
    key_lines: tuple[str, ...]
    key: str
    value_lines: tuple[str, ...]
    value: str
    logits_lines: tuple[str, ...]
    bias: str
    mask: str


@dataclass(frozen=True, slots=True)
class FirstBlock:
    """The first block of a program: ``requests`` of cached rows come before the wait.

    So do ``setup`` lines, which say which keys a program has.
    """

    setup: tuple[str, ...]
    requests: tuple[str, ...]
    block: KeyBlock


@dataclass(frozen=True, slots=True)
class QueryContext:
    """The tile of queries: ``lines`` load it in each step, if not before all of them."""

    lines: tuple[str, ...]
    name: str


@dataclass(frozen=True, slots=True)
class KeyRangeContext:
    """Positions: the mask allows no keys before ``lowest`` or behind ``highest``.

    Up to ``clear`` it allows all keys to all queries of a tile.
    """

    lowest: tuple[str, ...]
    highest: tuple[str, ...]
    clear: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KeySplitContext:
    """The parts of a tile's rows that ``splits`` (text) programs make, each over some keys.

    Memory has all values, and from ``statistics`` on the maxima and sums of the rows of each part.
    With ``part_bytes`` they are in the shared memory of the first program of a cluster: a part has
    so many, its maxima and sums begin at the byte ``statistics`` of it.
    """

    splits: str
    i: TileAxis  # the rows of a part
    together: int  # parts that are added at once
    statistics: int
    parts: str  # pointer, or the name of a place in shared memory
    counters: str  # pointer
    part_bytes: int = 0


@dataclass(frozen=True, slots=True)
class HeadCopy:
    """How the copy engine loads a ``block`` of a factor's heads, which begins at ``start``.

    From ``places`` of its ``descriptor``, which ``lines`` make, into shared ``tiles``, which lie
    as ``box`` says. Results of such a block are stored by ``lanes`` threads a row, ``lane_rows``
    rows each, or where they lie with 0 lanes.
    """

    block: int
    start: int
    descriptor: str
    lines: tuple[str, ...]
    places: str
    tiles: str
    box: tuple[int, ...]
    lanes: int
    lane_rows: int


@dataclass(frozen=True, slots=True)
class AttentionRoles:
    """One warp requests keys and values; ``groups`` of warps attend, ``rows`` queries each.

    Bytes are of the queries of a group, and of keys and values of a step.
    """

    query: tuple[HeadCopy, ...]
    key: tuple[HeadCopy, ...]
    value: tuple[HeadCopy, ...]
    groups: int
    rows: int
    stages: int
    registers: int
    query_bytes: int
    key_bytes: int
    value_bytes: int

    @property
    def copies(self) -> tuple[HeadCopy, ...]:
        """Those of all factors."""
        return (*self.query, *self.key, *self.value)


@dataclass(frozen=True, slots=True)
class AttentionContext:
    """Flash attention forward with load slots for query, key, value, mask and bias."""

    name: str
    comments: tuple[str, ...]
    functions: tuple[str, ...]
    parameters: tuple[str, ...]
    index_type: str
    heads: str  # batch times heads
    batch: tuple[tuple[str, str], ...]
    i: TileAxis
    j: TileAxis
    d: TileAxis
    e: TileAxis
    causal: bool
    natural: bool  # logits in natural units, for masks and biases; else scaled to powers of two
    scale: str
    scale_log2: str
    operand: str
    accumulator: str
    precision: str
    setup: tuple[str, ...]
    query: QueryContext
    first: FirstBlock | None
    blocks: tuple[KeyBlock, ...]
    keys: KeyRangeContext
    sums_late: bool  # each column of a step has a sum of its own until all keys are seen
    split: KeySplitContext | None
    epilogue: tuple[str, ...]
    roles: AttentionRoles | None = None
