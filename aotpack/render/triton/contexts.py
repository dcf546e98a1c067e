"""What the templates of Triton kernels get: frozen contexts of finished text and numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TileAxis:
    """One axis of a tile: how long it is in all, its block, and whether accesses need a mask."""

    extent: str
    block: int
    masked: bool


@dataclass(frozen=True, slots=True)
class ClusterContext:
    """A row in parts of ``length`` (text), one for each program of the cluster."""

    cluster_size: int
    length: str


@dataclass(frozen=True, slots=True)
class LookBackContext:
    """Blocks of ``rows`` (text) rows in turn, counted at ``turn``; ``group`` look at each other."""

    turn: str
    rows: str
    group: int


@dataclass(frozen=True, slots=True)
class MailboxContext:
    """A program's mailbox in a cluster: its bytes, and the places of its counters (mbarriers)."""

    bytes: int
    counters: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class WordContext:
    """A word that goes to all ``programs`` of a cluster; ``register`` as in inline assembly."""

    bits: int
    bytes: int
    register: str
    programs: int


@dataclass(frozen=True, slots=True)
class RingContext:
    """A ring in shared memory behind ``start`` bytes of Triton's, in cache lines of ``line``."""

    start: int
    line: int


@dataclass(frozen=True, slots=True)
class VectorContext:
    """A thread's ``vector`` elements in shared memory; ``operands`` as in inline assembly."""

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
    """A scatter by compare and swap of words of so many bits."""

    kind: str
    bits: int
    type: str  # of the elements, in Triton


@dataclass(frozen=True, slots=True)
class SimpleContext:
    """The combination of a monoid whose state is an element, as text."""

    name: str
    result: str


@dataclass(frozen=True, slots=True)
class ExponentialContext:
    """The functions of a sum of exponentials."""

    name: str
    log2_e: float


@dataclass(frozen=True, slots=True)
class ExtremeContext:
    """The functions of a monoid that finds a position: of equals by ``tie``, "" for the first."""

    name: str
    extremum: str  # "max" or "min"
    sign: str
    tie: str


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
    x: TileAxis  # a block of 0: one row a program
    r: TileAxis | None
    is_flat: bool  # the tile has one dimension
    persistent: bool
    lines: tuple[str, ...]
    program: str
    is_launched: bool  # else a kernel calls it for some of its programs
    band: int = 1  # lines of tiles that programs go through together
    cluster: ClusterContext | None = None
    is_row_pipeline: bool = False  # among the lines is a loop over rows
    look_back: LookBackContext | None = None


@dataclass(frozen=True, slots=True)
class HorizontalContext:
    """Several loop kernels as functions, and the lines by which a program finds its own."""

    name: str
    comments: tuple[str, ...]
    functions: tuple[str, ...]
    members: tuple[LoopContext, ...]
    parameters: tuple[str, ...]
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Copy:
    """How the copy engine loads a factor: a ``block`` from ``places`` into its shared ``tiles``.

    They lie there as ``box`` says, transposed beside the factor if ``is_turned``.
    """

    block: str
    places: str
    tiles: str
    box: tuple[int, ...]
    is_turned: bool


@dataclass(frozen=True, slots=True)
class Factor:
    """How a factor is loaded: lines of the program, of a tile, of a step; what it is called."""

    before: tuple[str, ...]
    setup: tuple[str, ...]
    body: tuple[str, ...]
    name: str
    copy: Copy | None = None  # if its block lies at a fixed place


@dataclass(frozen=True, slots=True)
class ColumnsContext:
    """A block of columns, ``offset`` behind the first of a tile: its factor, what it is made into.

    Its names end in ``suffix``.
    """

    suffix: str
    offset: int
    block: int
    rhs: Factor
    epilogue: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SplitContext:
    """The parts of a sum that ``splits`` programs make; ``counters`` has one for each tile.

    The last program reads them one by one, or all at once: ``walk`` is a range of Triton.
    """

    splits: int
    walk: str
    parts: str  # pointer
    counters: str  # pointer


@dataclass(frozen=True, slots=True)
class SpecialPart:
    """A block of columns in a kernel whose warps have roles; ``rhs`` is in shared memory.

    The ``early`` loads of columns are ``held`` during the sums, each by a thread. A factor that is
    ``spread`` gives each thread neighbours of a row, in the layout ``result``. Those of others are
    stored through shared memory, by ``lanes`` threads a row, if it ``has_rows``.
    """

    suffix: str
    offset: int
    block: int
    rhs: str
    spread: str  # the sums as the sums of neighbours, "" as they are
    result: str
    lanes: int
    early: tuple[str, ...]
    held: tuple[str, ...]
    epilogue: tuple[str, ...]
    has_rows: bool


@dataclass(frozen=True, slots=True)
class SpecialContext:
    """Roles of warps: one requests factors, others multiply; ``bytes`` are of a step.

    Each of ``groups`` has ``warps``. The kernel takes ``descriptors``, and uses the ``copies``.
    """

    descriptors: tuple[str, ...]
    copies: tuple[Copy, ...]
    lhs: str
    parts: tuple[SpecialPart, ...]
    accs: str
    groups: int
    warps: int
    stages: int
    bytes: int
    operand: str
    accumulator: str


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
    n_block: int  # of all columns
    k_block: int
    m_masked: bool
    n_masked: bool
    k_masked: bool
    by_steps: bool  # factors are indexed by the number of a step, not by k
    k_range: str  # of a program's steps, or elements
    split: SplitContext | None
    persistent: bool
    group: int
    batch: tuple[tuple[str, str], ...]  # (name, expression of the program's batch number)
    batch_count: str  # "" or a factor: how many products there are
    lhs: Factor
    columns: tuple[ColumnsContext, ...]
    accumulator: str
    precision: str
    special: SpecialContext | None = None

    @property
    def factors(self) -> tuple[Factor, ...]:
        """The left one, and the right one of each block of columns."""
        return (self.lhs, *(one.rhs for one in self.columns))


@dataclass(frozen=True, slots=True)
class DiagonalContext:
    """Sums on diagonals of ``rows`` rows of the matrix unit; ``has_runs`` with scales of groups."""

    functions: tuple[str, ...]
    lines: tuple[str, ...]
    rows: int
    has_runs: bool


@dataclass(frozen=True, slots=True)
class OneRowContext:
    """One row in the matrix unit: its shape (``ir/kernels/one_row.py``), and lines up to the sums.

    Eight columns are a block; it has 16 of the ``rows`` of the unit's left factor. ``requests`` are
    of a tile's codes, some of which have ``places`` in shared memory. ``early`` lines come before
    the wait, those of the ``row`` behind it, then the ``products``.
    """

    warps: int
    blocks: int
    chunk: int
    steps: int
    in_thread: int  # elements of the row
    is_digits: bool
    has_scales: bool
    accumulator: str
    places: tuple[str, ...]
    requests: tuple[str, ...]
    early: tuple[str, ...]
    row: tuple[str, ...]
    products: tuple[str, ...]
    functions: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """Two for each column."""
        return 16 * self.blocks


@dataclass(frozen=True, slots=True)
class FewRowsContext:
    """Products of few rows: ``lines`` make their sums of a tile, one for each run of lanes of k."""

    name: str
    comments: tuple[str, ...]
    functions: tuple[str, ...]
    parameters: tuple[str, ...]
    index_type: str
    m_extent: str
    n_extent: str
    m_block: int
    n_block: int
    k_block: int
    run: int
    m_masked: bool
    n_masked: bool
    accumulator: str
    sums: tuple[str, ...]
    row_sums: tuple[str, ...]
    constants: tuple[str, ...]
    early: tuple[str, ...]
    lines: tuple[str, ...]
    epilogue: tuple[str, ...]
    tiles: str = ""  # that programs go through; "": each has one
    has_idle: bool = False  # programs without a tile, which are there until the wait is over
    diagonal: DiagonalContext | None = None
    one_row: OneRowContext | None = None

    @property
    def lanes(self) -> int:
        """The sums of a result, which a program's threads hold."""
        return self.k_block // self.run
