"""Nested regions of kernel text, straight code and loops; a line goes to the outermost possible.

A region knows the kernel axes with a value in it. A line that does not depend on a loop's axis
goes before the loop, even if it is first needed inside (loop-invariant code motion).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from aotpack.ir.symbolic.integers import Axis
from aotpack.ir.values import Value

INDENT = "    "


class Computed(NamedTuple):
    """A key for names: a value, valid where its guards hold."""

    value: Value
    guards: tuple[str, ...] = ()


@dataclass(slots=True)
class Region:
    """Lines and inner regions in order. ``header`` is the loop statement, None without a loop.

    An inner region without a loop is straight code in which more axes have a value.
    """

    axes: frozenset[Axis]
    header: str | None = None
    parent: Region | None = None
    items: list[str | Region] = field(default_factory=list)
    names: dict[object, str] = field(default_factory=dict)
    open_at: int | None = None  # the place of the inner region that is open

    def append(self, line: str) -> None:
        """Add a line: before the inner region while one is open, else at the end."""
        if self.open_at is None:
            self.items.append(line)
        else:
            self.items.insert(self.open_at, line)
            self.open_at += 1

    def open(
        self, header: str | None, axes: frozenset[Axis], names: dict[object, str] | None = None
    ) -> Region:
        """Start an inner region at this point; ``names`` are those that it knows already."""
        inner = Region(self.axes | axes, header, self, names={} if names is None else names)
        self.open_at = len(self.items)
        self.items.append(inner)
        return inner

    def close(self) -> None:
        """End the open loop; later lines come after it."""
        self.open_at = None

    def home(self, needed: frozenset[Axis]) -> Region:
        """The outermost region around this one in which all ``needed`` axes have a value."""
        if self.parent is not None and needed <= self.parent.axes:
            return self.parent.home(needed)
        return self

    def find(self, key: object) -> str | None:
        """The name already given to ``key`` here or around here."""
        if key in self.names:
            return self.names[key]
        return self.parent.find(key) if self.parent else None

    def lines(self, depth: int = 0) -> Iterator[str]:
        """The text, indented; an empty loop prints nothing."""
        for item in self.items:
            if isinstance(item, str):
                yield INDENT * depth + item
            elif item.header is None:
                yield from item.lines(depth)
            elif item.items:
                yield f"{INDENT * depth}{item.header}"
                yield from item.lines(depth + 1)
