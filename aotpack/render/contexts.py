"""Contexts of templates: one frozen dataclass each, with finished text and numbers only."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TileAxis:
    """One axis of a tile: its extent, its block, and whether accesses need a mask."""

    extent: str
    block: int
    masked: bool


@dataclass(frozen=True, slots=True)
class ClusterContext:
    """A cluster reduction: each program of the cluster has ``length`` (text) elements of a row."""

    cluster_size: int
    length: str


@dataclass(frozen=True, slots=True)
class LookBackContext:
    """A look-back: blocks of ``rows`` (text) rows, numbered by ``turn``, in groups of ``group``."""

    turn: str
    rows: str
    group: int


@dataclass(frozen=True, slots=True)
class MailboxContext:
    """A program's mailbox in a cluster: its bytes, and the offsets of its counters (mbarriers)."""

    bytes: int
    counters: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class WordContext:
    """A word sent to all ``programs`` of a cluster; ``register`` is the constraint in assembly."""

    bits: int
    bytes: int
    register: str
    programs: int


@dataclass(frozen=True, slots=True)
class RingContext:
    """A ring in shared memory behind Triton's ``start`` bytes, aligned to ``line`` bytes."""

    start: int
    line: int


@dataclass(frozen=True, slots=True)
class VectorContext:
    """A thread's ``vector`` elements in shared memory; ``operands`` are constraints in assembly."""

    dtype: str
    type: str  # in Triton
    vector: int
    operands: str


@dataclass(frozen=True, slots=True)
class AtomicContext:
    """A scatter by an atomic instruction of Triton."""

    kind: str
    instruction: str


@dataclass(frozen=True, slots=True)
class SwapContext:
    """A scatter by compare-and-swap on words of ``bits`` bits."""

    kind: str
    bits: int
    type: str  # of the elements, in Triton


@dataclass(frozen=True, slots=True)
class LoopContext:
    """A pointwise or reduction kernel: definitions of its indices, then the body."""

    name: str
    comments: tuple[str, ...]
    functions: tuple[str, ...]  # source of the combine functions the kernel calls
    parameters: tuple[str, ...]
    index_type: str  # "" or ".to(tl.int64)"
    z: TileAxis | None
    y: TileAxis | None
    x: TileAxis  # a block of 0: one row for each program
    r: TileAxis | None
    is_flat: bool  # the tile has one dimension
    persistent: bool
    lines: tuple[str, ...]
    program: str
    is_launched: bool  # else it is a function that a kernel calls
    band: int = 1  # lines of tiles in a group, for reuse in L2
    cluster: ClusterContext | None = None
    is_row_pipeline: bool = False  # the lines have a loop over rows
    look_back: LookBackContext | None = None


@dataclass(frozen=True, slots=True)
class HorizontalContext:
    """Several loop kernels as functions, and the lines that find a program's function."""

    name: str
    comments: tuple[str, ...]
    functions: tuple[str, ...]
    members: tuple[LoopContext, ...]
    parameters: tuple[str, ...]
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Factor:
    """The loads of a factor: lines for the program, for a tile, for a step, and its name."""

    before: tuple[str, ...]
    setup: tuple[str, ...]
    body: tuple[str, ...]
    name: str


@dataclass(frozen=True, slots=True)
class MatmulContext:
    """A tiled matrix product with load slots for its operands and a store slot for the result."""

    name: str
    comments: tuple[str, ...]
    functions: tuple[str, ...]
    parameters: tuple[str, ...]
    index_type: str
    m_extent: str
    n_extent: str
    k_extent: str
    m_block: int
    n_block: int
    k_block: int
    m_masked: bool
    n_masked: bool
    k_masked: bool
    persistent: bool
    group: int
    batch: tuple[tuple[str, str], ...]  # (name, expression of the program's batch number)
    batch_count: str  # "" or a factor: how many products there are
    lhs: Factor
    rhs: Factor
    accumulator: str
    precision: str
    epilogue: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KeyBlock:
    """The lines of one step over keys, and the names or texts of its tiles."""

    edge: bool  # keys may be out of bounds, or masked by causality
    key_lines: tuple[str, ...]
    key: str
    value_lines: tuple[str, ...]
    value: str
    logits_lines: tuple[str, ...]
    bias: str
    mask: str


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
    query: str
    blocks: tuple[KeyBlock, ...]
    epilogue: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LaunchContext:
    """One launch: ``choices`` are (condition, Launch expression), the last without a condition.

    An expression may be a tuple of launches in order.
    """

    choices: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class NestedContext:
    """A step with parts: the opening of a ``Branch`` or ``Loop`` call, then its parts."""

    comment: str
    head: str
    parts: tuple[PartContext, ...]


@dataclass(frozen=True, slots=True)
class PartContext:
    """Intermediates (name, bytes, first and last launch) and launches; ``name`` is "" or "x="."""

    name: str
    buffers: tuple[tuple[str, str, int, int], ...]
    launches: tuple[LaunchContext | NestedContext, ...]
    counters: tuple[tuple[str, str], ...] = ()  # name, bytes


@dataclass(frozen=True, slots=True)
class PlanContext:
    """A plan and its condition on ``arch``; the last plan has none."""

    condition: str
    body: PartContext


@dataclass(frozen=True, slots=True)
class WrapperContext:
    """The tables of ``wrapper.py``; all entries are Python expressions in the parameters."""

    title: str
    imported: tuple[str, ...]
    parameters: tuple[str, ...]
    outputs: tuple[str, ...]
    plans: tuple[PlanContext, ...]
    has_choices: bool = False
