"""What the template of loops in one launch gets: a frozen context of finished text and numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TurnsExchange:
    """A state that programs exchange: ``size`` elements for a turn, behind ``pointer``.

    It begins as ``first``; a turn makes ``next``. ``products`` are the names of sums, and of their
    factors; where ``together`` is more than 1 all are one, which the lines of ``parts`` take apart.
    """

    pointer: str
    size: str
    depth: int
    depth_masked: bool
    mask: str  # of a load of all units
    own_mask: str  # of a store of the program's units
    first: str
    next: str
    products: tuple[tuple[str, str], ...]
    parts: tuple[str, ...]
    precision: str
    together: int


@dataclass(frozen=True, slots=True)
class TurnsContext:
    """A loop over turns: lines before it, in a turn before and behind the wait, and after it.

    ``across`` programs have all units of a row.
    """

    name: str
    comments: tuple[str, ...]
    functions: tuple[str, ...]
    parameters: tuple[str, ...]
    index_type: str
    turns: str
    rows: int
    units: int
    across: str
    row_extent: str
    unit_extent: str
    rows_masked: bool
    units_masked: bool
    setup: tuple[str, ...]
    early: tuple[str, ...]
    body: tuple[str, ...]
    stores: tuple[str, ...]
    last: tuple[str, ...]
    exchange: TurnsExchange | None
